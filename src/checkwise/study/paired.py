"""Differences to a reference rule, paired by run, and what to say about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import METRICS
from checkwise.records import RunKey
from checkwise.statistics.bootstrap import LEVEL, RESAMPLES, SEED, percentile_interval
from checkwise.statistics.spread import spread
from checkwise.study.outcome import Outcome
from checkwise.study.units import UnitInterval, unit_intervals

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ACCURACY = "target_accuracy"
TRIM = 0.05


@dataclass(frozen=True)
class Contrast:
    """One rule against the reference in one metric, on the reported scale.

    Args:
        rule, reference, metric: what is compared.
        scale: factor from stored fractions to the numbers here (100 or 1).
        n: run pairs.
        mean, low, high: mean difference (rule − reference) and its interval; nan ends for n < 2.
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


@dataclass(frozen=True, eq=False)
class Differences:
    """A rule and the reference on the same runs, each [runs, metrics]; nan where missing.

    ``mine`` and ``theirs`` are as stored (fractions); ``values`` is their difference on the
    reported scale.
    """

    rule: str
    reference: str
    keys: tuple[RunKey, ...]
    metrics: tuple[str, ...]
    mine: FloatArray
    theirs: FloatArray
    needs: str = ""
    seconds: float = float("nan")
    in_sample: bool = False

    @property
    def values(self) -> FloatArray:
        """Rule − reference, on the reported scale."""
        factors = np.array([scale(metric) for metric in self.metrics])
        return np.asarray(factors * (self.mine - self.theirs))

    def among(self, keep: BoolArray) -> Differences:
        """Only the marked runs."""
        keys = tuple(key for key, kept in zip(self.keys, keep.tolist(), strict=True) if kept)
        return replace(self, keys=keys, mine=self.mine[keep], theirs=self.theirs[keep])


def scale(metric: str) -> int:
    """Factor for display: ``target_nll`` → 1, ``target_accuracy`` → 100."""
    name = metric.partition("_")[2]
    return METRICS[name].scale if name in METRICS else 1


def higher_is_better(metric: str) -> bool:
    """Direction of ``source_<metric>`` or ``target_<metric>``; a gap is better when small."""
    name = metric.partition("_")[2]
    return name in METRICS and METRICS[name].direction == "higher"


def trimmed_mean(values: FloatArray) -> float:
    """The mean without the lowest and highest 5% of values (rounded down); nan of nothing."""
    n = len(values)
    cut = int(TRIM * n)
    return float(np.sort(values)[cut : n - cut].mean()) if n else float("nan")


def differences(
    rule: str,
    reference: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    metrics: Sequence[str],
) -> Differences:
    """Pair two rules by the runs that both have.

    Runs are put in key order, so that draws do not depend on the plan.
    """
    mine = {outcome.key: outcome for outcome in outcomes[rule]}
    theirs = {outcome.key: outcome for outcome in outcomes[reference]}
    keys = tuple(sorted(mine.keys() & theirs.keys()))
    if not keys:
        raise InputError(
            f"Expected runs that {rule} and {reference} both have results for, but there are none: "
            "compare with another reference."
        )
    return Differences(
        rule,
        reference,
        keys,
        tuple(metrics),
        _table([mine[key] for key in keys], metrics),
        _table([theirs[key] for key in keys], metrics),
        seconds=float(np.mean([mine[key].seconds for key in keys])),
        in_sample=any(mine[key].in_sample for key in keys),
    )


def between(
    rule: str,
    reference: str,
    keys: tuple[RunKey, ...],
    metrics: Sequence[str],
    mine: Mapping[str, FloatArray],
    theirs: Mapping[str, FloatArray],
) -> Differences:
    """Pair two sets of columns over the same runs."""
    for metric in metrics:
        if metric not in mine or metric not in theirs:
            raise InputError(
                f"Expected a metric that the runs carry, but got {metric!r}. They carry "
                f"{', '.join(name for name in mine if name in theirs)}."
            )
    first, second = (np.stack([side[m] for m in metrics], axis=1) for side in (mine, theirs))
    return Differences(rule, reference, keys, tuple(metrics), first, second)


def _table(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> FloatArray:
    rows = [[_value(outcome, metric) for metric in metrics] for outcome in outcomes]
    return np.array(rows, dtype=np.float64).reshape(len(outcomes), len(metrics))


def _value(outcome: Outcome, metric: str) -> float:
    try:
        return outcome.value(metric)
    except KeyError:
        raise _missing(outcome, metric, next(iter(outcome.targets.values()), {})) from None


def check_carried(
    metrics: Sequence[str],
    rows: Iterable[Sequence[Outcome]],
    on_target: Sequence[str] | None = None,
) -> None:
    """Refuse metrics that the runs lack, before anything held out is opened.

    A trained run records the same metrics on held-out domains as on source validation; of an
    imported one ``on_target`` names them.
    """
    for outcome in (outcome for outcomes in rows for outcome in outcomes):
        measured = outcome.source if on_target is None else on_target
        carried = {f"source_{name}" for name in outcome.source}
        carried |= {f"target_{name}" for name in measured}
        for metric in metrics:
            if metric not in {*carried, "gap_pp"}:
                raise _missing(outcome, metric, measured)


def _missing(outcome: Outcome, metric: str, on_target: Iterable[str]) -> MissingMetricError:
    known = [
        *(f"source_{name}" for name in outcome.source),
        *(f"target_{name}" for name in on_target),
        "gap_pp",
    ]
    return MissingMetricError(
        f"Expected a metric that run {outcome.key} carries, but got {metric!r}. It has "
        f"{', '.join(known)}."
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
    found = np.isfinite(values)
    low = np.full(len(table.metrics), np.nan)
    high = low.copy()
    for pattern in np.unique(found, axis=1).T:
        same = (found == pattern[:, None]).all(axis=0)
        part = values[np.ix_(pattern, same)]
        low[same], high[same] = percentile_interval(
            part, level=level, resamples=resamples, seed=seed
        )
    return [
        _contrast(table, m, values[found[:, m], m], float(low[m]), float(high[m]), group)
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
    """The contrasts of ``table`` with an interval by each unit that runs share."""
    found = []
    for row, values in zip(rows, table.values.T, strict=True):
        there = np.isfinite(values)
        keys = [key for key, kept in zip(table.keys, there.tolist(), strict=True) if kept]
        found.append(replace(row, units=unit_intervals(values[there], keys, level)))
    return found
