"""Many rules at once, and single runs: how far the conclusions lean on either."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkwise.study.bootstrap import SEED
from checkwise.study.cluster_t import cluster_means
from checkwise.study.clusters import By, Clusters, clusters
from checkwise.study.influence import influence
from checkwise.study.multiplicity import holm, max_t
from checkwise.study.paired import scale
from checkwise.study.pool import Pool
from checkwise.study.tables.cells import MAIN
from checkwise.study.tables.inference import finite
from checkwise.study.tables.table import Cell, Table, table
from checkwise.study.wild import sign_patterns

FloatArray = NDArray[np.float64]

RULES = ("ac-nc", "ac-ne", "ac-nec", "ac-nll", "ac-cwece", "ac-ece", "ac-early", "pure-nll")
NAMED = 3  # runs per metric in the influence table, besides the notable ones


def multiplicity(pool: Pool, by: By = "block") -> Table:
    """Many rules against the reference, with p-values corrected for their number."""
    cells = []
    for scope in pool.scopes():
        for measure in MAIN:
            every = [pool.differences(r, "source-acc", [measure], scope.keep) for r in RULES]
            values = np.concatenate([each.values for each in every], axis=1)
            there = np.isfinite(values).all(axis=1)
            keys = [key for key, kept in zip(every[0].keys, there.tolist(), strict=True) if kept]
            cells += _corrected(measure, values[there], clusters(keys, by), scope.role)
    return table(
        "multiplicity",
        f"{len(RULES)} rules − source-acc: p-values corrected for comparing that many",
        ("metric", "rule", "clusters"),
        cells,
        note="p and Holm: t tests over clusters, which are runs with the same seeds unless said "
        "otherwise. max-t: the largest |t| of any rule when the signs of whole clusters are "
        "flipped; that is another test, and its p can be smaller than the t test's.",
        signed=True,
    )


def _corrected(measure: str, values: FloatArray, groups: Clusters, role: str) -> list[Cell]:
    means, n = cluster_means(values, groups), len(values)
    p = means.p_value()
    corrected = {"p": p, "p_holm": holm(p), "p_max_t": max_t(values, groups)}
    patterns = len(sign_patterns(groups.count)) if groups.count > 1 else 0
    cells = []
    for k, rule in enumerate(RULES):
        row = (measure, rule, str(groups.count))
        cells.append(Cell(row, "change", float(means.mean[k]), n, role, scale(measure)))
        for name, column in corrected.items():
            seed = SEED if name == "p_max_t" else None
            value = float(column[k])
            cells.append(Cell(row, name, value, n, role, seed=seed, resamples=patterns))
    return cells


def influences(pool: Pool) -> Table:
    """The runs whose absence moves a mean change most."""
    cells = []
    for scope in pool.scopes():
        found = pool.differences("ac-nc", "source-acc", MAIN, scope.keep)
        for measure in MAIN:
            keys, values = finite(found, measure)
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
                    cells.append(Cell(row, name, value, n, scope.role, by))
    return table(
        "influence",
        "ac-nc − source-acc with one run left out: the runs that move the mean most",
        ("metric", "run"),
        cells,
        note="Moved: the mean without the run − the mean of all, in standard errors of the latter. "
        "Runs are notable that move the mean by half a standard error either way or change its "
        "sign.",
        signed=True,
    )
