"""A cohort's progress in a few facts: runs by state and host, rate, remaining time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from checkwise.sweep.status import RunStatus

RECENT: Final = 100  # finished runs that the rate is taken from


@dataclass(frozen=True)
class Overview:
    """What ``checkwise study status`` says of all runs together.

    Args:
        counts: runs by state.
        hosts: running runs by host.
        runs_per_hour: what the workers that give signs of life do; None while nothing tells.
        remaining_seconds: until every run that has not failed is finished, at that rate.
    """

    counts: Mapping[str, int]
    hosts: Mapping[str, int]
    runs_per_hour: float | None
    remaining_seconds: float | None


def overview(runs: Sequence[RunStatus]) -> Overview:
    """The facts about all runs.

    The rate is that of the runs finished last, times the number of workers now: a pause of all
    workers does not count.
    """
    running = [run for run in runs if run.state == "running"]
    alive = [run for run in running if run.silent is None]
    each = _seconds_per_record(runs, alive)
    rate = remaining = None
    if each and alive:
        left = sum(run.planned - run.records for run in runs if run.state != "failed")
        rate = 3600 * len(alive) / (each * median(run.planned for run in alive))
        remaining = left * each / len(alive)
    return Overview(
        counts=dict(sorted(Counter(run.state for run in runs).items())),
        hosts=dict(sorted(Counter(run.host or "" for run in running).items())),
        runs_per_hour=rate,
        remaining_seconds=remaining,
    )


def _seconds_per_record(runs: Sequence[RunStatus], alive: Sequence[RunStatus]) -> float | None:
    """Of the runs that were finished last; before any is, of those that are being trained."""
    done = [run for run in runs if run.state == "finished" and run.ended is not None]
    recent = sorted(done, key=lambda run: run.ended or 0.0)[-RECENT:]
    return _median(recent) or _median(run for run in alive if run.records > 1)


def _median(runs: Iterable[RunStatus]) -> float | None:
    each = [run.seconds / run.records for run in runs if run.seconds and run.records]
    return median(each) if each else None
