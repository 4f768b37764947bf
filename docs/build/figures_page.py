"""The parts of study/figures-cohorts.md that say what its pictures show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beside import grid
from cohort_facts import Change, Shown
from cohort_tables import page_of

from checkwise.figures.distance import Point
from checkwise.figures.kendall import NAMES
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.default_rule import REFERENCE
from checkwise.text import listed, number

PAGE = Path(__file__).parents[1] / "study" / "figures-cohorts.md"


def parts(cohorts: Sequence[Shown]) -> dict[str, str]:
    """Every part by its name."""
    return {
        "cohorts": _cohorts(cohorts),
        "distances": _distances(cohorts),
        "changes": _changes(cohorts),
        "orders": _orders(cohorts),
    }


def _cohorts(cohorts: Sequence[Shown]) -> str:
    rows = []
    for cohort in cohorts:
        page = "tables.md" if cohort.of_design else page_of(cohort.name).name
        rows.append(
            (
                f"[{cohort.data}]({page})",
                cohort.network,
                listed(cohort.algorithms),
                cohort.role,
                str(cohort.runs),
            )
        )
    return grid(("data", "trained", "with", "role", "runs"), rows, 4)


def _distances(cohorts: Sequence[Shown]) -> str:
    rows = []
    for cohort in cohorts:
        at = {point.rule: point for point in cohort.points}
        ours, theirs = at[DEFAULT_RULE], at[REFERENCE]
        rows.append(
            (
                cohort.data,
                number(ours.accuracy - theirs.accuracy, 2, signed=True),
                number(ours.distance - theirs.distance, 3, signed=True),
                _rules(better(cohort.points, ours)),
                str(cohort.runs),
                cohort.role,
            )
        )
    header = ("data", "Δ accuracy (points)", "Δ distance", "better in both", "runs", "role")
    return grid(header, rows, 1)


def better(points: Sequence[Point], than: Point) -> list[str]:
    """Rules with a smaller distance and a higher accuracy."""
    return [p.rule for p in points if p.distance < than.distance and p.accuracy > than.accuracy]


def _rules(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _changes(cohorts: Sequence[Shown]) -> str:
    first = next(cohort.changes[0].rule for cohort in cohorts if cohort.changes)
    found = [(c.data, each) for c in cohorts for each in c.changes if each.rule == first]
    nll = [(data, each) for data, each in found if each.metric == "target_nll"]
    accuracy = [(data, each) for data, each in found if each.metric == "target_accuracy"]
    lower = [pair for pair in nll if pair[1].high < 0]
    return (
        f"With {first}, the whole interval of NLL is below zero in {len(lower)} of {len(nll)} "
        f"rows: {_named(lower)}. It is above zero in {_none(nll, above=True)}; the mean is "
        f"above zero for {_named([pair for pair in nll if pair[1].mean > 0])}. "
        "The whole interval of accuracy is below zero in "
        f"{_none(accuracy, above=False)} and above zero in {_none(accuracy, above=True)}; the mean "
        f"is below zero for {_named([pair for pair in accuracy if pair[1].mean < 0])}."
    )


def _none(pairs: Sequence[tuple[str, Change]], *, above: bool) -> str:
    count = sum(each.low > 0 if above else each.high < 0 for _, each in pairs)
    return str(count) if count else "none"


def _named(pairs: Sequence[tuple[str, Change]]) -> str:
    by_data: dict[str, list[str]] = {}
    for data, each in pairs:
        by_data.setdefault(data, []).append(each.algorithm)
    return "; ".join(f"{data} ({', '.join(names)})" for data, names in by_data.items()) or "none"


def _orders(cohorts: Sequence[Shown]) -> str:
    rows = []
    for metric, name in NAMES.items():
        cells = [
            (cohort.data, cell)
            for cohort in cohorts
            if cohort.taus
            for cell in cohort.taus.cells
            if cell.metric == metric
        ]
        above = sum(cell.tau.low > 0 for _, cell in cells)
        below = [f"{data}, {cell.algorithm}" for data, cell in cells if cell.tau.high < 0]
        rows.append((name, "; ".join(below) or "none", str(above), str(len(cells))))
    return grid(("metric", "whole interval below zero", "above zero", "rows"), rows, 2)
