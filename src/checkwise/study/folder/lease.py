"""Why tries at a run failed: one file for each, written by whoever noticed it."""

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
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from checkwise.errors import CheckwiseError, InputError
from checkwise.store import (
    ERROR_FILE,
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
from checkwise.store import names as disk_names

RETRIES: Final = 2
LONGEST_LINE: Final = 2000
SUFFIX: Final = ".failed"
_KINDS: Final = {
    "round": str,
    "number": int,
    "host": str,
    "reason": str,
    "log": str,
    "updates": int,
    "lost": bool,
}


@dataclass(frozen=True)
class Failure:
    """One failed try.

    Args:
        round: the sweep that it belongs to; tries are counted within it.
        number: which try it was, from 1.
        host: where it ran.
        reason: why it failed, in one line.
        log: the file beside this one with the details; "" without one.
        updates: updates that the furthest saved state of the run had afterwards.
        lost: whether its worker ended or fell silent without a word, and the run is tried again.
    """

    round: str
    number: int
    host: str
    reason: str
    log: str = ""
    updates: int = 0
    lost: bool = False


def write_failure(run: Path, token: str, failure: Failure) -> None:
    """Keep the reason of a failed try; ``token`` is that of its lease."""
    content = {"schema": LAYOUT_SCHEMA, **asdict(failure)}
    write_text(attempts_folder(run) / f"{token}{SUFFIX}", encode_json(content))


def read_failures(run: Path) -> list[Failure]:
    """Every failed try at a run, in order; damaged files are skipped."""
    place = attempts_folder(run)
    names = [name for name in disk_names(place) or () if name.endswith(SUFFIX)]
    failures = [failure for name in names if (failure := _read(place, name)) is not None]
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
    if has_file(run, ERROR_FILE):  # of an older version of checkwise
        lines = read_file(run, ERROR_FILE).decode(errors="replace").strip().splitlines()
        return Failure("", 1, "", lines[-1] if lines else "no reason was recorded")
    failures = [failure for failure in read_failures(run) if not failure.lost]
    return failures[-1] if failures else None


def last_line(run: Path, failure: Failure) -> str | None:
    """The last line that a failed try printed; None where nothing can be read of it."""
    place = attempts_folder(run)
    try:
        with open_file(place, failure.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except (InputError, OSError):
        return None
    return lines[-1].strip() if lines else None


def _read(place: Path, name: str) -> Failure | None:
    try:
        content = parse(read_file(place, name))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict):
        return None
    facts = {entry: content.get(entry) for entry in _KINDS}
    if any(type(facts[entry]) is not kind for entry, kind in _KINDS.items()):
        return None
    return Failure(**facts)  # type: ignore[arg-type]


STALE_SECONDS = 300.0
BEAT_SECONDS = 30.0
SETTLE_SECONDS = 1.0
BEATS_BEFORE_TAKEOVER = 6
SILENT_SECONDS = 3 * BEAT_SECONDS  # a holder that lives has given a sign since
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LeaseLostError(CheckwiseError):
    """Another process has taken this run over; leave it to that process."""

    code = "busy"


@dataclass(frozen=True)
class Holder:
    """Who holds a run."""

    host: str
    pid: int
    token: str


class Lease:
    """A lease that is held; get one from ``take``.

    ``before`` is the holder that it was taken from: one that died or fell silent without giving the
    run back.
    """

    def __init__(
        self, path: Path, file: int, token: str, *, before: Holder | None, beat: float
    ) -> None:
        self.path = path
        self.token = token
        self.before = before
        self._file = file
        self._beat_seconds = beat
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True, name="lease")
        self._heart.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def held(self) -> bool:
        """Whether no other process has taken the run over."""
        return _content(self.path).get("token") == self.token

    def check(self) -> None:
        """Raise ``LeaseLostError`` unless this process still holds the run."""
        if not self.held():
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
            if self.held():
                self.path.unlink()
        os.close(self._file)
        self._file = -1

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_seconds):
            with suppress(OSError):
                os.utime(self._file)


def take(folder: Path, *, takeover: float | None = None) -> Lease | None:
    """The lease of a folder, or None while another process holds it.

    Args:
        folder: what to lock; made if there is none.
        takeover: seconds without a beat after which the lease is free, even if its process lives.
            Without it, a living process of this machine keeps its lease, and one of another
            machine loses it after ``STALE_SECONDS``.
    """
    with writing(folder):
        while True:
            with suppress(FileNotFoundError):  # its holder has let go and removed the folder
                return _take(folder / LEASE_FILE, takeover)


