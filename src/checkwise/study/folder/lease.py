"""Who works on a run, and why tries at it failed.

A lease only spares work: two workers on one run never harm each other (``attempts.py``). On
one machine the system's lock tells whether its holder lives, and a killed one lets go at once.
Between machines, on a disk without locks, and of a process that was stopped, its silence tells.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self, get_type_hints

from checkwise.errors import InputError
from checkwise.store import (
    LAYOUT_SCHEMA,
    LEASE_FILE,
    attempts_folder,
    check_tree,
    encode_json,
    has_file,
    open_file,
    parse,
    read_file,
    write_text,
    writing,
)
from checkwise.study.folder import disk

STALE_SECONDS = 300.0
BEAT_SECONDS = 30.0
BEATS_BEFORE_TAKEOVER = 6
SILENT_SECONDS = 3 * BEAT_SECONDS  # a holder that lives has given a sign since
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
_HOLDER: Final = {"token": str, "host": str, "pid": int}
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Holder:
    """Who wrote a lease, and when it was last beaten, by the clock of its disk."""

    host: str
    pid: int
    token: str
    beaten: float

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    def seems_alive(self, now: float) -> bool:
        """On this machine its process tells, elsewhere its silence."""
        return _process_exists(self.pid) if self.is_here else now - self.beaten < STALE_SECONDS


class Lease:
    """A lease that is held; get one from ``take``.

    ``before`` is the holder that it was taken from: one that died or fell silent without giving the
    run back.
    """

    def __init__(self, path: Path, file: int, *, before: Holder | None, beat: float) -> None:
        self.path = path
        self.before = before
        self.token = secrets.token_hex(16)
        self._file = file
        content = {"token": self.token, "host": socket.gethostname(), "pid": os.getpid()}
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(content).encode(), 0)
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, args=(beat,), daemon=True, name="lease")
        self._heart.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def held(self) -> bool:
        """Whether no other process has taken the run over."""
        found = last_holder(self.path.parent)
        return found is not None and found.token == self.token

    def release(self) -> None:
        if self._file < 0:
            return
        self._ended.set()
        self._heart.join()
        with suppress(OSError):
            if self.held():
                self.path.unlink()
        os.close(self._file)
        self._file = -1

    def _beat(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            with suppress(OSError):
                os.utime(self._file)


def take(folder: Path, *, takeover: float = STALE_SECONDS) -> Lease | None:
    """The lease of a folder, or None while another process holds it.

    After ``takeover`` seconds without a beat it is free, even if its process lives.
    """
    path = folder / LEASE_FILE
    beat = min(BEAT_SECONDS, takeover / BEATS_BEFORE_TAKEOVER)
    robbed: Holder | None = None
    with writing(folder):
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            has_file(folder, LEASE_FILE)  # refuses anything but a regular file
            with suppress(FileNotFoundError), ExitStack() as stack:  # its last holder removed it
                file = os.open(path, _FLAGS, 0o666)
                stack.callback(os.close, file)
                locked = _lock(file)
                found = last_holder(folder)
                silent = abs(clock_of(folder) - os.fstat(file).st_mtime) >= takeover
                if not _is_free(found, locked=locked, silent=silent):
                    return None
                check_tree(folder)  # from here on files are written and deleted in it
                if locked is False:  # by a process that was stopped: put a new file in its place
                    path.unlink()
                    robbed = found
                elif os.path.samestat(os.fstat(file), path.stat()):
                    lease = Lease(path, file, before=found or robbed, beat=beat)
                    stack.pop_all()
                    return lease


def _is_free(found: Holder | None, *, locked: bool | None, silent: bool) -> bool:
    """A lock alone tells of this machine; ``silent`` also of a clock that was set back since."""
    if found is None:
        return silent or locked is not False
    return silent or (locked is True and found.is_here)


def _lock(file: int) -> bool | None:
    """Whether a file is locked now; None on a disk without locks (Lustre without `flock`)."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def last_holder(folder: Path) -> Holder | None:
    """Who wrote the lease of a folder; that process may be gone."""
    facts = read_facts(folder, LEASE_FILE, _HOLDER)
    if facts is None or not 0 < facts["pid"] < 2**31:
        return None
    try:
        return Holder(**facts, beaten=(folder / LEASE_FILE).stat().st_mtime)
    except FileNotFoundError:
        return None


def clock_of(folder: Path) -> float:
    """The time by the clock that stamps files in ``folder``, which may not be this machine's."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.", suffix=".tmp") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # Its parent may not have asked yet how it ended, or never will, as in some containers.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # the process of another user, or no /proc
        return True


RETRIES: Final = 2
LONGEST_LINE: Final = 2000
SUFFIX: Final = ".failed"


@dataclass(frozen=True)
class Failure:
    """One failed try."""

    round: str  # the sweep that it belongs to; tries are counted within it
    number: int  # which try it was, from 1
    host: str
    reason: str  # in one line
    log: str = ""  # the file beside this one with the details, if any
    updates: int = 0  # of the furthest saved state of the run afterwards
    lost: bool = False  # its worker ended or fell silent, and the run is tried again


def read_facts(folder: Path, name: str, kinds: Mapping[str, type]) -> dict[str, Any] | None:
    """The facts in a small file that anybody may have written; None where it is damaged."""
    try:
        content = parse(read_file(folder, name))
        facts = {fact: content[fact] for fact in kinds}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return facts if all(type(facts[fact]) is kind for fact, kind in kinds.items()) else None


def write_failure(run: Path, token: str, failure: Failure) -> None:
    content = {"schema": LAYOUT_SCHEMA, **asdict(failure)}
    write_text(attempts_folder(run) / f"{token}{SUFFIX}", encode_json(content))


def read_failures(run: Path) -> list[Failure]:
    place = attempts_folder(run)
    names = [name for name in disk.names(place) or () if name.endswith(SUFFIX)]
    found = [read_facts(place, name, get_type_hints(Failure)) for name in names]
    failures = [Failure(**facts) for facts in found if facts is not None]
    return sorted(failures, key=lambda failure: failure.number)


def tries(failures: list[Failure], round_: str, updates: int) -> int:
    """How many tries of a round have failed.

    Workers that were lost count only if the run got no further since: a machine that is taken away
    now and then is no fault of the run.
    """
    return sum(
        failure.round == round_ and (not failure.lost or failure.updates == updates)
        for failure in failures
    )


def last_failure(run: Path) -> Failure | None:
    """The last failed try at a run; None where none failed, or a worker was lost."""
    failures = [failure for failure in read_failures(run) if not failure.lost]
    return failures[-1] if failures else None


def last_line(run: Path, failure: Failure) -> str | None:
    """The last line that a failed try printed; None where nothing can be read of it."""
    try:
        with open_file(attempts_folder(run), failure.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except (InputError, OSError):
        return None
    return lines[-1].strip() if lines else None
