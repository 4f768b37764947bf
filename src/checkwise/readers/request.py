"""What every reader gets and gives back: a request in, loaded runs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from checkwise import store
from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS, check_bins, is_metric
from checkwise.records import RunKey, Trajectory, as_names, check_sources
from checkwise.store import open_regular

if TYPE_CHECKING:
    from checkwise.store import Validation

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
MARK = b"\xef\xbb\xbf"  # of UTF-8
RESULTS_FILE = "results.jsonl"  # of DomainBed and SWAD
LARGEST_FILE = 1 << 30  # bytes of a table or log; real ones have a few million
# Called with checkpoints done and checkpoints in all.
Progress = Callable[[int, int], None]


class NoRecordsError(InputError):
    """A log without one complete record: a run that has only just started."""


@dataclass(frozen=True)
class Request:
    """What the caller holds out and reads, and the settings for metrics computed from outputs.

    ``n``, ``checkpoints`` and ``include_unsaved`` are for trainers' logs: validation examples (per
    set), a pattern for the files of checkpoints, and whether steps without a file may be chosen.
    ``validation`` is for runs of checkwise with two validation sets.
    """

    held_out: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    n: int | Mapping[str, int] | None = None
    checkpoints: str | None = None
    include_unsaved: bool = False
    validation: Validation | None = None
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    progress: Progress | None = None
    left_out: list[InputError] = field(default_factory=list, compare=False)  # one for each run

    @classmethod
    def of(
        cls,
        held_out: str | Iterable[str] | None,
        metrics: str | Iterable[str],
        *,
        sources: str | Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Request:
        """A request from what callers give: a name or several, a map or none."""
        request = cls(
            held_out=as_names(held_out),
            sources=as_names(sources),
            columns=dict(columns or {}),
            metrics=as_names(metrics),
            **settings,
        )
        both = sorted(set(request.held_out) & set(request.sources))
        if both:
            raise InputError(
                f"Expected {both[0]!r} as held out or as a source, but it is both: leave out "
                "--held-out or --source.",
                code="ambiguous",
            )
        if request.validation is not None:
            store.check_validation(request.validation)
        check_bins(request.bins, request.bandwidth)
        for name in request.metrics:
            is_metric(name)  # an installed distribution may offer it
        return request

    @property
    def reads_otherwise(self) -> bool:
        """Whether the caller says what to read of a log, or where its checkpoints are."""
        told = (self.columns, self.metrics, self.held_out, self.sources)
        return any(told) or self.n is not None or self.checkpoints is not None

    def refuse_columns(self, path: Path) -> None:
        """Refuse a map of columns for an input whose columns have fixed names."""
        if self.columns:
            raise InputError(
                f"Expected a table for --column, but {path} is not a table: leave out --column.",
                code="unsupported",
            )

    def refuse_log_options(self, path: Path, *, is_journal: bool = False) -> None:
        """Refuse what is for trainers' logs, for an input that is none.

        The journal of a live selection names its checkpoints, which may be gone as well.
        """
        options = {
            "--n": self.n is not None,
            "--checkpoints": self.checkpoints is not None,
            "--include-unsaved": self.include_unsaved and not is_journal,
        }
        for option in (name for name, is_set in options.items() if is_set):
            raise InputError(
                f"Expected a trainer's log for {option}, but {path} is none: leave it out (a table "
                "has the columns `n` and `path` for that).",
                code="unsupported",
            )

    def expects_log(self, path: Path, sources: Iterable[str]) -> None:
        """Refuse options that make no sense for a log that itself names sources and targets."""
        self.refuse_columns(path)
        check_sources(self.sources, sorted(sources), str(path))


@dataclass(frozen=True)
class LoadedRun:
    """One run and the place it came from; the key is None where the input has none.

    ``file`` is the log or table that it was read from, None for a folder of outputs or records;
    ``part`` says which of the runs that follow each other in one log it is, "" for the only one.
    """

    key: RunKey | None
    trajectory: Trajectory
    where: str
    file: Path | None = None
    part: str = ""

    @property
    def is_of_callback(self) -> bool:
        """Whether it is a log with the names under which callbacks of checkwise log."""
        columns = self.trajectory.columns
        own = any(column.startswith("checkwise/") for column in columns.values())
        return own or (bool(columns) and "cwece" in self.trajectory.values)


def build(make: Callable[..., Trajectory], where: str, *args: Any, **facts: Any) -> Trajectory:
    """``make(*args, **facts)`` with the file or run named in its errors."""
    try:
        return make(*args, **facts)
    except InputError as error:
        message = str(error) if where in str(error) else f"{error} ({where})"
        raise InputError(message, code=error.code) from None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file to read from, or an error in one line."""
    try:
        with open_regular(path) as file:
            yield file
    except OSError as error:
        raise InputError(
            f"Expected a readable file, but {path} cannot be read ({error.strerror}): check its "
            "permissions.",
            code="system",
        ) from None


def names_in(folder: Path, most: int = 100_000) -> list[str]:
    """The names in a folder, sorted, at most so many; none where it cannot be listed."""
    try:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in islice(found, most))
    except (OSError, ValueError):  # a name that no folder can have
        return []


def size_of(path: Path) -> int:
    """The bytes of a table or log, which may not be too many."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size > LARGEST_FILE:
        raise InputError(
            f"Expected a table or log of at most {LARGEST_FILE >> 20} MiB, but {path} is larger: "
            "leave out what is not source validation, or split it by run.",
            code="unsupported",
        )
    return size


def read_bytes(path: Path) -> bytes:
    """The whole file, or an error in one line."""
    size = size_of(path)
    with opened(path) as file:
        return file.read(size)


def first_bytes(path: Path, number: int) -> bytes:
    """How a file begins; nothing where it is no regular file, or cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(number)
    except (OSError, ValueError):
        return b""
