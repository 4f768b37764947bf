"""What a reader is asked for and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.records.columns import left_out

# Called with checkpoints done and checkpoints in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Request:
    """What the caller wants kept out, which further metrics, and how to compute from outputs."""

    held_out: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    bins: int = 15
    bandwidth: float = 0.1
    progress: Progress | None = None

    @classmethod
    def of(
        cls,
        held_out: str | Iterable[str] | None,
        metrics: str | Iterable[str],
        **settings: Any,
    ) -> Request:
        return cls(left_out(held_out), left_out(metrics), **settings)


@dataclass(frozen=True)
class Found:
    """One run and the place it came from; the key is None where the input does not tell it."""

    key: RunKey | None
    trajectory: Trajectory
    where: str


def build(make: Callable[..., Trajectory], where: str, *args: Any, **facts: Any) -> Trajectory:
    """``make(*args, **facts)`` whose refusal also names the file or run it is about."""
    try:
        return make(*args, **facts)
    except InputError as error:
        named = where in str(error)
        raise InputError(str(error) if named else f"{error} ({where})") from None


def read_bytes(path: Path) -> bytes:
    """The whole file, or one line on why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"Expected a readable file, but {path} cannot be read ({error.strerror}): check its "
            "permissions."
        ) from None
