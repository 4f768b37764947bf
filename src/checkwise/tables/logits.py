"""Cross-fitted selection: one half of the validation examples forms Θ, the other half ranks it.

Choosing Θ and ranking inside it on the same examples could favour checkpoints that fit those
examples by chance. Halves swap roles, and results are averaged over the two choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkwise.data.seeds import seed_hash
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select
from checkwise.statistics.bootstrap import SEED, percentile_interval
from checkwise.statistics.risk_coverage import risk_coverage
from checkwise.store.logits import saved_at, source_logits
from checkwise.study.heldout import has_heldout, read_heldout
from checkwise.study.paired import Differences
from checkwise.study.pool import Group, Pool
from checkwise.tables import logits
from checkwise.tables.cells import MAIN, paired_cells
from checkwise.tables.table import Cell, Table, table

SPLIT_SEED = 20260926

BoolArray = NDArray[np.bool_]
Pair = tuple[NDArray[np.float32], NDArray[np.int64]]


def crossfitted_steps(folder: Path, run: Trajectory, rule: str = "ac-nc") -> tuple[int, int]:
    """The choices of a rule with either half forming the feasible set.

    Needs source logits of every checkpoint that did not diverge.
    """
    steps = run.steps[~run.diverged].tolist()
    saved = {int(step): source_logits(folder, int(step)) for step in steps}
    first = {domain: _half(run.key, domain, len(y)) for domain, (_, y) in saved[steps[0]].items()}
    bins, bandwidth = run.bins or 15, run.bandwidth or 0.1
    halves = []
    for side in (True, False):
        part = {
            step: {d: _rows(pair, first[d] == side) for d, pair in domains.items()}
            for step, domains in saved.items()
        }
        halves.append(Trajectory.from_predictions(part, bins=bins, bandwidth=bandwidth))
    chosen = [
        select(_joined(filters, ranks, run.key), rule).step
        for filters, ranks in (halves, halves[::-1])
    ]
    return chosen[0], chosen[1]


def available(folder: Path, run: Trajectory) -> bool:
    """Whether the source logits of every checkpoint were saved."""
    return saved_at(folder, run.steps[~run.diverged].tolist())


def _joined(filters: Trajectory, ranks: Trajectory, key: RunKey | None) -> Trajectory:
    """Accuracy of one half beside the reliability of the other."""
    return Trajectory(
        steps=filters.steps,
        domains=filters.domains,
        values={**ranks.values, "accuracy": filters.values["accuracy"]},
        counts=filters.counts,
        correct=filters.correct,
        key=key,
    )


def _half(key: RunKey | None, domain: str, n: int) -> BoolArray:
    """A random half of n examples, the same at every step of a run."""
    order = np.random.default_rng(seed_hash(SPLIT_SEED, str(key), domain)).permutation(n)
    return np.asarray(order < n // 2)


def _rows(pair: Pair, keep: BoolArray) -> Pair:
    logits, labels = pair
    return logits[keep], labels[keep]


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
        if logits.available(folder, run):
            steps = logits.crossfitted_steps(folder, run)
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
