"""What was trained, how long it took and what is still to come: the runs on study/results.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkwise.study.sweep import plan, read_study
from checkwise.words import counted, listed
from studies.page import DATA
from studies.paper.beside import grid
from studies.paper.cohorts import FINE_TUNED, Described, there
from studies.paper.outcomes import record_of

TIMES = DATA / "times.json"
HEADER = (
    *("data", "cohort", "role", "what learns", "runs", "records", "diverged records"),
    *("runs lost", "one run, median", "all runs, core time"),
)
COUNTS = ("runs", "records", "diverged_records", "runs_lost")


def runs() -> str:
    """One row per cohort, and below what the times mean."""
    cohorts = {each.name: each for each, _ in there()}
    facts = {name: record_of(name)["trained"] for name in cohorts}
    rows = [_row(described, facts[name]) for name, described in cohorts.items()]
    machine = json.loads(TIMES.read_text())["machine"].partition(". One run")[0]
    notes = [f"{machine}.", *core_time(facts), *about(facts), *partial()]
    return f"{grid(HEADER, rows, 4)}\n\n{' '.join(notes)}"


def _row(described: Described, facts: Mapping[str, Any]) -> tuple[str, ...]:
    data = [each.data for each, _ in there((described.name,))]
    return (
        *(" and ".join(data), f"`{described.name}`", described.role, described.network),
        *(f"{facts[name]:,}" for name in COUNTS),
        f"{'about ' if 'about' in facts else ''}{facts['median_seconds']} s",
        f"about {facts['runs'] * facts['median_seconds'] / 3600:.1f} core-hours",
    )


def core_time(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How the time of all runs was computed, and how long they took where that was recorded."""
    wall = [
        f"{each['wall_minutes']} min for `{name}`"
        for name, each in facts.items()
        if "wall_minutes" in each
    ]
    said = ["The core time of all runs is estimated: their number times the median of one run."]
    if wall:
        said.append(f"Wall time was recorded of {counted(len(wall), 'cohort')}: {listed(wall)}.")
    return said


def about(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the time of one run is where single times are not known."""
    if not any("about" in each for each in facts.values()):
        return []
    return [
        "The median of one run is *about* where the runs were trained in blocks, and of the first "
        "only the median is known: it is the mean of the medians of the blocks, weighted by their "
        "runs."
    ]


def partial() -> list[str]:
    """Which cohorts lack runs that their studies plan."""
    said = []
    for described, _ in there(FINE_TUNED):
        planned = len(plan(read_study(described.name), {}))
        trained = record_of(described.name)["trained"]["runs"]
        if trained < planned:
            said.append(
                f"`{described.name}` holds {trained} of the {planned} runs that its study plans; "
                "the others were not trained yet."
            )
    return said
