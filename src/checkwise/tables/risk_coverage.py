"""Error rate among the most confident predictions on held-out domains, from saved logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics.risk_coverage import risk_coverage
from checkwise.study.compared_method import Method
from checkwise.study.heldout import has_heldout, read_heldout
from checkwise.study.pool import Group, Pool
from checkwise.tables.means_and_changes import mean_cell
from checkwise.tables.table import Cell, Table, table

COVERAGES = (1.0, 0.8, 0.5)


def risk_coverages(pool: Pool) -> Table:
    """Error rate at equal coverage and the area under the curve, means over runs."""
    both = (pool.reference, pool.rule)
    curves = {row.label: [_curve(pool, row, i) for i in range(len(pool))] for row in both}
    cells = []
    for group in pool.groups(["dataset"]):
        at = [
            i
            for i in np.flatnonzero(group.keep).tolist()
            if all(curve[i] is not None for curve in curves.values())
        ]
        for rule, curve in curves.items():
            rows = [curve[i] or {} for i in at]
            for measure in rows[0] if rows else ():
                mean = 100 * float(np.mean([row[measure] for row in rows]))
                row = (*group.labels, rule)
                cells.append(Cell(row, measure, mean, len(rows), group.role, 100))
        if at:
            keys = [pool.keys[i] for i in at]
            cells += _changes(curves, at, keys, group, pool.contrast)
    return table(
        "risk-coverage",
        "Target error rate among the most confident predictions, means over runs",
        ("dataset", "rule"),
        cells,
        note="Only runs with saved held-out logits at both choices.",
    )


def _curve(pool: Pool, rule: Method, i: int) -> dict[str, float] | None:
    key = pool.keys[i]
    step, folder = pool.columns(rule)["step"][i], pool.folder(key)
    if not all(has_heldout(folder, domain, int(step)) for domain in key.held_out):
        return None
    curves = []
    for domain in key.held_out:
        examples = read_heldout(folder, domain, int(step)).examples
        curves.append(risk_coverage(examples.confidence, examples.correct))
    return {
        "risk_area": float(np.mean([curve.area for curve in curves])),
        **{
            f"risk_{100 * c:.0f}": float(np.mean([curve.at(c) for curve in curves]))
            for c in COVERAGES
        },
    }


def _changes(
    curves: Mapping[str, list[dict[str, float] | None]],
    at: list[int],
    keys: Sequence[RunKey],
    group: Group,
    contrast: str,
) -> list[Cell]:
    reference, rule = ([curve[i] or {} for i in at] for curve in curves.values())
    names = list(rule[0])
    values = np.array(
        [
            [100 * (after[name] - before[name]) for name in names]
            for before, after in zip(reference, rule, strict=True)
        ]
    )
    row = (*group.labels, contrast)
    return [
        mean_cell(row, name, values[:, k], keys, group.role, 100) for k, name in enumerate(names)
    ]
