"""Tables that need saved logits: risk at equal coverage, and cross-fitted selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from checkwise.study import crossfit
from checkwise.study.bootstrap import SEED, percentile_interval
from checkwise.study.paired import Differences
from checkwise.study.pool import Group, Pool
from checkwise.study.predictions import has_heldout, read_heldout
from checkwise.study.risk_coverage import risk_coverage
from checkwise.study.tables.cells import MAIN, paired_cells
from checkwise.study.tables.table import Cell, Table, table

COVERAGES = (1.0, 0.8, 0.5)
RULES = ("source-acc", "ac-nc")


def risk_coverages(pool: Pool) -> Table:
    """Error rate at equal coverage and the area under the curve, means over runs."""
    found = {rule: [_curve(pool, rule, i) for i in range(len(pool))] for rule in RULES}
    cells = []
    for group in pool.groups(["dataset"]):
        at = [
            i
            for i in np.flatnonzero(group.keep).tolist()
            if all(found[rule][i] is not None for rule in RULES)
        ]
        for rule in RULES:
            rows = [found[rule][i] or {} for i in at]
            for measure in rows[0] if rows else ():
                mean = 100 * float(np.mean([row[measure] for row in rows]))
                row = (*group.labels, rule)
                cells.append(Cell(row, measure, mean, len(rows), group.role, 100))
        if at:
            cells += _changes(found, at, group)
    return table(
        "risk-coverage",
        "Target error rate among the most confident predictions, means over runs",
        ("dataset", "rule"),
        cells,
        note="Only runs with saved held-out logits at both choices.",
    )


def _curve(pool: Pool, rule: str, i: int) -> dict[str, float] | None:
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
    found: Mapping[str, list[dict[str, float] | None]], at: list[int], group: Group
) -> list[Cell]:
    theirs, mine = ([found[rule][i] or {} for i in at] for rule in RULES)
    names = list(mine[0])
    values = np.array(
        [[100 * (a[name] - b[name]) for name in names] for a, b in zip(mine, theirs, strict=True)]
    )
    low, high = percentile_interval(values)
    row = (*group.labels, f"{RULES[1]} − {RULES[0]}")
    return [
        Cell(
            row,
            name,
            float(values[:, k].mean()),
            len(at),
            group.role,
            100,
            float(low[k]),
            float(high[k]),
            SEED,
        )
        for k, name in enumerate(names)
    ]


def cross_fit(pool: Pool) -> Table:
    """ac-nc with Θ and ranking from different halves of the validation examples."""
    usual = pool.outcomes("ac-nc")
    fitted = {}
    for key in pool.keys:
        run, folder = pool.trajectory(key), pool.folder(key)
        if crossfit.available(folder, run):
            steps = crossfit.crossfitted_steps(folder, run)
            fitted[key] = pool.at_steps(replace(usual[key], steps=steps))
    keep = np.array([key in fitted for key in pool.keys])
    cells: list[Cell] = []
    for scope in pool.scopes() if fitted else ():
        for reference in ("source-acc", "ac-nc"):
            theirs = pool.columns(reference)
            both = Differences(
                "cross-fitted ac-nc",
                reference,
                pool.keys,
                MAIN,
                np.array(
                    [
                        [fitted[key].value(m) if key in fitted else np.nan for m in MAIN]
                        for key in pool.keys
                    ]
                ),
                np.stack([theirs[m] for m in MAIN], axis=1),
            )
            row = (f"cross-fitted ac-nc − {reference}",)
            cells += paired_cells(both.among(scope.keep & keep), row, scope.role)
    return table(
        "cross-fit",
        "Θ from one half of the validation examples, ranking from the other, both ways",
        ("contrast",),
        cells,
        note="Only runs with saved source logits. Θ from half the examples is noisier.",
        signed=True,
    )
