"""Contrasts that were fixed beforehand, computed: means by place, t over places, Holm, a verdict.

A contrast of a family is *found* if its p-value, after Holm's correction over the family, is below
0.05 in the hoped direction and its side condition holds; *contradicted* if it is below 0.05 in the
other direction; otherwise *not found*, with the change that this design could have detected. A
packed study lacks some results: its contrasts are all there, with the reason for what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any, Final, Literal

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.statistics import LEVEL
from checkwise.store import read_run
from checkwise.study.baselines import read_record
from checkwise.study.cohort import Cohort
from checkwise.study.compare import Differences, check_carried, higher_is_better, scale
from checkwise.study.contrast_set import ContrastSet, NotWorse, PlannedContrast
from checkwise.study.inference import (
    ALPHA,
    POWER,
    PlaceMeans,
    holm,
    minimum_detectable_effect,
    numbered,
    over_places,
)
from checkwise.study.method_table import method
from checkwise.study.units import clusters
from checkwise.words import listed

Verdict = Literal["found", "contradicted", "not found", "estimate only"]
FEWEST_PLACES = 3  # fewer decide nothing
NOT_PACKED: Final = "needs logits that were not packed"


@dataclass(frozen=True)
class Condition:
    """A side condition: whether the interval over places stays clear of the margin."""

    metric: str
    margin: float
    mean: float
    low: float
    high: float
    holds: bool


@dataclass(frozen=True)
class ContrastResult:
    """One contrast by place, on the reported scale."""

    planned: PlannedContrast  # what was fixed beforehand
    # the mean difference of each place's runs; of a contrast at the worst place, the values of the
    # two worst places, each under what it is of
    by_place: Mapping[str, float]
    runs: int  # pairs of runs; ``missing`` are finished runs without one, or not finite there
    missing: int
    mean: float  # the mean over places, and its 95% t interval
    low: float
    high: float
    p: float  # two-sided p-value, and after Holm's correction; nan for an estimate only
    holm: float
    # the change that would be found with 80% probability, at the strictest level of Holm's method;
    # nan for an estimate only
    detectable: float
    new_low: float  # where one new place of the same kind is expected, with 95%
    new_high: float
    condition: Condition | None  # the side condition, if there is one
    verdict: Verdict | None  # what it comes to; None where that cannot be said here
    # why there are no numbers, no corrected p-value or no verdict; "" where all are
    reason: str = ""

    @property
    def places(self) -> int:
        return 0 if self.planned.at != "mean" else len(self.by_place)

    @property
    def worst(self) -> tuple[str, float] | None:
        """The place with the least favourable mean difference, and that difference."""
        if not self.places:
            return None
        towards = -1 if self.planned.hoped == "higher" else 1
        return max(self.by_place.items(), key=lambda item: towards * item[1])


def check_contrasts(cohort: Cohort, fixed: ContrastSet) -> tuple[str, ...]:
    """Refuse what finished runs cannot give; returns what `checkwise study derive` has to make."""
    if not cohort.usable:
        return tuple(row.name for row in fixed.rows if row.recipe is not None)
    metrics = tuple(dict.fromkeys(m for one in fixed.contrasts for m in one.metrics))
    made = [row.name for row in fixed.rows if row.recipe is not None]
    to_make = tuple(name for name in made if not _made_for_all(cohort, name))
    ready = [row for row in fixed.rows if row.name not in to_make]
    check_carried(metrics, [cohort.outcomes(row, held_out=False) for row in ready])
    return to_make


def _made_for_all(cohort: Cohort, name: str) -> bool:
    return all(read_record(cohort.path, name, key) is not None for key in cohort.usable)


def contrast_results(cohort: Cohort, fixed: ContrastSet) -> tuple[ContrastResult, ...]:
    """Every contrast of a set, in order, without numbers where packing left logits behind."""
    cohort.check_one_role()
    gone = _not_packed(cohort, fixed)
    there = replace(fixed, contrasts=tuple(one for one in fixed.contrasts if one not in gone))
    to_make = check_contrasts(cohort, there)
    if to_make:
        raise InputError(
            f"Expected results of {listed(to_make)} for all {len(cohort.usable)} runs of "
            f"{cohort.path}, but some are missing: make them with `checkwise study derive "
            f"{cohort.path} --method {','.join(to_make)}`. Nothing was opened.",
            code="missing",
        )
    return judged(
        [
            without_results(one, len(cohort.usable)) if one in gone else _estimate(cohort, one)
            for one in fixed.contrasts
        ]
    )


def _not_packed(cohort: Cohort, fixed: ContrastSet) -> list[PlannedContrast]:
    """The contrasts that need logits, or what is made of them, where packing left those behind."""
    lacking = {
        row.identity
        for row in fixed.rows
        if ("logits" in row.needs if row.recipe is None else not _made_for_all(cohort, row.name))
    }
    if not lacking or not all(
        read_run(cohort.runs.folder(key)).left_behind for key in cohort.usable
    ):
        return []
    return [
        one
        for one in fixed.contrasts
        if lacking & {row.identity for row in replace(fixed, contrasts=(one,)).rows}
    ]


def judged(estimates: Sequence[ContrastResult]) -> tuple[ContrastResult, ...]:
    families: dict[str, list[ContrastResult]] = {}
    for one in estimates:
        families.setdefault(one.planned.family, []).append(one)
    results = {
        one.planned.name: one
        for name, family in families.items()
        for one in (decided(family) if name else family)
    }
    return tuple(results[one.planned.name] for one in estimates)


def decided(family: Sequence[ContrastResult]) -> list[ContrastResult]:
    """The contrasts of one family with corrected p-values, detectable changes and verdicts."""
    lacking = [one.planned.name for one in family if one.reason]
    # Holm's p-values grow with every p-value: these two bound what the lacking ones can do.
    most, least = (_corrected(family, lacking=p) for p in (1.0, 0.0))
    return [
        one if one.reason else _judged_with(one, bounds, lacking, len(family))
        for one, *bounds in zip(family, most, least, strict=True)
    ]


def _judged_with(
    one: ContrastResult, bounds: Sequence[float], lacking: Sequence[str], tested: int
) -> ContrastResult:
    """One result with its verdict, where Holm's p-value is between two bounds."""
    means = _over(one.by_place).means
    least = minimum_detectable_effect(means, alpha=ALPHA / tested, power=POWER)
    one = replace(one, detectable=float(least[0]))
    verdict, other = (_verdict(one, p) for p in bounds)
    if not lacking:
        return replace(one, holm=bounds[0], verdict=verdict)
    depends = f"Holm's p also depends on {listed(lacking)}, without results here"
    if verdict == other:
        return replace(one, verdict=verdict, reason=f"{depends}; the verdict does not")
    return replace(one, verdict=None, reason=f"{depends}, and so does the verdict")


