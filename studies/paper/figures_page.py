"""The parts of study/figures-cohorts.md that say what its pictures show."""

from __future__ import annotations

from collections.abc import Sequence

from checkwise.selection import DEFAULT_RULE, REFERENCE
from checkwise.study.figures import TAU_NAMES, AlgorithmChange, DistancePoint
from checkwise.words import listed, number
from studies.page import DOCS
from studies.paper.beside import grid
from studies.paper.cohort_facts import Shown

Pair = tuple[str, AlgorithmChange]  # what pages call the data, and one row of its panel
LOWEST_NLL = "pure-nll"
PAGE = DOCS / "study" / "figures-cohorts.md"


def parts(cohorts: Sequence[Shown]) -> dict[str, str]:
    """Every part by its name."""
    return {
        "cohorts": _cohorts(cohorts),
        "distances": _distances(cohorts),
        "changes": _changes(cohorts),
        "orders": _orders(cohorts),
    }


def _cohorts(cohorts: Sequence[Shown]) -> str:
    rows = [(c.data, c.network, listed(c.algorithms), c.role, str(c.runs)) for c in cohorts]
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
    return f"{grid(header, rows, 1)}\n\n{_lowest_nll(cohorts)}"


def _lowest_nll(cohorts: Sequence[Shown]) -> str:
    """Where the lowest source NLL, which bounds nothing, has the smaller distance."""
    smaller, less_accurate = [], []
    for cohort in cohorts:
        at = {point.rule: point for point in cohort.points}
        ours, other = at[DEFAULT_RULE], at[LOWEST_NLL]
        if other.distance < ours.distance:
            smaller.append(cohort)
            less_accurate += [cohort] * (other.accuracy < ours.accuracy)
    return (
        f"`{LOWEST_NLL}`, which bounds no loss of accuracy, has a smaller distance than "
        f"`{DEFAULT_RULE}` on {len(smaller)} of {len(cohorts)} cohorts, with a lower mean accuracy "
        f"on {len(less_accurate)} of these."
    )


def better(points: Sequence[DistancePoint], than: DistancePoint) -> list[str]:
    """Rules with a smaller distance and a higher accuracy."""
    return [p.rule for p in points if p.distance < than.distance and p.accuracy > than.accuracy]


def _rules(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _changes(cohorts: Sequence[Shown]) -> str:
    first = next(cohort.changes[0].rule for cohort in cohorts if cohort.changes)
    found = [(c.data, each) for c in cohorts for each in c.changes if each.rule == first]
    nll = [pair for pair in found if pair[1].metric == "target_nll"]
    accuracy = [pair for pair in found if pair[1].metric == "target_accuracy"]
    of_design = {cohort.data for cohort in cohorts if cohort.of_design}
    pooled = [pair for pair in nll if pair[0] in of_design]
    lines = [
        f"{first} against `{REFERENCE}`, in {len(nll)} rows:",
        "",
        f"- NLL, whole interval below zero: {_named(_below(nll))}. Above zero: "
        f"{_named(_above(nll))}. Mean above zero: {_named(_worse(nll, 1))}.",
        f"- Accuracy, whole interval below zero: {_named(_below(accuracy))}. Above zero: "
        f"{_named(_above(accuracy))}. Mean below zero: {_named(_worse(accuracy, -1))}.",
        f"- On data sets of the 540 runs the whole interval of NLL is below zero in "
        f"{len(_below(pooled))} of {len(pooled)} rows. Intervals over four domains are wide; those "
        "of the [overview](figures.md#by-algorithm) are over twelve.",
    ]
    return "\n".join(lines)


def _below(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair[1].high < 0]


def _above(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair[1].low > 0]


def _worse(pairs: Sequence[Pair], sign: int) -> list[Pair]:
    return [pair for pair in pairs if sign * pair[1].mean > 0]


def _named(pairs: Sequence[Pair]) -> str:
    by_data: dict[str, list[str]] = {}
    for data, each in pairs:
        by_data.setdefault(data, []).append(each.algorithm)
    return "; ".join(f"{data} ({', '.join(names)})" for data, names in by_data.items()) or "none"


def _orders(cohorts: Sequence[Shown]) -> str:
    rows = []
    for metric, name in TAU_NAMES.items():
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
