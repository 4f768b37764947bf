"""Differences to a reference, paired by run, and what they say: one engine for every comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import RunKey
from checkwise.statistics import LEVEL, RESAMPLES, SEED, bootstrap_interval
from checkwise.study.inference import spread, trimmed_mean
from checkwise.study.outcome import FloatArray, Outcome, RunColumns, columns_over, key_labels
from checkwise.study.units import (
    DOMAIN_UNITS,
    SEED_UNITS,
    LeadingUnit,
    PlaceInterval,
    UnitInterval,
    deciding,
    is_crossed,
    leading_unit,
    place_interval,
    unit_intervals,
)

BoolArray = NDArray[np.bool_]

ACCURACY = "target_accuracy"
NAN = float("nan")
Over = Literal["runs", "places", "domains", "blocks", "blocks × domains"]


@dataclass(frozen=True)
class Contrast:
    """One rule − the reference in one metric over ``n`` pairs of runs, on the reported scale.

    ``mean``, ``low`` and ``high`` are of the unit that ``over`` names, see
    :func:`over_leading_unit`; nan ends where there are too few. Of places or domains each counts
    once, and ``over_runs`` and ``mean_over_runs`` have what runs say.
    """

    rule: str
    reference: str
    metric: str
    scale: int  # factor from stored fractions to the numbers here, 100 or 1
    n: int
    mean: float
    low: float
    high: float
    median: float
    trimmed: float  # the mean without the lowest and highest 5% of runs
    wins: int
    ties: int
    losses: int
    lose_1pp: float  # share of runs that lose a point of target accuracy; else nan
    missing: int  # pairs left out because a value is not finite: the model diverged there
    group: tuple[str, ...] = ()  # values of the columns that the comparison was split by
    needs: str = ""
    seconds: float = NAN  # what it took per run, measured; training that it asks for included
    in_sample: bool = False  # whether the rule's values are on examples it was fitted on
    units: Mapping[str, UnitInterval] = field(default_factory=dict)
    over: Over = "runs"
    over_runs: tuple[float, float] | None = None
    mean_over_runs: float | None = None
    places: PlaceInterval | None = None
    crossed: bool = True  # whether runs of several held-out domains share seeds

    @property
    def of_runs(self) -> tuple[float, float, float]:
        """The mean over runs, and the ends of its percentile interval."""
        low, high = self.over_runs or (self.low, self.high)
        return self.mean if self.mean_over_runs is None else self.mean_over_runs, low, high

    @property
    def leading(self) -> LeadingUnit:
        """The unit that leads, as far as the runs allow one."""
        blocks, domains = (
            self.units[name].groups if name in self.units else 0 for name in ("block", "domain")
        )
        return leading_unit(blocks, domains, crossed=self.crossed)

    def record(self) -> dict[str, Any]:
        """Its facts by name; ``seed_groups``, ``_low`` and ``_high`` are by block."""
        facts = {name: value for name, value in asdict(self).items() if name != "group"}
        units = facts.pop("units")
        block = units.get("block", {"groups": 0, "low": NAN, "high": NAN})
        seeds = {f"seed_{name}": block[name] for name in ("groups", "low", "high")}
        return {**facts, **seeds, "units": units}


def flat_record(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A record for one row of a table: ``draw_low`` for the lower end by draw, and so on."""
    units = {
        f"{unit}_{name}": value
        for unit, interval in facts["units"].items()
        for name, value in interval.items()
    }
    places = {
        name if name == "places" else f"place_{name}": value
        for name, value in (facts.get("places") or {}).items()
    }
    nested = ("units", "places", "over_runs")
    plain = {name: value for name, value in facts.items() if name not in nested}
    runs = facts.get("over_runs") or (facts["low"], facts["high"])
    return {**plain, **units, **places, "run_low": runs[0], "run_high": runs[1]}


