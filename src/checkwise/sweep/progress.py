"""Progress of a sweep on a terminal; silence elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from checkwise.sweep.status import RunStatus


def remaining_text(seconds: float) -> str:
    """A time in words short enough for one line.

    >>> remaining_text(42), remaining_text(3700)
    ('42 s', '1 h 02 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class Pace:
    """Records per second since the sweep began, and the time the rest will take."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: int | None = None

    def describe(self, runs: Sequence[RunStatus]) -> str:
        """Runs done, rate and remaining time."""
        records = sum(run.records for run in runs)
        left = sum(run.planned - run.records for run in runs if run.state != "failed")
        if self._first is None:
            self._first = records
        done = sum(run.state == "finished" for run in runs)
        text = f"{done}/{len(runs)} runs"
        failed = sum(run.state == "failed" for run in runs)
        if failed:
            text += f", {failed} failed"
        gained, elapsed = records - self._first, time.monotonic() - self._began
        if gained > 0 and elapsed > 0:
            rate = gained / elapsed
            per_minute = 60 * rate / runs[0].planned
            text += f", {per_minute:.1f} runs/min, {remaining_text(left / rate)} left"
        return text


class SweepProgress:
    """A bar over all records of all runs."""

    def __init__(self, console: Console) -> None:
        self._pace = Pace()
        self._bar = Progress(
            BarColumn(), TextColumn("{task.description}"), console=console, transient=True
        )
        self._task = self._bar.add_task("starting", total=None)
        self._shown = console.is_terminal

    def start(self) -> None:
        """Begin to draw."""
        if self._shown:
            self._bar.start()

    def show(self, runs: Sequence[RunStatus]) -> None:
        """Draw the present state."""
        if self._shown:
            self._bar.update(
                self._task,
                total=sum(run.planned for run in runs),
                completed=sum(run.records for run in runs),
                description=self._pace.describe(runs),
            )

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            self._bar.stop()


@contextmanager
def sweep_progress(console: Console) -> Iterator[SweepProgress]:
    """A bar for the time of a sweep."""
    progress = SweepProgress(console)
    progress.start()
    try:
        yield progress
    finally:
        progress.stop()
