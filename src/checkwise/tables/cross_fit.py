"""Cross-fitted selection: one half of the validation examples forms Θ, the other half ranks it.

Choosing Θ and ranking inside it on the same examples could favour checkpoints that fit those
examples by chance. Halves swap roles, and results are averaged over the two choices.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkwise.data.seeds import seed_hash
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select
from checkwise.store.logits import saved_at, source_logits
from checkwise.study.compare import pair
from checkwise.study.outcome import columns_over
from checkwise.study.pool import Pool
from checkwise.tables.means_and_changes import MAIN, paired_cells
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
    halves = []
    for side in (True, False):
        part = {
            step: {d: _rows(pair, first[d] == side) for d, pair in domains.items()}
            for step, domains in saved.items()
        }
        halves.append(Trajectory.from_predictions(part, **run.metric_settings))
    chosen = [
        select(_joined(filters, ranks, run.key), rule, guard=False).step
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


def cross_fit(pool: Pool) -> Table:
    """ac-nc with Θ and ranking from different halves of the validation examples."""
    usual = pool.outcomes("ac-nc")
    fitted = {}
    for key in pool.keys:
        run, folder = pool.trajectory(key), pool.folder(key)
        if available(folder, run):
            steps = crossfitted_steps(folder, run)
            fitted[key] = pool.at_steps(replace(usual[key], steps=steps))
    keep = np.array([key in fitted for key in pool.keys])
    columns = columns_over(fitted, pool.keys)
    cells: list[Cell] = []
    for group in pool.by_role() if fitted else ():
        for reference in ("source-acc", "ac-nc"):
            row = f"cross-fitted ac-nc − {reference}"
            of_reference = pool.columns(reference)
            changes = pair(row, reference, pool.keys, MAIN, columns, of_reference)
            cells += paired_cells(changes.among(group.keep & keep), (row,), group.role)
    return table(
        "cross-fit",
        "Θ from one half of the validation examples, ranking from the other, both ways",
        ("contrast",),
        cells,
        note="Only runs with saved source logits. Θ from half the examples is noisier.",
        signed=True,
    )