@dataclass(frozen=True, eq=False)
class Differences:
    """A rule and the reference on the same runs, each [runs, metrics] as stored; nan if missing."""

    rule: str
    reference: str
    keys: tuple[RunKey, ...]
    metrics: tuple[str, ...]
    of_rule: FloatArray
    of_reference: FloatArray
    needs: str = ""
    seconds: float = NAN
    in_sample: bool = False

    @property
    def values(self) -> FloatArray:
        """Rule − reference, on the reported scale."""
        factors = np.array([scale(metric) for metric in self.metrics])
        return np.asarray(factors * (self.of_rule - self.of_reference))

    def among(self, keep: BoolArray) -> Differences:
        """Only the marked runs."""
        return replace(
            self,
            keys=marked(self.keys, keep),
            of_rule=self.of_rule[keep],
            of_reference=self.of_reference[keep],
        )

    def finite(self, metric: str) -> tuple[tuple[RunKey, ...], FloatArray]:
        """The runs with a finite difference in a metric, and those differences."""
        column = self.values[:, self.metrics.index(metric)]
        keep = np.isfinite(column)
        return marked(self.keys, keep), column[keep]


def marked(keys: Sequence[RunKey], keep: BoolArray) -> tuple[RunKey, ...]:
    return tuple(key for key, kept in zip(keys, keep.tolist(), strict=True) if kept)


def scale(metric: str) -> int:
    """Factor for display: ``target_nll`` → 1, ``target_accuracy`` → 100."""
    name = metric.partition("_")[2]
    return METRICS[name].scale if name in METRICS else 1


def higher_is_better(metric: str) -> bool:
    """Direction of ``source_<metric>`` or ``target_<metric>``; a gap is better when small."""
    name = metric.partition("_")[2]
    return name in METRICS and METRICS[name].direction == "higher"


def pair(
    rule: str,
    reference: str,
    keys: Sequence[RunKey],
    metrics: Sequence[str],
    of_rule: RunColumns,
    of_reference: RunColumns,
) -> Differences:
    """Put two methods side by side; their columns are over the runs ``keys``, in that order."""
    first, second = (
        np.stack([side[m] for m in metrics], axis=1) for side in (of_rule, of_reference)
    )
    return Differences(rule, reference, tuple(keys), tuple(metrics), first, second)


def pair_outcomes(
    rule: str, reference: str, outcomes: Mapping[str, Sequence[Outcome]], metrics: Sequence[str]
) -> Differences:
    """Pair two methods on the runs that both have, in key order: draws do not follow the plan."""
    of_rule, of_reference = (
        {outcome.key: outcome for outcome in outcomes[name]} for name in (rule, reference)
    )
    keys = sorted(of_rule.keys() & of_reference.keys())
    if not keys:
        raise InputError(
            f"Expected runs that {rule} and {reference} both have results for, but there are none: "
            "compare with another reference.",
            code="empty",
        )
    sides = (columns_over(of_rule, keys), columns_over(of_reference, keys))
    return replace(
        pair(rule, reference, keys, metrics, *sides),
        seconds=float(np.mean([of_rule[key].seconds for key in keys])),
        in_sample=any(of_rule[key].in_sample for key in keys),
    )


def check_carried(
    metrics: Sequence[str],
    rows: Iterable[Sequence[Outcome]],
    on_target: Sequence[str] | None = None,
) -> None:
    """Refuse metrics that runs lack; before opening they have the source's or ``on_target``."""
    for outcome in (outcome for outcomes in rows for outcome in outcomes):
        measured = on_target or (outcome.target if outcome.targets else outcome.source)
        carried = [
            *(f"source_{name}" for name in outcome.source),
            *(f"target_{name}" for name in measured),
            "gap_pp",
        ]
        for metric in metrics:
            if metric not in carried:
                raise MissingMetricError(
                    f"Expected a metric that run {outcome.key} carries, but got {metric!r}. It has "
                    f"{', '.join(carried)}."
                )


def contrasts(
    table: Differences,
    by: Sequence[str] = (),
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Contrast]:
    """One contrast per metric for every combination of the columns ``by``, with all units."""
    labels = key_labels(table.keys, by)
    rows: list[Contrast] = []
    for group in sorted(set(labels)) if by else [()]:
        part = table.among(np.array([label == group for label in labels], dtype=bool))
        low, high = _percentiles(part.values, level=level, resamples=resamples, seed=seed)
        for metric, *ends in zip(part.metrics, low.tolist(), high.tolist(), strict=True):
            over_runs = _over_runs(part, metric, ends, level)
            rows.append(over_leading_unit(replace(over_runs, group=group)))
    return rows


