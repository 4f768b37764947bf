"""Does a difference survive many comparisons, and the loss of any single run?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.statistics.multiplicity import holm, max_t
from checkwise.study.compare import marked, scale
from checkwise.study.pool import Pool
from checkwise.study.units import leading_means
from checkwise.tables.inference import CLUSTERS, finite, signs_drawn
from checkwise.tables.means_and_changes import MAIN
from checkwise.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]

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
