"""The main contrast under every assumption about which runs are independent, and its weak spots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import RESAMPLES, SEED, bootstrap_interval
from checkwise.study import (
    SEED_UNITS,
    UNITS,
    FloatArray,
    Pool,
    clusters,
    higher_is_better,
    leading_means,
    marked,
    place_interval,
    scale,
)
from checkwise.study.inference import (
    ENUMERATED,
    ClusterMeans,
    Clusters,
    cluster_means,
    equivalence,
    holm,
    max_t,
    minimum_detectable_effect,
    sign_patterns,
    two_way_means,
    wild_interval,
)
from checkwise.study.tables.cells import MAIN
from checkwise.study.tables.table import Cell, plain_cells

Ends = tuple[FloatArray, FloatArray]
BOTH_WAYS = "block × domain"
# Rules of the correction for comparing that many.
RULES = ("ac-nc", "ac-ne", "ac-nec", "ac-nll", "ac-cwece", "ac-ece", "ac-early", "pure-nll")
# Leaving a run out moves a mean of well-behaved values by far less than its standard error.
NOTABLE = 0.5
NAMED = 3  # runs per metric in the influence table, besides the notable ones


def inference(pool: Pool) -> Iterator[Cell]:
    """One contrast, all intervals: over runs, and over clusters of runs that share draws."""
    measures, units = pool.measured(MAIN), _units(pool.keys)
    for group in pool.by_role():
        changes = pool.differences(pool.rule, pool.reference, measures, group.keep)
        for measure in measures:
            keys, values = changes.finite(measure)
            column = values[:, None]
            for unit in units:
                yield from _intervals(measure, unit, column, clusters(keys, unit), group.role)
            if "block" in units:
                yield from _two_way(measure, column, keys, group.role)
            yield from _new_place(measure, values, keys, group.role)


def about_inference(pool: Pool) -> str:
    """What the clusters are, and how the intervals come about."""
    units = _units(pool.keys)
    shared = any(unit in SEED_UNITS for unit in units)
    named = [f"{unit}: {UNITS[unit]}." for unit in units]
    if "block" in units:
        named.append(f"{BOTH_WAYS}: both at once, with the degrees of freedom of the fewer.")
    return (
        f"{'Runs share hyperparameter draws and splits.' if shared else 'No two runs share seeds.'}"
        f" {' '.join(named)} The wild bootstrap flips the signs of clusters: in every pattern "
        f"up to {ENUMERATED} clusters, in random ones beyond. It is unbounded with five clusters "
        "or fewer. Detectable: a true change that would be found with 80% probability. New place: "
        "where the mean change of one new held-out domain of the same kind is expected, "
        "mean ± t·s·√(1 + 1/G)."
    )


def _units(keys: Sequence[RunKey]) -> list[str]:
    """The units that say something: shared seeds only where two runs share them."""
    return [
        unit for unit in UNITS if unit not in SEED_UNITS or clusters(keys, unit).count < len(keys)
    ]


def _intervals(
    measure: str, unit: str, values: FloatArray, groups: Clusters, role: str
) -> Iterator[Cell]:
    means = cluster_means(values, groups)
    drawn = (SEED, RESAMPLES)
    intervals: dict[str, tuple[Ends, tuple[int | None, int]]] = {
        "t": (means.interval(), (None, 0)),
        "wild": (wild_interval(values, groups), signs_drawn(groups.count)),
    }
    if unit == "run":
        intervals["percentile"] = (bootstrap_interval(values), drawn)
        intervals["bca"] = (bootstrap_interval(values, method="bca"), drawn)
    for method, (ends, (seed, resamples)) in intervals.items():
        row = (measure, unit, str(groups.count), method)
        change = _change(row, means, ends, role)
        yield replace(change, seed=seed, resamples=resamples)
        if method == "t":
            yield from _tested(row, means, role)


def signs_drawn(groups: int) -> tuple[int | None, int]:
    """The seed and number of the sign patterns that were drawn; None and 0 where all were tried."""
    return (SEED, len(sign_patterns(groups))) if groups > ENUMERATED else (None, 0)


def _change(row: tuple[str, ...], means: ClusterMeans, ends: Ends, role: str) -> Cell:
    (low,), (high,) = ends
    mean, over = float(means.mean[0]), f"clusters of {row[1]}"
    factor = scale(row[0])
    return Cell(row, "change", mean, means.n, role, factor, float(low), float(high), over=over)


def _tested(row: tuple[str, ...], means: ClusterMeans, role: str) -> list[Cell]:
    least, p = minimum_detectable_effect(means), means.p_value()
    return [
        Cell(row, "detectable", float(least[0]), means.n, role, scale(row[0])),
        Cell(row, "p", float(p[0]), means.n, role),
    ]


def _two_way(measure: str, values: FloatArray, keys: Sequence[RunKey], role: str) -> Iterator[Cell]:
    """The t interval that allows for shared seeds and shared held-out domains at once."""
    block, domain = clusters(keys, "block"), clusters(keys, "domain")
    means = two_way_means(values, block, domain)
    row = (measure, BOTH_WAYS, f"{block.count} × {domain.count}", "t")
    yield _change(row, means, means.interval(), role)
    yield from _tested(row, means, role)


def _new_place(
    measure: str, values: FloatArray, keys: Sequence[RunKey], role: str
) -> Iterator[Cell]:
    found, factor = place_interval(values, keys), scale(measure)
    if found.decides:
        row = (measure, "domain", str(found.places), "new place")
        ends = (found.new_low, found.new_high)
        yield Cell(row, "change", found.mean, len(values), role, factor, *ends, over="a new place")


def equivalences(pool: Pool, margins: Mapping[str, float]) -> Iterator[Cell]:
    """Is the change smaller than the margin you name? One row per metric with a margin."""
    for group in pool.by_role():
        for measure, margin in margins.items():
            changes = pool.differences(pool.rule, pool.reference, [measure], group.keep)
            keys, values = changes.finite(measure)
            found = leading_means(values[:, None], keys)
            better = higher_is_better(measure)
            tested = equivalence(found.means, margin, higher_is_better=better)
            over, n, factor = str(found.unit), len(values), scale(measure)
            row, ends = (measure, f"{margin:g}", over), (tested.low, tested.high)
            change = Cell(row, "change_90", tested.mean, n, group.role, factor, *ends, over=over)
            yield replace(change, level=0.9)
            p = {"p_equivalent": tested.p_equivalent, "p_noninferior": tested.p_noninferior}
            yield from plain_cells(row, p, n, group.role)


def multiplicity(pool: Pool) -> Iterator[Cell]:
    """Many rules against the reference, with p-values corrected for their number."""
    for group in pool.by_role():
        for measure in MAIN:
            tables = [pool.differences(r, "source-acc", [measure], group.keep) for r in RULES]
            values = np.concatenate([changes.values for changes in tables], axis=1)
            finite = np.isfinite(values).all(axis=1)
            keys = marked(tables[0].keys, finite)
            yield from _corrected(measure, values[finite], keys, group.role)


def _corrected(
    measure: str, values: FloatArray, keys: Sequence[RunKey], role: str
) -> Iterator[Cell]:
    found = leading_means(values, keys)
    means, n, p = found.means, len(values), found.means.p_value()
    p_holm, p_max_t = holm(p), np.max([max_t(*line) for line in found.lines], axis=0)
    seed, patterns = signs_drawn(max(groups.count for _, groups in found.lines))
    for k, rule in enumerate(RULES):
        row = (measure, rule, str(found.unit))
        yield Cell(row, "change", float(means.mean[k]), n, role, scale(measure))
        yield from plain_cells(row, {"p": p[k], "p_holm": p_holm[k]}, n, role)
        yield Cell(row, "p_max_t", float(p_max_t[k]), n, role, seed=seed, resamples=patterns)


@dataclass(frozen=True)
class Influence:
    """One run left out."""

    run: RunKey
    value: float  # its own difference
    mean: float  # over all runs
    without: float  # the mean of the others
    moved: float  # ``without`` − ``mean``, in standard errors of the mean over all runs
    sign_changes: bool  # whether the others' mean has the opposite sign

    @property
    def notable(self) -> bool:
        return self.sign_changes or abs(self.moved) >= NOTABLE


def influence(keys: Sequence[RunKey], values: FloatArray) -> list[Influence]:
    """Leave out every run in turn; the most influential first.

    Example:
        >>> keys = [RunKey("PACS", "ERM", ("art",), 0, t) for t in range(4)]
        >>> first = influence(keys, np.array([0.1, -8.0, 0.1, 0.1]))[0]
        >>> str(first.run), round(first.mean, 3), round(first.without, 3), first.sign_changes
        ('PACS-ERM-art-h0-t1', -1.925, 0.1, True)
    """
    x, n = np.asarray(values, dtype=np.float64), len(values)
    if n < 2:
        return []
    mean = float(x.mean())
    without = (x.sum() - x) / (n - 1)
    moved, error = without - mean, float(x.std(ddof=1)) / np.sqrt(n)
    return [
        Influence(
            run=keys[i],
            value=float(x[i]),
            mean=mean,
            without=float(without[i]),
            moved=float(moved[i] / error) if error > 0 else 0.0,
            sign_changes=bool(without[i] * mean < 0),
        )
        for i in np.argsort(-np.abs(moved), kind="stable").tolist()
    ]


def influences(pool: Pool) -> Iterator[Cell]:
    """The runs whose absence moves a mean change most."""
    measures = pool.measured(MAIN)
    for group in pool.by_role():
        changes = pool.differences(pool.rule, pool.reference, measures, group.keep)
        for measure in measures:
            ranked = influence(*changes.finite(measure))
            for one in [*ranked[:NAMED], *(one for one in ranked[NAMED:] if one.notable)]:
                row, n, role = (measure, str(one.run)), len(ranked), group.role
                points = {
                    "own_change": one.value,
                    "change": one.mean,
                    "change_without": one.without,
                }
                yield from plain_cells(row, points, n, role, scale(measure))
                others = {"moved_errors": one.moved, "sign_changes": one.sign_changes}
                yield from plain_cells(row, others, n, role)
