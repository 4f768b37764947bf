"""Rules that look at accuracy alone, inside the feasible set: the baselines of AC."""

from __future__ import annotations

import hashlib

import numpy as np

from checkwise.metrics.settings import whole
from checkwise.selection.ranking import Ranking
from checkwise.selection.table import Table

LARGEST_SEED = 2**63 - 1
RANDOM_SEED = 20260926


def source_accuracy(table: Table) -> Ranking:
    """The highest mean source accuracy; the earliest where several share it."""
    best = table.within(0)
    return Ranking(np.where(best, 0.0, table["gap_pp"]), best)


def early(table: Table, *, delta_pp: object = 0.5) -> Ranking:
    """The earliest feasible checkpoint."""
    return Ranking(table["step"].astype(np.float64), table.within(delta_pp))


def random(table: Table, *, delta_pp: object = 0.5, seed: int = RANDOM_SEED) -> Ranking:
    """One uniform draw from the feasible set, the same for a run every time.

    The k-th feasible checkpoint is drawn with k = hash(seed, run) mod |Θ|.
    """
    whole(seed, "seed", most=LARGEST_SEED)
    feasible = np.atleast_2d(table.within(delta_pp))
    score = np.ones(feasible.shape)
    for row, identity in enumerate(table.identities):
        among = np.flatnonzero(feasible[row])
        score[row, among[draw(seed, identity) % len(among)]] = 0.0
    return Ranking(score.reshape(table["step"].shape), feasible.reshape(table["step"].shape))


def draw(seed: int, identity: str) -> int:
    """A large number that looks random, the same for a run every time."""
    return int.from_bytes(hashlib.sha256(f"{int(seed)}|{identity}".encode()).digest())
