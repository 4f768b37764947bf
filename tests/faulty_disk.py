"""A disk that is full at one operation, whichever that is."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

OPERATIONS = ("fsync", "rename", "replace", "mkdir", "symlink", "link", "pwrite")


def failing(operation: Callable[..., Any], calls: Iterator[int], number: int) -> Callable[..., Any]:
    """An operation that finds the disk full when ``calls``, which others may share, is there."""

    def called(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return operation(*arguments, **options)

    return called


@contextmanager
def full_at(number: int, *operations: str) -> Iterator[Callable[[], bool]]:
    """The n-th of these operations fails; whether there were so many."""
    calls = itertools.count(1)
    with pytest.MonkeyPatch.context() as patched:
        for name in operations or OPERATIONS:
            patched.setattr(os, name, failing(getattr(os, name), calls, number))
        yield lambda: next(calls) > number
