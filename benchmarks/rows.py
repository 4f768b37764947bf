"""A row of the table of speed, and how its times are taken."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured: ``value`` should be at most ``aim``, or at least.

    A ratio has no unit; its two numbers were measured in turn, in the same run.
    """

    work: str
    against: str
    value: float
    aim: float
    at_least: bool = False
    unit: str = "×"

    @property
    def missed(self) -> bool:
        return self.value < self.aim if self.at_least else self.value > self.aim

    def cells(self) -> list[str]:
        """As the table has it."""
        unit = self.unit if self.unit == "×" else f" {self.unit}"
        sign = "≥" if self.at_least else "≤"
        value = f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.3g}"
        return [
            self.work,
            self.against,
            f"{sign} {self.aim:,g}{unit}",
            f"{value}{unit}{' (missed)' * self.missed}",
        ]


def show(rows: Sequence[Row]) -> None:
    """Print rows for the process that asked for them."""
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)


def in_turn(
    works: Mapping[str, Work], *, rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """The least time of each, taken in turn after one call of each.

    Turns let all meet the same neighbours on the machine, which only add to the time of either.
    """
    for work in works.values():
        work()
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = clock()
            work()
            best[name] = min(best[name], clock() - start)
    return best


def seconds(work: Work) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def process_seconds(command: Sequence[str], **settings: Any) -> float:
    """Processor time of a process, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
