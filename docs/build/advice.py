"""Compute the table of effects that ``checkwise advise`` reads, from the packed results.

Run by ``make pages``; ``tests/docs`` checks that the shipped table is what this computes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import deploy_effects
from logit_tables import read as read_logits
from packed import packed_cohorts

import checkwise
from checkwise.advice import evidence
from checkwise.advice.evidence import Effect, Interval
from checkwise.advice.steps import AVERAGE_SOFTENED, AVERAGED, CHOSEN, SOFTENED
from checkwise.selection import select
from checkwise.selection.default_rule import REFERENCE
from checkwise.study import Cohort, Contrast
from checkwise.study.compare import by_units, contrasts
from checkwise.study.units import UNITS
from checkwise.study.verdict import verdict

FILE = Path(checkwise.__file__).parent / "advice" / evidence.FILE
QUOTED = Path(__file__).parents[1] / "study" / "data" / "quoted.json"
COHORTS = ("officehome-frozen", "pacs-frozen")
METRICS = ("target_nll", "target_accuracy")
RULES = ("ac-nc", "ac-nll", "ac-early", "pure-nll")
DEMO = "rotated digits"
# Recipe → method in the numbers of the demo.
ON_DEMO = {
    AVERAGE_SOFTENED: "deploy-mean-probs-5",
    AVERAGED: "mean-probs-5",
    SOFTENED: "deploy-source-acc",
    **{CHOSEN.format(rule=rule): rule for rule in RULES},
}
PREFERRED_UNITS = ("block", "run")


def compute() -> dict[str, Any]:
    """The whole table as plain values."""
    with packed_cohorts() as cohorts:
        effects = [effect for name in COHORTS for effect in _of_cohort(cohorts[name])]
        fewest = {_data(cohorts[name]): _fewest_errors(cohorts[name]) for name in COHORTS}
        runs = sum(len(cohorts[name].runs) for name in COHORTS)
    effects += _temperature()
    effects += [effect for recipe in ON_DEMO for effect in _of_demo(recipe, REFERENCE)]
    effects += _of_demo(AVERAGE_SOFTENED, ON_DEMO[SOFTENED])
    ours = sorted(effects, key=_order)
    digits = max(effect.runs or 0 for effect in ours if effect.data == DEMO)
    scope = (
        f"The figures are from {runs} runs of small heads on frozen features of one network "
        f"(OfficeHome is evaluation data, PACS development) and {digits} of a small network on "
        f"{DEMO} (development)."
    )
    return {
        "schema": evidence.SCHEMA,
        "scope": scope,
        "expected": _expected(ours),
        "ordered_by": f"{DEMO}, development data",
        "fewest_errors": fewest,
        "saturated": _quotation(),
        "effects": [_rounded(effect.as_dict()) for effect in (*ours, *_quoted())],
    }


def _of_cohort(cohort: Cohort) -> list[Effect]:
    tables = cohort.differences(RULES, REFERENCE, metrics=METRICS)
    return [
        _effect(CHOSEN.format(rule=table.rule), row, level, _data(cohort), cohort.role)
        for table in tables
        for row, level in zip(
            by_units(table, contrasts(table)), table.of_reference.mean(axis=0), strict=True
        )
    ]


def _of_demo(recipe: str, reference: str) -> list[Effect]:
    table = deploy_effects.read(ON_DEMO[recipe], reference)
    rows = by_units(table, contrasts(table))
    levels = table.of_reference.mean(axis=0)
    named = {"deploy-source-acc": "source-acc with ts-soften"}
    method, against = (named.get(name, name) for name in (table.rule, table.reference))
    return [
        replace(_effect(recipe, row, level, DEMO, "development"), method=method, against=against)
        for row, level in zip(rows, levels, strict=True)
    ]


def _temperature() -> list[Effect]:
    """One temperature on the frozen cohorts: means alone were kept of it."""
    cells = read_logits("temperature").cells
    means = {(cell.row[0], cell.measure, cell.role): cell for cell in cells}
    roles = {"evaluation": "OfficeHome", "development": "PACS"}
    effects = []
    metric = "target_nll"  # a temperature changes no prediction
    for role, data in roles.items():
        plain = means[REFERENCE, metric, role]
        scaled = means[f"{REFERENCE}+ts", metric, role]
        effects.append(
            Effect(
                SOFTENED,
                f"{REFERENCE} with ts",
                REFERENCE,
                metric,
                data,
                role,
                plain.n,
                plain.value / plain.scale,
                scaled.value - plain.value,
                None,
                "unclear",
                "",
            )
        )
    return effects


def _effect(recipe: str, row: Contrast, level: float, data: str, role: str) -> Effect:
    found = verdict(row)
    intervals = {"run": Interval("run", row.n, row.low, row.high)} | {
        unit: Interval(unit, one.groups, one.low, one.high)
        for unit, one in row.units.items()
        if one.decides and not isnan(one.low)
    }
    unit = next(unit for unit in PREFERRED_UNITS if unit in intervals)
    shown = "" if found.direction == "unclear" else found.reach
    return Effect(
        recipe, row.rule, row.reference, row.metric, data, role, row.n, float(level), row.mean,
        intervals[unit], found.direction, shown,
        tuple(unit for unit in found.against if unit in UNITS),
    )  # fmt: skip


def _expected(effects: list[Effect]) -> dict[str, float]:
    """Recipe → change of the NLL relative to its level, on the runs where all were measured."""
    relative = {
        effect.recipe: round(effect.mean / effect.level, 6)
        for effect in effects
        if effect.metric == "target_nll"
        and effect.data == DEMO
        and effect.against == REFERENCE
        and effect.level
    }
    assert set(relative) == {effect.recipe for effect in effects}
    return relative


def _fewest_errors(cohort: Cohort) -> int:
    """Validation errors at the best checkpoint, in the run that has fewest."""
    states = [select(run, REFERENCE).saturation for run in cohort.usable.values()]
    return min(state.errors for state in states if state is not None)


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


def _data(cohort: Cohort) -> str:
    (name,) = {key.dataset for key in cohort.usable}
    return name


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