def _corrected(family: Sequence[ContrastResult], *, lacking: float) -> list[float]:
    """Holm's p-values, with one value for all contrasts that have no results here."""
    # A contrast without a p-value still counts as one that was tested.
    p = [lacking if one.reason else 1.0 if isnan(one.p) else one.p for one in family]
    return [float(value) for value in holm(np.array(p))]


def _verdict(one: ContrastResult, p: float) -> Verdict:
    if one.places < FEWEST_PLACES or not p < ALPHA:
        return "not found"
    if (one.mean > 0) != (one.planned.hoped == "higher"):
        return "contradicted"
    return "found" if one.condition is None or one.condition.holds else "not found"


def _estimate(cohort: Cohort, one: PlannedContrast) -> ContrastResult:
    (changes,) = cohort.differences([one.row], one.against, metrics=one.metrics)
    expected = set(cohort.usable)
    if one.where is not None:
        kept = _runs_where(cohort, one)
        expected &= kept
        changes = changes.among(np.array([key in kept for key in changes.keys], dtype=np.bool_))
    return estimate(one, changes, len(expected))


def estimate(one: PlannedContrast, changes: Differences, expected: int) -> ContrastResult:
    """A contrast from the paired runs that it is about; :func:`judged` tests it."""
    if one.at == "worst place":
        return _at_worst_place(one, changes, expected)
    by_place, runs = _by_place(changes, one.metric)
    condition = None if one.not_worse is None else _condition(changes, one.not_worse)
    return from_places(one, by_place, runs, expected - runs, condition)


