"""Compute the table of effects that ``checkwise advise`` reads, from the kept outcomes.

Run by ``make pages``; ``tests/docs`` checks that the shipped table is what this computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

from cohorts import COHORTS
from effects import effect as mean_effect
from outcomes import Outcomes, read

import checkwise
from checkwise.advice import evidence
from checkwise.advice.evidence import Effect, Interval
from checkwise.advice.steps import AVERAGE_SOFTENED, AVERAGED, CHOSEN, SOFTENED
from checkwise.page.sentences import own_units
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.saturation import FEW_ERRORS
from checkwise.study import Contrast
from checkwise.study.compare import by_units, contrasts, counted_by
from checkwise.study.verdict import verdict

FILE = Path(checkwise.__file__).parent / "advice" / evidence.FILE
QUOTED = Path(__file__).parents[1] / "study" / "data" / "quoted.json"
METRICS = ("target_nll", "target_accuracy")
RULES = ("ac-nc", "ac-nll", "ac-early", "pure-nll")
# Recipe → row of the kept outcomes. `advised` is deploy-mean-probs-5 where validation is not
# saturated, which it is in none of these runs.
ROWS = {
    AVERAGE_SOFTENED: "advised",
    AVERAGED: "mean-probs-5",
    SOFTENED: f"{REFERENCE}+ts-soften",
    **{CHOSEN.format(rule=rule): rule for rule in RULES},
}
TITLES = {"advised": "deploy-mean-probs-5", f"{REFERENCE}+ts-soften": f"{REFERENCE} with ts-soften"}
ORDERED_BY = "taicam-sites"
MEASURED = (ORDERED_BY, "officehome-erm", "pacs-erm")
SATURATED = "officehome-small"


def compute() -> dict[str, Any]:
    """The whole table as plain values."""
    effects = [one for name in MEASURED for recipe in ROWS for one in _of(name, recipe, REFERENCE)]
    over_one = _of(ORDERED_BY, AVERAGE_SOFTENED, ROWS[SOFTENED])
    effects += over_one
    better = any(one.direction == "better" for one in over_one)
    ours = sorted(effects, key=_order)
    kept = {name: read(name) for name in MEASURED}
    runs = sum(len(each.keys) for each in kept.values())
    return {
        "schema": evidence.SCHEMA,
        "scope": f"The figures are from {runs} runs of small heads on frozen features of one "
        "network. The camera traps are evaluation data, registered before they were opened; "
        "OfficeHome and PACS are development data.",
        "expected": _expected(ours),
        "ordered_by": f"{_data(ORDERED_BY)}, evaluation data",
        "no_better_than": {} if better else {AVERAGE_SOFTENED: SOFTENED},
        "fewest_errors": {_data(name): _fewest_errors(each) for name, each in kept.items()},
        "saturated": f"{_our_saturated()} {_quotation()}",
        "groups": _by_groups(ours),
        "effects": [_rounded(one.as_dict()) for one in (*ours, *_quoted())],
    }


def _of(cohort: str, recipe: str, reference: str) -> list[Effect]:
    """One recipe against another on one cohort, NLL and accuracy."""
    table = read(cohort).differences(ROWS[recipe], reference, METRICS)
    method, against = (TITLES.get(name, name) for name in (table.rule, table.reference))
    return [
        replace(
            _effect(recipe, row, level, _data(cohort), _ROLES[cohort]),
            method=method,
            against=against,
        )
        for row, level in zip(
            by_units(table, contrasts(table)), table.of_reference.mean(axis=0), strict=True
        )
    ]


_ROLES: Mapping[str, str] = {each.name: each.role for each in COHORTS}


def _data(cohort: str) -> str:
    return next(each.data for each in COHORTS if each.name == cohort)


def _effect(recipe: str, row: Contrast, level: float, data: str, role: str) -> Effect:
    found = verdict(row)
    intervals = {"run": Interval("run", row.n, *(row.over_runs or (row.low, row.high)))} | {
        unit: Interval(unit, one.groups, one.low, one.high)
        for unit, one in row.units.items()
        if one.decides and not isnan(one.low)
    }
    unit = counted_by(row).name
    unit = unit if unit in intervals else "run"
    if unit == "domain":  # every domain counts once, as in the mean
        intervals[unit] = replace(intervals[unit], low=row.low, high=row.high)
    shown = "" if found.direction == "unclear" else found.reach
    return Effect(
        recipe, row.rule, row.reference, row.metric, data, role, row.n, float(level), row.mean,
        intervals[unit], found.direction, shown,
        tuple(own_units(found.against)),
    )  # fmt: skip


def _expected(effects: list[Effect]) -> dict[str, float]:
    """Recipe → change of the NLL relative to its level, on the runs where all were measured."""
    relative = {
        effect.recipe: round(effect.mean / effect.level, 6)
        for effect in effects
        if effect.metric == "target_nll"
        and effect.data == _data(ORDERED_BY)
        and effect.against == REFERENCE
        and effect.level
    }
    assert set(relative) == {effect.recipe for effect in effects}
    return relative


def _fewest_errors(kept: Outcomes) -> int:
    """Validation errors at the best checkpoint, in the run that has fewest."""
    return int(kept.values[REFERENCE]["errors"].min())


def _our_saturated() -> str:
    """What choosing did where our own validation sets were saturated."""
    kept = read(SATURATED)
    few = kept.values[REFERENCE]["errors"] <= FEW_ERRORS
    choice = mean_effect(kept, "ac-nc", keep=few)
    assert not choice.excludes_zero
    return (
        f"On {choice.runs} of our runs with so few errors ({_data(SATURATED)}, development data) "
        f"ac-nc changed the NLL on unseen domains by {choice.plain} over "
        f"{len(choice.names)} held-out domains: harm was not shown there."
    )


def _by_groups(steps: list[Effect]) -> str:
    """What validation on whole sites did."""
    found = mean_effect(ORDERED_BY, f"{REFERENCE}@groups", REFERENCE)
    largest = min(step.mean for step in steps if step.metric == "target_nll")
    assert found.excludes_zero
    assert found.mean < largest < 0
    return (
        f"on {_data(ORDERED_BY)} (evaluation data, {found.runs} runs), validation by sites instead "
        f"of images changed the NLL of the most accurate checkpoint by {found.plain}, more than "
        "any step above."
    )


def _quoted() -> list[Effect]:
    record = json.loads(QUOTED.read_text())
    return [
        Effect(
            against=row.get("against", REFERENCE),
            metric=row["metric"],
            data=record["data"],
            role="independent",
            runs=record["runs"],
            level=None,
            mean=row["mean"],
            recipe=row["recipe"],
            method=row["method"],
            direction="quoted",
            reach="",
            quoted=record["source"],
            interval=row["interval"] and Interval("domain", record["domains"], *row["interval"]),
        )
        for row in record["effects"]
    ]


def _quotation() -> str:
    record = json.loads(QUOTED.read_text())
    return f"Quoted from {record['source']}: {record['saturated']}."


def _order(effect: Effect) -> tuple[Any, ...]:
    """Evaluation before development, NLL before accuracy."""
    place = effect.role != "evaluation", effect.data, effect.against != REFERENCE
    return effect.recipe, *place, METRICS.index(effect.metric)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Six decimals are more than anybody prints, and the same on every machine."""
    return {
        name: _rounded(value)
        if isinstance(value, dict)
        else round(value, 6)
        if isinstance(value, float)
        else value
        for name, value in values.items()
    }


def main() -> None:
    FILE.write_text(json.dumps(compute(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
