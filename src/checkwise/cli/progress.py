"""How far long work is: a bar on a terminal, a plain line a minute elsewhere; always on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from checkwise.cli import printing

if TYPE_CHECKING:
    from rich.console import Console

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


@contextmanager
def counting(
    what: str, *, console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[Callable[[int, int], None]]:
    """Something to call with (done, total)."""
    with _showing(console, clock) as show:

        def count(done: int, total: int) -> None:
            def text(rate: float) -> str:
                left = f", {remaining_text((total - done) / rate)} left" if rate > 0 else ""
                return f"{what}: {done}/{total}{left}"

            show(text, done, total)

        yield count


@contextmanager
def watching_runs(
    *, console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[Callable[[Sequence[RunStatus]], None]]:
    """Something to call with the state of all runs of a sweep."""
    with _showing(console, clock) as show:

        def watch(runs: Sequence[RunStatus]) -> None:
            records, planned = sum(r.records for r in runs), sum(r.planned for r in runs)
            show(lambda rate: _of_runs(runs, rate), records, planned)

        yield watch


def _of_runs(runs: Sequence[RunStatus], rate: float) -> str:
    """Runs done, failures, and at a rate of records per second the remaining time."""
    done = sum(run.state == "finished" for run in runs)
    failed = sum(run.state == "failed" for run in runs)
    text = f"{done}/{len(runs)} runs" + (f", {failed} failed" if failed else "")
    if rate > 0:
        left = sum(run.planned - run.records for run in runs if run.state != "failed")
        per_minute = 60 * rate / runs[0].planned
        text += f", {per_minute:.1f} runs/min, {remaining_text(left / rate)} left"
    return text


Show = Callable[[Callable[[float], str], int, int], None]


@contextmanager
def _showing(console: Console | None, clock: Clock) -> Iterator[Show]:
    """Something to call with a text, what is done and the total.

    The text is made only where it is shown, of what was done per second since the first call.
    """
    screen = console or printing.console(stderr=True)
    began = said = clock()
    first: int | None = None
    bar: Any = None
    if screen.is_terminal:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(), TextColumn("{task.description}")
        bar = Progress(*columns, console=screen, transient=True)
        task = bar.add_task("starting", total=None)

    def show(text: Callable[[float], str], done: int, total: int) -> None:
        nonlocal said, first
        now = clock()
        first = done if first is None else first
        rate = (done - first) / (now - began) if now > began else 0.0
        if bar is not None:
            bar.update(task, description=text(rate), completed=done, total=total)
        elif now - said >= MINUTE:
            said = now
            screen.print(text(rate))

    with bar or nullcontext():
        yield show
