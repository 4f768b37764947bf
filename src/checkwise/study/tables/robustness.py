"""The main contrast under every assumption about which runs are independent, and its weak spots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.statistics import RESAMPLES, SEED, bootstrap_interval
from checkwise.study import (
    SEED_UNITS,
    UNITS,
    Differences,
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
    equivalence_of,
    holm,
    max_t,
    minimum_detectable_effect,
    sign_patterns,
    two_way_means,
    wild_interval,
)
from checkwise.study.tables.means_and_changes import MAIN
from checkwise.study.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray]
BOTH_WAYS = "block × domain"
CLUSTERS = (
    "A place or domain: runs with the same held-out domain. A block: runs with the same seeds. "
    "Blocks × domains: both at once, with the degrees of freedom of the fewer."
)


def inference(pool: Pool) -> Table:
    """One contrast, all intervals: over runs, and over clusters of runs that share draws."""
    cells, measures = [], pool.measured(MAIN)
    units = _units(pool.keys)
    for group in pool.by_role():
        changes = pool.differences(pool.rule, pool.reference, measures, group.keep)
        for measure in measures:
            keys, values = finite(changes, measure)
            for unit in units:
                cells += _intervals(measure, unit, values, clusters(keys, unit), group.role)
            if "block" in units:
                cells += _two_way(measure, values, keys, group.role)
            cells += _new_place(measure, values, keys, group.role)
    return table(
        "inference",
        f"{pool.contrast} under several assumptions about which runs are independent",
        ("metric", "clusters of", "clusters", "interval"),
        cells,
        note=f"{_about(units)} The wild bootstrap flips the signs of clusters: in every pattern "
        f"up to {ENUMERATED} clusters, in random ones beyond. It is unbounded with five clusters "
        "or fewer. "
        "Detectable: a true change that would be found with 80% probability. New place: where the "
        "mean change of one new held-out domain of the same kind is expected, "
        "mean ± t·s·√(1 + 1/G).",
        signed=True,
    )


def _units(keys: Sequence[RunKey]) -> list[str]:
    """The units that say something: shared seeds only where two runs share them."""
    return [
        unit for unit in UNITS if unit not in SEED_UNITS or clusters(keys, unit).count < len(keys)
    ]


def _about(units: Sequence[str]) -> str:
    shared = any(unit in SEED_UNITS for unit in units)
    begin = "Runs share hyperparameter draws and splits." if shared else "No two runs share seeds."
    named = [f"{unit}: {UNITS[unit]}." for unit in units]
    if "block" in units:
        named.append(f"{BOTH_WAYS}: both at once, with the degrees of freedom of the fewer.")
    return " ".join([begin, *named])


def _intervals(
    measure: str, unit: str, values: FloatArray, groups: Clusters, role: str
) -> list[Cell]:
    means, n, factor = cluster_means(values, groups), len(values), scale(measure)
    intervals: list[tuple[str, Ends, int | None, int]] = [
        ("t", means.interval(), None, 0),
        ("wild", wild_interval(values, groups), *signs_drawn(groups.count)),
    ]
    if unit == "run":
        intervals.append(("percentile", bootstrap_interval(values), SEED, RESAMPLES))
        intervals.append(("bca", bootstrap_interval(values, method="bca"), SEED, RESAMPLES))
    cells = []
    for method, (low, high), seed, resamples in intervals:
        row = (measure, unit, str(groups.count), method)
        mean, ends = float(means.mean[0]), (float(low[0]), float(high[0]))
        over = f"clusters of {unit}"
        cells.append(
            Cell(
                *(row, "change", mean, n, role, factor, *ends, seed),
                resamples=resamples,
                over=over,
            )
        )
        if method == "t":
            cells += _tested(row, means, role, factor)
    return cells


def signs_drawn(groups: int) -> tuple[int | None, int]:
    """The seed and number of the sign patterns that were drawn; None and 0 where all were tried."""
    return (SEED, len(sign_patterns(groups))) if groups > ENUMERATED else (None, 0)


def _tested(row: tuple[str, ...], means: ClusterMeans, role: str, factor: int) -> list[Cell]:
    least, p = minimum_detectable_effect(means), means.p_value()
    return [
        Cell(row, "detectable", float(least[0]), means.n, role, factor),
        Cell(row, "p", float(p[0]), means.n, role),
    ]


def _two_way(measure: str, values: FloatArray, keys: Sequence[RunKey], role: str) -> list[Cell]:
    """The t interval that allows for shared seeds and shared held-out domains at once."""
    block, domain = clusters(keys, "block"), clusters(keys, "domain")
    means, factor = two_way_means(values, block, domain), scale(measure)
    row = (measure, BOTH_WAYS, f"{block.count} × {domain.count}", "t")
    (low,), (high,) = means.interval()
    ends = (float(low), float(high))
    over = f"clusters of {BOTH_WAYS}"
    change = Cell(row, "change", float(means.mean[0]), means.n, role, factor, *ends, over=over)
    return [change, *_tested(row, means, role, factor)]


def _new_place(measure: str, values: FloatArray, keys: Sequence[RunKey], role: str) -> list[Cell]:
    """Where one new held-out domain is expected."""
    found, factor = place_interval(values[:, 0], keys), scale(measure)
    if not found.decides:
        return []
    row, ends = (measure, "domain", str(found.places), "new place"), (found.new_low, found.new_high)
    return [Cell(row, "change", found.mean, len(values), role, factor, *ends, over="a new place")]


def equivalences(pool: Pool, margins: Mapping[str, float]) -> Table:
    """Is the change smaller than the margin you name? One row per metric with a margin."""
    cells = []
    for group in pool.by_role():
        for measure, margin in margins.items():
            changes = pool.differences(pool.rule, pool.reference, [measure], group.keep)
            keys, values = finite(changes, measure)
            found = leading_means(values, keys)
            better = higher_is_better(measure)
            tested = equivalence_of(found.means, margin, higher_is_better=better)
            row, n, over = (measure, f"{margin:g}", str(found.unit)), len(values), str(found.unit)
            ends = (tested.low, tested.high)
            cells.append(
                Cell(
                    *(row, "change_90", tested.mean, n, group.role, scale(measure), *ends),
                    level=0.9,
                    over=over,
                )
            )
            for name, value in (
                ("p_equivalent", tested.p_equivalent),
                ("p_noninferior", tested.p_noninferior),
            ):
                cells.append(Cell(row, name, value, n, group.role))
    return table(
        "equivalence",
        f"Is {pool.contrast} smaller than a margin? Two one-sided t tests",
        ("metric", "margin", "clusters"),
        cells,
        note=f"The interval is the 90% t interval over clusters. {CLUSTERS}",
        signed=True,
    )


def finite(changes: Differences, measure: str) -> tuple[tuple[RunKey, ...], FloatArray]:
    """The runs with a finite difference, and their differences as a column."""
    column = changes.values[:, changes.metrics.index(measure)]
    keep = np.isfinite(column)
    return marked(changes.keys, keep), column[keep][:, None]


# Leaving a run out moves a mean of well-behaved values by far less than its standard error.
NOTABLE = 0.5


@dataclass(frozen=True)
class Influence:
    """One run left out.

    Args:
        run: which.
        value: its own difference.
        mean: over all runs.
        without: the mean of the others.
        moved: ``without`` − ``mean``, in standard errors of the mean over all runs.
        sign_changes: whether the others' mean has the opposite sign.
    """

    run: RunKey
    value: float
    mean: float
    without: float
    moved: float
    sign_changes: bool

    @property
    def notable(self) -> bool:
        """Whether the conclusion leans on this run."""
        return self.sign_changes or abs(self.moved) >= NOTABLE


def influence(keys: Sequence[RunKey], values: FloatArray) -> list[Influence]:
    """Leave out every run in turn; the most influential first.

    Example:
        >>> keys = [RunKey("PACS", "ERM", ("art",), 0, t) for t in range(4)]
        >>> first = influence(keys, np.array([0.1, -8.0, 0.1, 0.1]))[0]
        >>> str(first.run), round(first.mean, 3), round(first.without, 3), first.sign_changes
        ('PACS-ERM-art-h0-t1', -1.925, 0.1, True)
    """
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 2:
        return []
    mean = float(x.mean())
    without = (x.sum() - x) / (n - 1)
    error = float(x.std(ddof=1)) / np.sqrt(n)
    moved = without - mean
    order = np.argsort(-np.abs(moved), kind="stable")
    return [
        Influence(
            run=keys[i],
            value=float(x[i]),
            mean=mean,
            without=float(without[i]),
            moved=float(moved[i] / error) if error > 0 else 0.0,
            sign_changes=bool(without[i] * mean < 0),
        )
        for i in order.tolist()
    ]


RULES = ("ac-nc", "ac-ne", "ac-nec", "ac-nll", "ac-cwece", "ac-ece", "ac-early", "pure-nll")
# Whole clusters whose signs max-t flips: two lines at once have no clusters of their own.
NAMED = 3  # runs per metric in the influence table, besides the notable ones


def multiplicity(pool: Pool) -> Table:
    """Many rules against the reference, with p-values corrected for their number."""
    cells = []
    for group in pool.by_role():
        for measure in MAIN:
            tables = [pool.differences(r, "source-acc", [measure], group.keep) for r in RULES]
            values = np.concatenate([changes.values for changes in tables], axis=1)
            finite_rows = np.isfinite(values).all(axis=1)
            keys = marked(tables[0].keys, finite_rows)
            cells += _corrected(measure, values[finite_rows], keys, group.role)
    return table(
        "multiplicity",
        f"{len(RULES)} rules − source-acc: p-values corrected for comparing that many",
        ("metric", "rule", "clusters"),
        cells,
        note=f"p and Holm: t tests over clusters. {CLUSTERS} max-t: the largest |t| of any rule "
        "when the signs of whole clusters are flipped; that is another test, and its p can be "
        "smaller than the t test's. Of blocks × domains it is the larger p of the two; five "
        "domains or fewer have so few patterns of signs that it is never below 0.06.",
        signed=True,
    )


def _corrected(measure: str, values: FloatArray, keys: Sequence[RunKey], role: str) -> list[Cell]:
    found = leading_means(values, keys)
    means, n, p = found.means, len(values), found.means.p_value()
    corrected = {
        "p": p,
        "p_holm": holm(p),
        "p_max_t": np.max([max_t(*line) for line in found.lines], axis=0),
    }
    most = max(groups.count for _, groups in found.lines)
    cells = []
    for k, rule in enumerate(RULES):
        row = (measure, rule, str(found.unit))
        cells.append(Cell(row, "change", float(means.mean[k]), n, role, scale(measure)))
        for name, column in corrected.items():
            drawn = signs_drawn(most if name == "p_max_t" else 0)
            value = float(column[k])
            cells.append(Cell(row, name, value, n, role, seed=drawn[0], resamples=drawn[1]))
    return cells


def influences(pool: Pool) -> Table:
    """The runs whose absence moves a mean change most."""
    cells, measures = [], pool.measured(MAIN)
    for group in pool.by_role():
        changes = pool.differences(pool.rule, pool.reference, measures, group.keep)
        for measure in measures:
            keys, values = finite(changes, measure)
            ranked = influence(keys, values[:, 0])
            shown = [*ranked[:NAMED], *(run for run in ranked[NAMED:] if run.notable)]
            for run in shown:
                row, n, factor = (measure, str(run.run)), len(values), scale(measure)
                for name, value, by in (
                    ("own_change", run.value, factor),
                    ("change", run.mean, factor),
                    ("change_without", run.without, factor),
                    ("moved_errors", run.moved, 1),
                    ("sign_changes", float(run.sign_changes), 1),
                ):
                    cells.append(Cell(row, name, value, n, group.role, by))
    return table(
        "influence",
        f"{pool.contrast} with one run left out: the runs that move the mean most",
        ("metric", "run"),
        cells,
        note="Moved: the mean without the run − the mean of all, in standard errors of the latter. "
        "Runs are notable that move the mean by half a standard error either way or change its "
        "sign.",
        signed=True,
    )
