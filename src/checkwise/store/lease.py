"""A lock on a run's folder: one process holds it, and it ends with that process.

On one machine the operating system's file lock decides, and a killed process loses it at once.
Between machines, whose locks may not see each other, a fresh modification time says that the holder
lives. Each holder writes a random token, and reads it back before it commits anything.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from checkwise.errors import CheckwiseError, InputError
from checkwise.store import strict_json
from checkwise.store.atomic_write import writing
from checkwise.store.layout import LEASE
from checkwise.store.safe_read import check_tree, has_file, read_file

STALE_SECONDS = 300.0
BEAT_SECONDS = 30.0
SETTLE_SECONDS = 1.0


class LeaseLostError(CheckwiseError):
    """Another process has taken this run over; nothing more may be written to it."""


class Lease:
    """A lease that is held; get one from ``take``."""

    def __init__(self, path: Path, file: int, token: str) -> None:
        self.path = path
        self.token = token
        self._file = file
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True, name="lease")
        self._heart.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def check(self) -> None:
        """Raise ``LeaseLostError`` unless this process still holds the run."""
        if _content(self.path).get("token") != self.token:
            raise LeaseLostError(
                f"Expected to hold the lease, but another process took it over in {self.path}: "
                "leave the run to that process."
            )

    def release(self) -> None:
        """Give the run back."""
        if self._file < 0:
            return
        self._ended.set()
        self._heart.join()
        with suppress(OSError):
            if _content(self.path).get("token") == self.token:
                self.path.unlink()
        os.close(self._file)
        self._file = -1

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(self._file)


def take(folder: Path) -> Lease | None:
    """The lease of a run's folder, or None while another process holds it."""
    with writing(folder):
        return _take(folder / LEASE)


def _take(path: Path) -> Lease | None:
    while True:
        has_file(path.parent, path.name)  # refuses anything but a regular file
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            held = not _lock(file) or _alive_elsewhere(path)
            if held or _is_at(file, path):
                break
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its last holder removed this file between our opening and our locking
    if held:
        os.close(file)
        return None
    before = _content(path)
    token = secrets.token_hex(16)
    content = json.dumps({"token": token, "host": socket.gethostname(), "pid": os.getpid()})
    try:
        check_tree(path.parent)  # from here on files are written and deleted in it
        os.ftruncate(file, 0)
        os.pwrite(file, content.encode(), 0)
        os.fsync(file)
        if before.get("host", socket.gethostname()) != socket.gethostname():
            # Two machines may take a stale lease over at once: the later token stays.
            time.sleep(SETTLE_SECONDS)
            if _content(path).get("token") != token:
                os.close(file)
                return None
    except (OSError, InputError):
        os.close(file)
        raise
    return Lease(path, file, token)


@dataclass(frozen=True)
class Holder:
    """Who holds a run."""

    host: str
    pid: int


def holder(folder: Path) -> Holder | None:
    """Who seems to hold a run; its lease is not touched."""
    path = folder / LEASE
    content = _content(path)
    if not content:
        return None
    named = Holder(content["host"], content["pid"])
    if named.host == socket.gethostname():
        return named if _process_exists(named.pid) else None
    return named if _alive_elsewhere(path) else None


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _content(path: Path) -> dict[str, Any]:
    """Token, host and process of whoever wrote a lease; nothing where the file is damaged."""
    try:
        content = strict_json.parse(read_file(path.parent, path.name))
    except (OSError, ValueError):
        return {}
    kinds = {"token": str, "host": str, "pid": int}
    whole = isinstance(content, dict) and all(
        type(content.get(name)) is kind for name, kind in kinds.items()
    )
    return content if whole and 0 < content["pid"] < 2**31 else {}


def _alive_elsewhere(path: Path) -> bool:
    content = _content(path)
    if content.get("host", socket.gethostname()) == socket.gethostname():
        return False
    try:
        return _clock_of(path.parent) - path.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return False


def _clock_of(folder: Path) -> float:
    """The time by the clock that stamps files in ``folder``, which may not be this machine's."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.", suffix=".tmp") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
