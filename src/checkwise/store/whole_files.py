"""Writing files: they appear complete or not at all, and errors of the disk say what to do."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from checkwise.errors import CheckwiseError, InputError

_REMEDIES: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space, or raise the limit on the size of a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "allow more open files (`ulimit -n`)",
    errno.ENFILE: "close other programs, which hold too many files open",
}
_KINDS: Final = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place.

    The temporary file is flushed to disk before the rename, and the folder after it, so that a
    crash leaves either the old file or the new one. A link stays and its target is written.
    """
    path = _file_to_write(Path(path))
    temporary = _temporary(path)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)
        fault = _disk_fault(error)
        if fault is None:
            raise
        fault.filename, fault.filename2 = str(path), None  # not the temporary name
        raise fault from None


def check_writable(path: Path) -> None:
    """Check that ``path`` can be written, before the work for it; nothing is left behind.

    Missing folders are made for this and removed again.
    """
    path = _file_to_write(Path(path))
    missing = [folder for folder in path.absolute().parents if not folder.exists()]
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        for folder in missing:
            with suppress(OSError):  # not made, or another process has put something there
                folder.rmdir()


def _file_to_write(path: Path) -> Path:
    """Where writing to ``path`` ends up, behind links."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFREG
    if kind != stat.S_IFREG:
        raise InputError(
            f"Expected a file to write, but {path} is a {_KINDS.get(kind, 'device')}: choose "
            "another.",
            code="exists",
        )
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8; half of a surrogate pair, which UTF-8 cannot hold, as an escape."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes."""
    write_with(path, lambda temporary: temporary.write_bytes(content))


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that renames and new names in it survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file to disk; a link that leads nowhere has nothing to flush."""
    if path.is_symlink() and not path.exists():
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync_file(Path(place, name))
        sync_folder(Path(place))


class StoreError(InputError):
    """A folder cannot be written; its files are whole, and the same command continues."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="system")


@contextmanager
def writing(
    folder: Path, what: str = "", *, then: str = "it continues where it stopped"
) -> Iterator[None]:
    """Turn an error of the disk into one line: what cannot be written where, and what to do."""
    try:
        yield
    except CheckwiseError:
        raise
    except Exception as error:
        fault = _of_disk(error)
        if fault is None:
            raise
        reason = fault.strerror or str(fault)
        raise StoreError(
            f"Expected to write {what}{' ' * bool(what)}to {folder}, but got: {reason.lower()}; "
            f"{disk_remedy(fault, 'make the folder writable')} and run the same command "
            f"again: {then}."
        ) from error


def _of_disk(error: Exception) -> OSError | None:
    """The error of the system; HDF5 and safetensors have their own kinds, and quote it."""
    full = os.strerror(errno.ENOSPC)
    if full in str(error):
        return OSError(errno.ENOSPC, full)
    return error if isinstance(error, OSError) else None


def disk_remedy(error: OSError, otherwise: str) -> str:
    """What to do about a file that cannot be read or written: by its reason, or ``otherwise``."""
    return _REMEDIES.get(error.errno or 0, otherwise)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")


def remove_unwritten(path: Path) -> None:
    """Delete what killed processes left of a file that they were writing."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        left.unlink(missing_ok=True)


def _disk_fault(error: BaseException) -> OSError | None:
    """The error of the disk behind an error; some writers raise another one in its place."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    return cause
