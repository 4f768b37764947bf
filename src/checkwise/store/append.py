"""Adding to the end of a file: all of it reaches the disk, or nothing of it stays."""

from __future__ import annotations

import os
from contextlib import suppress


def append_whole(file: int, content: bytes, *, at: int) -> None:
    """Write ``content`` behind the first ``at`` bytes of an open file, and sync it.

    A short write is continued. Where that fails the file is cut back to ``at`` bytes, and the
    ``OSError`` goes on to whoever knows what the file is for.
    """
    try:
        view = memoryview(content)
        while view:
            view = view[os.pwrite(file, view, at + len(content) - len(view)) :]
        os.fsync(file)
    except OSError:
        with suppress(OSError):  # readers pass over a torn line anyway
            os.ftruncate(file, at)
        raise
