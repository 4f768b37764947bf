"""What was trained, how long it took and what is still to come: the runs on study/results.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beside import grid
from cohorts import FINE_TUNED, Described, there
from outcomes import record_of
from packed import DATA

from checkwise.sweep.plan import plan
from checkwise.sweep.study_file import read_study

TIMES = DATA / "times.json"
HEADER = (
    *("data", "cohort", "role", "what learns", "runs", "records", "diverged records"),
    *("runs lost", "one run, median", "all runs"),
)
COUNTS = ("runs", "records", "diverged_records", "runs_lost")


def runs() -> str:
    """One row per cohort, and below what the times mean."""
    cohorts = {each.name: each for each, _ in there()}
    facts = {name: record_of(name)["trained"] for name in cohorts}
    rows = [_row(described, facts[name]) for name, described in cohorts.items()]
    machine = json.loads(TIMES.read_text())["machine"].partition(". One run")[0]
    notes = [f"{machine}.", *not_kept(facts), *about(facts), *partial()]
    return f"{grid(HEADER, rows, 4)}\n\n{' '.join(notes)}"


def _row(described: Described, facts: Mapping[str, Any]) -> tuple[str, ...]:
    data = [each.data for each, _ in there((described.name,))]
    return (
        *(" and ".join(data), f"`{described.name}`", described.role, described.network),
        *(f"{facts[name]:,}" for name in COUNTS),
        f"{'about ' if 'about' in facts else ''}{facts['median_seconds']} s",
        f"{facts['wall_minutes']} min" if "wall_minutes" in facts else "not kept",
    )


def not_kept(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why some cohorts have no time of all runs."""
    lacking = sum("wall_minutes" not in each for each in facts.values())
    if not lacking:
        return []
    return [
        f"The time of all runs is not kept for {lacking} of {len(facts)} cohorts, because they "
        "were trained in sessions whose times were not recorded."
    ]


def about(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the time of one run is where single times are not known."""
    if not any("about" in each for each in facts.values()):
        return []
    return [
        "*About*: the runs were trained in blocks, and of the first only the median is known. The "
        "number is the mean of the medians of the blocks, weighed by their runs."
    ]


def partial() -> list[str]:
    """Which cohorts lack runs that their studies plan."""
    said = []
    for described, kept in there(FINE_TUNED):
        planned, trained = len(plan(read_study(described.name), {})), len(kept.keys)
        if trained < planned:
            said.append(
                f"`{described.name}` holds {trained} of the {planned} runs that its study plans; "
                "the others were not trained yet."
            )
    return said
