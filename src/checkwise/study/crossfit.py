"""Cross-fitted selection: one half of the validation examples forms Θ, the other half ranks it.

Choosing Θ and ranking inside it on the same examples could favour checkpoints that fit those
examples by chance. Halves swap roles, and results are averaged over the two choices.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkwise.data.seeds import seed_hash
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select
from checkwise.weights.logits import saved_at, source_logits

SEED = 20260926

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
    order = np.random.default_rng(seed_hash(SEED, str(key), domain)).permutation(n)
    return np.asarray(order < n // 2)


def _rows(pair: Pair, keep: BoolArray) -> Pair:
    logits, labels = pair
    return logits[keep], labels[keep]