def without_results(one: PlannedContrast, missing: int) -> ContrastResult:
    empty = from_places(one, {}, 0, missing)
    return replace(empty, verdict=None, reason=NOT_PACKED)


def from_places(
    planned: PlannedContrast,
    by_place: Mapping[str, float],
    runs: int,
    missing: int = 0,
    condition: Condition | None = None,
) -> ContrastResult:
    """A contrast from the mean difference of each place alone; :func:`decided` tests it."""
    found = _over(by_place)
    low, high = found.interval()
    new_low, new_high = found.new_place()
    return ContrastResult(
        planned=planned,
        by_place=dict(by_place),
        runs=runs,
        missing=missing,
        mean=found.mean,
        low=low,
        high=high,
        p=found.p if planned.family else float("nan"),
        holm=float("nan"),
        detectable=float("nan"),
        new_low=new_low,
        new_high=new_high,
        condition=condition,
        verdict="estimate only",
    )


def _over(by_place: Mapping[str, float]) -> PlaceMeans:
    return over_places(np.array(list(by_place.values())), numbered(list(by_place), "place"))


def _by_place(changes: Differences, metric: str) -> tuple[dict[str, float], int]:
    keys, values = changes.finite(metric)
    means = over_places(values, clusters(keys, "domain")).by_place
    return dict(zip(_places(keys), means.tolist(), strict=True)), len(values)


def _condition(changes: Differences, asked: NotWorse) -> Condition:
    found = _over(_by_place(changes, asked.metric)[0])
    low, high = found.interval()
    holds = low > -asked.by if higher_is_better(asked.metric) else high < asked.by
    return Condition(asked.metric, asked.by, found.mean, low, high, holds)


def _at_worst_place(one: PlannedContrast, changes: Differences, expected: int) -> ContrastResult:
    """The worst place under the rule minus the worst place under the reference: no interval."""
    keys, values = changes.finite(one.metric)
    column, kept = changes.metrics.index(one.metric), set(keys)
    finite = np.array([key in kept for key in changes.keys], dtype=np.bool_)
    groups, labels = clusters(keys, "domain"), _places(keys)
    worst = {}
    for name, side in ((one.rule, changes.of_rule), (one.reference, changes.of_reference)):
        by_place = scale(one.metric) * over_places(side[finite, column], groups).by_place
        at = int(by_place.argmin() if higher_is_better(one.metric) else by_place.argmax())
        worst[f"{name}: {labels[at]}"] = float(by_place[at])
    of_rule, of_reference = worst.values()
    alone = from_places(one, {}, len(values), expected - len(values))
    return replace(alone, by_place=worst, mean=of_rule - of_reference)


def _runs_where(cohort: Cohort, one: PlannedContrast) -> set[RunKey]:
    assert one.where is not None
    chosen = cohort.outcomes(method(one.where.rule), held_out=False)
    fitted = {o.key: o.calibration.temperature for o in chosen if o.calibration is not None}
    below = one.where.temperature_below
    return {key for key, value in fitted.items() if value is not None and value < below}


def _places(keys: Sequence[RunKey]) -> list[str]:
    several = len({key.dataset for key in keys}) > 1
    places = dict.fromkeys((key.dataset, key.held_out) for key in keys)
    return [f"{name}: {'+'.join(p)}" if several else "+".join(p) for name, p in places]


def as_record(result: ContrastResult) -> dict[str, Any]:
    one, condition = result.planned, result.condition
    numbers = ("mean", "low", "high", "p", "holm", "detectable", "new_low", "new_high")
    return {
        "name": one.name,
        "rule": one.row.label,
        "reference": one.against.label,
        "metric": one.metric,
        "scale": scale(one.metric),
        "hoped": one.hoped,
        "family": one.family or None,
        "at": one.at,
        "verdict": result.verdict,
        "reason": result.reason or None,
        "unit": "place",
        "places": result.places,
        "runs": result.runs,
        "missing": result.missing,
        "level": LEVEL,
        **{name: _or_none(getattr(result, name)) for name in numbers},
        "condition": condition and {n: _or_none(value) for n, value in asdict(condition).items()},
        "by_place": dict(result.by_place),
    }


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and isnan(value) else value
