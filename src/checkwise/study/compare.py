"""Differences to a reference, paired by run, and what they say: one engine for every comparison.

``pair`` puts two methods side by side on the same runs; ``compare``, tables, figures and the page
all start from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import RunKey
from checkwise.statistics import LEVEL, RESAMPLES, SEED, percentile_interval
from checkwise.study.inference import spread, trimmed_mean
from checkwise.study.outcome import FloatArray, Outcome, RunColumns, columns_over
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
Over = Literal["runs", "places", "domains", "blocks", "blocks × domains"]


@dataclass(frozen=True)
class Contrast:
    """One rule against the reference in one metric, on the reported scale.

    Args:
        rule, reference, metric: what is compared.
        scale: factor from stored fractions to the numbers here (100 or 1).
        n: run pairs.
        mean, low, high: mean difference (rule − reference) and its interval; nan ends for n < 2.
            Over held-out places or domains every one of them counts once, see ``over``.
        median, trimmed: the median, and the mean without the lowest and highest 5% of runs.
        wins, ties, losses: runs where the rule is better, equal, worse.
        lose_1pp: share of runs that lose at least 1 point; for target accuracy, else nan.
        missing: pairs left out because a value is not finite (the model diverged there).
        group: values of the columns that the comparison was split by.
        needs: what the rule or method needs.
        seconds: what it took per run, measured; training that it asks for included.
        in_sample: whether the rule's values are on examples that something of it was fitted on.
        units: cluster-t intervals by block, draw, trial, domain and block × domain; see
            :func:`by_units`.
        over: what the interval counts, see :func:`over_leading_unit`.
        over_runs: the interval over runs, where the one that is shown counts something else.
        mean_over_runs: the mean over runs, where ``mean`` counts every place once.
        places: the mean over held-out places, each counting once.
        crossed: whether runs of several held-out domains share seeds.
    """

    rule: str
    reference: str
    metric: str
    scale: int
    n: int
    mean: float
    low: float
    high: float
    median: float
    trimmed: float
    wins: int
    ties: int
    losses: int
    lose_1pp: float
    missing: int
    group: tuple[str, ...] = ()
    needs: str = ""
    seconds: float = float("nan")
    in_sample: bool = False
    units: Mapping[str, UnitInterval] = field(default_factory=dict)
    over: Over = "runs"
    over_runs: tuple[float, float] | None = None
    mean_over_runs: float | None = None
    places: PlaceInterval | None = None
    crossed: bool = True


@dataclass(frozen=True, eq=False)
class Differences:
    """A rule and the reference on the same runs, each [runs, metrics]; nan where missing.

    ``of_rule`` and ``of_reference`` are as stored (fractions); ``values`` is their difference on
    the reported scale.
    """

    rule: str
    reference: str
    keys: tuple[RunKey, ...]
    metrics: tuple[str, ...]
    of_rule: FloatArray
    of_reference: FloatArray
    needs: str = ""
    seconds: float = float("nan")
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


def marked(keys: Sequence[RunKey], keep: BoolArray) -> tuple[RunKey, ...]:
    """The runs that are marked."""
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
    """Refuse metrics that the runs lack.

    Before held-out results are opened, a trained run counts as having the metrics of its source
    validation on held-out domains too; of an imported one ``on_target`` names them.
    """
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
    *,
    group: tuple[str, ...] = (),
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Contrast]:
    """One contrast per metric; metrics with the same runs share their draws."""
    values = table.values
    finite = np.isfinite(values)
    low = np.full(len(table.metrics), np.nan)
    high = low.copy()
    for pattern in np.unique(finite, axis=1).T:
        same = (finite == pattern[:, None]).all(axis=0)
        part = values[np.ix_(pattern, same)]
        low[same], high[same] = percentile_interval(
            part, level=level, resamples=resamples, seed=seed
        )
    return [
        _contrast(table, m, values[finite[:, m], m], float(low[m]), float(high[m]), group)
        for m in range(len(table.metrics))
    ]


def _contrast(
    table: Differences, m: int, values: FloatArray, low: float, high: float, group: tuple[str, ...]
) -> Contrast:
    metric = table.metrics[m]
    n = len(values)
    counts = spread(values, higher_is_better=higher_is_better(metric))
    return Contrast(
        rule=table.rule,
        reference=table.reference,
        metric=metric,
        scale=scale(metric),
        n=n,
        mean=float(values.mean()) if n else float("nan"),
        low=low,
        high=high,
        median=float(np.median(values)) if n else float("nan"),
        trimmed=trimmed_mean(values),
        wins=counts.wins,
        ties=counts.ties,
        losses=counts.losses,
        lose_1pp=counts.lose_point / n if n and metric == ACCURACY else float("nan"),
        missing=len(table.keys) - n,
        group=group,
        needs=table.needs,
        seconds=table.seconds,
        in_sample=table.in_sample and metric.startswith("source_"),
    )


def by_units(table: Differences, rows: Sequence[Contrast], level: float = LEVEL) -> list[Contrast]:
    """The contrasts of ``table`` with an interval by each unit that runs share.

    The interval that leads is that of the leading unit, see :func:`over_leading_unit`.
    """
    with_units = []
    for row, values in zip(rows, table.values.T, strict=True):
        finite = np.isfinite(values)
        keys = marked(table.keys, finite)
        places = place_interval(values[finite], keys, level)
        units = unit_intervals(values[finite], keys, level)
        found = replace(row, units=units, places=places, crossed=is_crossed(keys))
        with_units.append(over_leading_unit(found))
    return with_units


def over_leading_unit(row: Contrast) -> Contrast:
    """The contrast with the interval of the unit that leads; over runs where groups are too few.

    Over places, or fewer domains, the mean is over them as well: each counts once. With fewer than
    three domains, runs that share no seeds are the unit themselves.
    """
    unit, places = counted_by(row), row.places
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


def counted_by(row: Contrast) -> LeadingUnit:
    """The unit that leads for a contrast, as far as its runs allow one."""
    blocks, domains = (
        row.units[name].groups if name in row.units else 0 for name in ("block", "domain")
    )
    return leading_unit(blocks, domains, crossed=row.crossed)


Direction = Literal["better", "worse", "unclear"]
Reach = Literal["new domains", "these domains", "these runs"]


@dataclass(frozen=True)
class Verdict:
    """Whether a rule is better or worse than the reference, and for what that is shown.

    Args:
        direction: "unclear" unless the interval over runs and those of every unit with more than
            two groups (block, draw, trial, domain, block × domain) lie on the mean's side of zero.
            Where the interval that is shown counts places, it has to lie there as well.
        reach: how far a difference reaches. "these runs" where no unit of seeds has enough groups,
            "these domains" where the held-out domains are too few, or do not bear it out.
        against: units that can decide and do not bear it out, "run" among them.
        too_few: units with too few groups to decide.
    """

    direction: Direction
    reach: Reach
    against: tuple[str, ...]
    too_few: tuple[str, ...]


def verdict(contrast: Contrast) -> Verdict:
    """The criterion of docs/statistics.md, applied to one contrast."""
    decisive = deciding(contrast.units, crossed=contrast.crossed)
    intervals = {
        "run": [contrast.over_runs or (contrast.low, contrast.high)],
        **{unit: [(one.low, one.high)] for unit, one in decisive.items()},
    }
    if contrast.over in ("places", "domains"):
        intervals.setdefault("domain", []).append((contrast.low, contrast.high))
    against = tuple(
        unit
        for unit, ends in intervals.items()
        if not all(_bears_out(contrast.mean, low, high) for low, high in ends)
    )
    return Verdict(
        _direction(contrast, against),
        _reach(tuple(decisive), against),
        against,
        tuple(unit for unit, one in contrast.units.items() if not one.decides),
    )


def _bears_out(mean: float, low: float, high: float) -> bool:
    """Whether an interval lies on the mean's side of zero; never without an interval."""
    return low > 0 if mean > 0 else high < 0


def _direction(contrast: Contrast, against: tuple[str, ...]) -> Direction:
    if against:
        return "unclear"
    return "better" if (contrast.mean > 0) == higher_is_better(contrast.metric) else "worse"


def _reach(decisive: tuple[str, ...], against: tuple[str, ...]) -> Reach:
    if not any(unit in decisive for unit in SEED_UNITS):
        return "these runs"
    shown = "domain" in decisive and not any(unit in against for unit in DOMAIN_UNITS)
    return "new domains" if shown else "these domains"
