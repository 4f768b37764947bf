"""What can go wrong with a folder of runs, and one line about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkwise.errors import CheckwiseError

_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space, or raise the limit on the size of a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "allow more open files (`ulimit -n`)",
    errno.ENFILE: "close other programs, which hold too many files open",
}


class StoreError(CheckwiseError):
    """A folder cannot be written; what is in it is whole and the same command continues it."""


class LeaseLostError(CheckwiseError):
    """Another process has taken this run over; nothing more may be written to it."""


@contextmanager
def writing(folder: Path, *, then: str = "it continues where it stopped") -> Iterator[None]:
    """Say in one line that ``folder`` is full or cannot be written, and how to go on."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"Expected to write to {folder}, but got: {reason.lower()}; "
            f"{remedy(error, 'make the folder writable')} and run the same command "
            f"again: {then}."
        ) from error


def remedy(error: OSError, otherwise: str) -> str:
    """What to do about a file that cannot be had: by its reason, or what helps with all others."""
    return _REMEDIES.get(error.errno or 0, otherwise)
