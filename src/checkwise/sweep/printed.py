"""What the training of a run prints goes to a file, which is made with the first line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO


@contextmanager
def printed_to(path: Path) -> Iterator[None]:
    """Add everything that Python code prints inside the block to the end of a file."""
    log = _Log(path)
    with log, redirect_stdout(log), redirect_stderr(log):
        yield


class _Log(io.TextIOBase):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
        self._file.write(text)
        self._file.flush()
        return len(text)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()