def _percentiles(values: FloatArray, **draws: Any) -> tuple[FloatArray, FloatArray]:
    """The interval of every column; those that are finite for the same runs share their draws."""
    finite = np.isfinite(values)
    low = np.full(values.shape[1], np.nan)
    high = low.copy()
    for pattern in np.unique(finite, axis=1).T:
        same = (finite == pattern[:, None]).all(axis=0)
        low[same], high[same] = bootstrap_interval(values[np.ix_(pattern, same)], **draws)
    return low, high


def _over_runs(table: Differences, metric: str, ends: Sequence[float], level: float) -> Contrast:
    keys, values = table.finite(metric)
    n = len(values)
    counts = spread(values, higher_is_better=higher_is_better(metric))
    return Contrast(
        rule=table.rule,
        reference=table.reference,
        metric=metric,
        scale=scale(metric),
        n=n,
        mean=float(values.mean()) if n else NAN,
        low=ends[0],
        high=ends[1],
        median=float(np.median(values)) if n else NAN,
        trimmed=trimmed_mean(values),
        wins=counts.wins,
        ties=counts.ties,
        losses=counts.losses,
        lose_1pp=counts.lose_point / n if n and metric == ACCURACY else NAN,
        missing=len(table.keys) - n,
        needs=table.needs,
        seconds=table.seconds,
        in_sample=table.in_sample and metric.startswith("source_"),
        units=unit_intervals(values, keys, level),
        places=place_interval(values, keys, level),
        crossed=is_crossed(keys),
    )


def over_leading_unit(row: Contrast) -> Contrast:
    """The contrast with the interval of the unit that leads; over runs where groups are too few.

    Over places, or fewer domains, the mean is over them as well: each counts once. With fewer than
    three domains, runs that share no seeds are the unit themselves.
    """
    unit, places = row.leading, row.places
    if unit.name == "domain" and places is not None:
        low, high = places.low, places.high
        over: Over = "places" if places.many else "domains"
        row = replace(row, over_runs=(row.low, row.high), mean_over_runs=row.mean)
        return replace(row, mean=places.mean, low=low, high=high, over=over)
    found = row.units.get(unit.name)
    if found is None or not found.decides or (unit.name == "block" and unit.blocks == row.n):
        return row
    over = "blocks" if unit.name == "block" else "blocks × domains"
    return replace(row, low=found.low, high=found.high, over=over, over_runs=(row.low, row.high))


Direction = Literal["better", "worse", "unclear"]
Reach = Literal["new domains", "these domains", "these runs"]


@dataclass(frozen=True)
class Verdict:
    """Whether a rule is better or worse than the reference, and how far that is shown to reach.

    A direction is "unclear" unless the interval over runs and those of every unit with more than
    two groups lie on the mean's side of zero; where places are counted, theirs has to as well.
    """

    direction: Direction
    reach: Reach  # "these runs" where no unit of seeds has enough groups
    against: tuple[str, ...]  # units that can decide and do not bear it out, "run" among them
    too_few: tuple[str, ...]  # units with too few groups to decide


def verdict(contrast: Contrast) -> Verdict:
    decisive = deciding(contrast.units, crossed=contrast.crossed)
    intervals = {
        "run": [contrast.of_runs[1:]],
        **{unit: [(one.low, one.high)] for unit, one in decisive.items()},
    }
    if contrast.over in ("places", "domains"):
        intervals.setdefault("domain", []).append((contrast.low, contrast.high))
    against = tuple(
        unit
        for unit, ends in intervals.items()
        if not all(_bears_out(contrast.mean, low, high) for low, high in ends)
    )
    better = (contrast.mean > 0) == higher_is_better(contrast.metric)
    return Verdict(
        "unclear" if against else "better" if better else "worse",
        _reach(tuple(decisive), against),
        against,
        tuple(unit for unit, one in contrast.units.items() if not one.decides),
    )


def _bears_out(mean: float, low: float, high: float) -> bool:
    """Whether an interval lies on the mean's side of zero; never without an interval."""
    return low > 0 if mean > 0 else high < 0


def _reach(decisive: tuple[str, ...], against: tuple[str, ...]) -> Reach:
    if not any(unit in decisive for unit in SEED_UNITS):
        return "these runs"
    shown = "domain" in decisive and not any(unit in against for unit in DOMAIN_UNITS)
    return "new domains" if shown else "these domains"
