"""Without a terminal, long work says a plain line a minute; a clock is given, so nothing waits."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

import pytest
from rich.console import Console

from checkwise.cli import progress
from checkwise.records import RunKey
from checkwise.study.sweep import RunStatus
from checkwise.study.sweep.progress import State


class Clock:
    """A time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=200)


def lines(screen: Console) -> list[str]:
    file: Any = screen.file
    return str(file.getvalue()).splitlines()


def runs(done: int, records: int, failed: int = 0) -> list[RunStatus]:
    """Ten runs of 50 records: some finished, one under way, some failed."""
    ahead = 9 - done - failed
    states = ["finished"] * done + ["failed"] * failed + ["running"] + ["waiting"] * ahead
    counts = [50] * done + [0] * failed + [records] + [0] * ahead
    return [
        RunStatus(RunKey("D", "ERM", ("x",), 0, number), cast(State, state), count, 50)
        for number, (state, count) in enumerate(zip(states, counts, strict=True))
    ]


def test_a_sweep_says_runs_rate_time_and_failures_once_a_minute(
    clock: Clock, screen: Console
) -> None:
    with progress.watching_runs(console=screen, clock=clock) as watch:
        for second in range(181):
            clock.now = 1000.0 + second
            watch(runs(done=second // 60, records=0, failed=second // 120))
    assert lines(screen) == [
        "1/10 runs, 1.0 runs/min, 9 min left",
        "2/10 runs, 1 failed, 1.0 runs/min, 7 min left",
        "3/10 runs, 1 failed, 1.0 runs/min, 6 min left",
    ]


def test_runs_that_were_finished_before_do_not_count_in_the_rate(
    clock: Clock, screen: Console
) -> None:
    with progress.watching_runs(console=screen, clock=clock) as watch:
        watch(runs(done=8, records=0))
        clock.now += 60
        watch(runs(done=9, records=0))
    assert lines(screen) == ["9/10 runs, 1.0 runs/min, 60 s left"]


def test_counted_work_says_how_much_is_left(clock: Clock, screen: Console) -> None:
    with progress.counting("preparing data", console=screen, clock=clock) as count:
        for done in range(0, 1300, 10):
            clock.now += 1
            count(done, 5000)
    first, second = lines(screen)
    assert first == "preparing data: 590/5000, 7 min left"
    assert second.startswith("preparing data: 1190/5000")


@pytest.mark.parametrize("make", [progress.watching_runs, lambda **k: progress.counting("x", **k)])
def test_short_work_says_nothing(make: Callable[..., Any], clock: Clock, screen: Console) -> None:
    with make(console=screen, clock=clock) as call:
        clock.now += 59
        if make is progress.watching_runs:
            call(runs(1, 1))
        else:
            call(1, 2)
    assert lines(screen) == []


def test_the_lines_go_to_stderr(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress.counting("verifying", clock=clock) as count:
        clock.now += 61
        count(1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "verifying: 1/2\n"
