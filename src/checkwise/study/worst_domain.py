"""WHD: the worst held-out domain of every block of runs that differ in nothing but that domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.study.outcome import Outcome

FloatArray = NDArray[np.float64]
Block = tuple[str, str, int, int]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Minimum target accuracy per (data set, algorithm, hparams seed, trial seed), fractions."""

    blocks: tuple[Block, ...]
    values: FloatArray

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Data set and algorithm of every block."""
        return [(dataset, algorithm) for dataset, algorithm, _, _ in self.blocks]


def block_of(key: RunKey) -> Block:
    """Which block a run belongs to."""
    return key.dataset, key.algorithm, key.hparams_seed, key.trial_seed


def worst_domains(outcomes: Mapping[RunKey, Outcome]) -> Blocks:
    """The minimum over held-out domains in every complete block.

    A block that lacks a domain that others of its data set have (an unfinished run) is left out:
    its minimum would be over fewer domains.
    """
    found: dict[Block, dict[str, float]] = {}
    domains: dict[str, set[str]] = {}
    for key, outcome in outcomes.items():
        for domain, values in outcome.targets.items():
            found.setdefault(block_of(key), {})[domain] = values["accuracy"]
            domains.setdefault(key.dataset, set()).add(domain)
    complete = sorted(block for block in found if set(found[block]) == domains[block[0]])
    return Blocks(
        tuple(complete),
        np.array([min(found[block].values(), default=np.nan) for block in complete]),
    )


def paired(mine: Blocks, theirs: Blocks) -> Blocks:
    """Differences on the blocks that both have, finite ones only."""
    other = dict(zip(theirs.blocks, theirs.values.tolist(), strict=True))
    pairs = [
        (block, value - other[block])
        for block, value in zip(mine.blocks, mine.values.tolist(), strict=True)
        if block in other and np.isfinite(value - other[block])
    ]
    return Blocks(tuple(block for block, _ in pairs), np.array([value for _, value in pairs]))


def cell_means(blocks: Blocks) -> FloatArray:
    """The mean over blocks of every (data set, algorithm), in order."""
    cells = blocks.cells
    return np.array(
        [
            np.mean([v for v, of in zip(blocks.values.tolist(), cells, strict=True) if of == cell])
            for cell in sorted(set(cells))
        ]
    )
