"""How far long work is: a bar on a terminal, a plain line a minute elsewhere; always on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from checkwise.cli import printing

if TYPE_CHECKING:
    from checkwise.study.sweep import RunStatus

MINUTE = 60.0
Clock = Callable[[], float]


def remaining_text(seconds: float) -> str:
    """A time in words short enough for one line.

    Example:
        >>> remaining_text(42), remaining_text(3700)
        ('42 s', '1 h 02 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class Pace:
    """Work done per second since the first look, and the time the rest will take."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._first: int | None = None

    def rate(self, done: int) -> float:
        """Per second; 0 while nothing was done."""
        if self._first is None:
            self._first = done
        elapsed = self._clock() - self._began
        return (done - self._first) / elapsed if elapsed > 0 else 0.0

    def of_count(self, what: str, done: int, total: int) -> str:
        """What, how many of how many, and how long the rest takes."""
        rate = self.rate(done)
        left = f", {remaining_text((total - done) / rate)} left" if rate > 0 else ""
        return f"{what}: {done}/{total}{left}"

    def of_runs(self, runs: Sequence[RunStatus]) -> str:
        """Runs done, failures, rate and remaining time."""
        records = sum(run.records for run in runs)
        left = sum(run.planned - run.records for run in runs if run.state != "failed")
        done = sum(run.state == "finished" for run in runs)
        failed = sum(run.state == "failed" for run in runs)
        text = f"{done}/{len(runs)} runs" + (f", {failed} failed" if failed else "")
        rate = self.rate(records)
        if rate > 0:
            per_minute = 60 * rate / runs[0].planned
            text += f", {per_minute:.1f} runs/min, {remaining_text(left / rate)} left"
        return text


class Screen:
    """Draws a bar, or prints a line once a minute where there is no terminal."""

    def __init__(self, console: Console | None = None, clock: Clock = time.monotonic) -> None:
        self._console = printing.console(stderr=True) if console is None else console
        self._clock = clock
        self._said = clock()
        self._bar = Progress(
            BarColumn(), TextColumn("{task.description}"), console=self._console, transient=True
        )
        self._task = self._bar.add_task("starting", total=None)

    def update(self, text: Callable[[], str], done: int, total: int) -> None:
        """``text`` is called only where it is shown."""
        if self._console.is_terminal:
            self._bar.update(self._task, description=text(), completed=done, total=total)
        elif self._clock() - self._said >= MINUTE:
            self._said = self._clock()
            self._console.print(text())

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()


@contextmanager
def counting(
    what: str, *, console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[Callable[[int, int], None]]:
    """Something to call with (done, total)."""
    pace = Pace(clock)
    with Screen(console, clock) as screen:

        def count(done: int, total: int) -> None:
            pace.rate(done)  # the first look counts, shown or not
            screen.update(lambda: pace.of_count(what, done, total), done, total)

        yield count


@contextmanager
def watching_runs(
    *, console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[Callable[[Sequence[RunStatus]], None]]:
    """Something to call with the state of all runs of a sweep."""
    pace = Pace(clock)
    with Screen(console, clock) as screen:

        def watch(runs: Sequence[RunStatus]) -> None:
            records, planned = sum(r.records for r in runs), sum(r.planned for r in runs)
            pace.rate(records)  # the first look counts, shown or not
            screen.update(lambda: pace.of_runs(runs), records, planned)

        yield watch