def _take(path: Path, takeover: float | None) -> Lease | None:
    file, locked = _open(path)
    try:
        before = _holder(_content(path))
        elsewhere = before is not None and not is_here(before)
        in_place = locked is True
        if locked is None:  # the process tells instead
            locked = before is None or elsewhere or not _process_exists(before.pid)
        if not _is_free(path, locked=locked, elsewhere=elsewhere, takeover=takeover):
            os.close(file)
            return None
        check_tree(path.parent)  # from here on files are written and deleted in it
        if in_place:
            token = _sign(file)
        else:
            robbed = file
            file, token = _replace(path)
            os.close(robbed)
        if elsewhere and takeover is None:
            # Two machines may take a stale lease over at once: the later token stays.
            time.sleep(SETTLE_SECONDS)
            if _content(path).get("token") != token:
                os.close(file)
                return None
    except (OSError, InputError):
        os.close(file)
        raise
    beat = BEAT_SECONDS if takeover is None else min(BEAT_SECONDS, takeover / BEATS_BEFORE_TAKEOVER)
    return Lease(path, file, token, before=before, beat=beat)


def _open(path: Path) -> tuple[int, bool | None]:
    """The lease's file, and whether this process has locked it; None on a disk without locks."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        has_file(path.parent, path.name)  # refuses anything but a regular file
        file = os.open(path, _FLAGS, 0o666)
        try:
            locked = _lock(file)
            if not locked or _is_at(file, path):
                return file, locked
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its last holder removed this file between our opening and our locking


def _is_free(path: Path, *, locked: bool, elsewhere: bool, takeover: float | None) -> bool:
    if locked and not elsewhere:
        return True
    if takeover is None:
        return locked and _is_silent(path, STALE_SECONDS)
    return _is_silent(path, takeover)


# When a lease was last beaten, and since when this process has seen no later beat.
_beaten: dict[Path, tuple[int, float]] = {}


def _is_silent(path: Path, seconds: float) -> bool:
    """Whether a lease was not beaten for a time, by the disk's clock or while this process looked.

    A lease from before the disk's clock was set back would seem fresh for long.
    """
    beaten, now = path.stat().st_mtime_ns, time.monotonic()
    if path not in _beaten or _beaten[path][0] != beaten:
        _beaten[path] = (beaten, now)
    silent = now - _beaten[path][1] >= seconds or _silence(path) >= seconds
    if silent:
        del _beaten[path]
    return silent


def _sign(file: int) -> str:
    """Write a new token and who this process is; the token."""
    token = secrets.token_hex(16)
    content = json.dumps({"token": token, "host": socket.gethostname(), "pid": os.getpid()})
    os.ftruncate(file, 0)
    os.pwrite(file, content.encode(), 0)
    return token


def _replace(path: Path) -> tuple[int, str]:
    """Put a lease of this process in the place of one that another process has locked."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    file = os.open(temporary, _FLAGS | os.O_EXCL, 0o666)
    try:
        _lock(file)
        token = _sign(file)
        temporary.replace(path)
    except BaseException:
        os.close(file)
        temporary.unlink(missing_ok=True)
        raise
    return file, token


def holder(folder: Path) -> Holder | None:
    """Who seems to hold a run; its lease is not touched."""
    named = _holder(_content(folder / LEASE_FILE))
    if named is None:
        return None
    silent = 0.0 if is_here(named) else silence(folder)
    return named if seems_alive(named, silent) else None


def seems_alive(named: Holder, silent: float) -> bool:
    """Whether a holder lives: on this machine its process tells, elsewhere its silence."""
    return _process_exists(named.pid) if is_here(named) else silent < STALE_SECONDS


def is_here(named: Holder) -> bool:
    """Whether a holder is, or was, a process of this machine."""
    return named.host == socket.gethostname()


def silence(folder: Path) -> float:
    """Seconds since the last beat of a folder's lease, by the clock of its disk."""
    try:
        return _silence(folder / LEASE_FILE)
    except FileNotFoundError:
        return float("inf")


def last_sign(folder: Path) -> tuple[Holder, float] | None:
    """Who wrote the lease of a folder, and when it was last beaten, by the clock of the disk.

    That process may be gone: see ``holder``.
    """
    named = _holder(_content(folder / LEASE_FILE))
    try:
        return None if named is None else (named, (folder / LEASE_FILE).stat().st_mtime)
    except FileNotFoundError:
        return None


def _silence(path: Path) -> float:
    return clock_of(path.parent) - path.stat().st_mtime


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


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(content: dict[str, Any]) -> Holder | None:
    return Holder(content["host"], content["pid"], content["token"]) if content else None


def _content(path: Path) -> dict[str, Any]:
    """Token, host and process of whoever wrote a lease; nothing where the file is damaged."""
    try:
        content = parse(read_file(path.parent, path.name))
    except (OSError, ValueError):
        return {}
    kinds = {"token": str, "host": str, "pid": int}
    whole = isinstance(content, dict) and all(
        type(content.get(name)) is kind for name, kind in kinds.items()
    )
    return content if whole and 0 < content["pid"] < 2**31 else {}


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
