"""Random runs, pruned while they grow: does the choice stay what it is without pruning?

Whole stacks of runs go through the rules at once, as ``select_many`` sends them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.selection import Choice, Columns, Ranking, choose, get_rule
from checkwise.selection.columns import Weighted
from checkwise.selection.standing import Standing

LENGTH = 10
EXAMPLES = 400
RULES: list[tuple[str, dict[str, Any]]] = [
    ("source-acc", {}),
    ("ac-nc", {"delta_pp": 0.5}),
    ("ac-nec", {"delta_pp": "1", "q": 2}),
    ("ac-nll", {"delta_pp": 0, "ties": "latest"}),
    ("ac-cwece", {"delta": "2%", "ties": "earliest"}),
    ("ac-early", {"delta_pp": 2}),
]


def disagreements(runs: int, seed: int) -> int:
    """In how many of random runs pruning changes the choice; it should be none.

    Each run is pruned twice while it grows: after a random number of its checkpoints, and after a
    later one. The choice among what is left, together with everything that came after, is compared
    with the choice among all checkpoints.
    """
    rng = np.random.default_rng(seed)
    wrong = 0
    for name, params in RULES:
        rule = get_rule(name)
        complete = rule.complete(params)
        shape = (-(-runs // len(RULES)), LENGTH)
        # Few values, so that ties and checkpoints on the edge of the tolerance are common.
        correct = 300 + rng.integers(0, 12, shape) + rng.integers(0, 3, shape) * np.arange(LENGTH)
        metrics = {m: rng.integers(1, 6, shape) / 8 for m in ("nll", "ece", "cwece")}
        instants = np.sort(rng.integers(1, LENGTH + 1, (2, shape[0])), axis=0)

        def chosen(
            there: NDArray[np.bool_],
            rule: Any = rule,
            params: Any = complete,
            facts: Any = (correct, metrics),
        ) -> tuple[Ranking, NDArray[Any]]:
            table = columns(facts[0], facts[1], there)
            ranking = rule.ranking(table, params)
            return ranking, choose(ranking, table["order"], ties=rule.ties(params))

        everything = np.ones(shape, dtype=bool)
        left = everything.copy()
        for instant in instants:
            so_far = np.arange(LENGTH) < instant[:, None]
            ranking, _ = chosen(left & so_far)
            left &= ranking.eligible | ~so_far
        wrong += int((chosen(left)[1] != chosen(everything)[1]).sum())
    return wrong


def columns(
    correct: NDArray[np.int64], metrics: dict[str, NDArray[Any]], there: NDArray[np.bool_]
) -> Columns:
    """The columns of runs of which only some checkpoints are there."""
    steps = np.arange(correct.shape[1])
    return Columns(
        [
            Weighted(
                {"step": steps, "diverged": ~present, **{m: v[r] for m, v in metrics.items()}},
                Standing(right, ~present, EXAMPLES),
                EXAMPLES - right,
            )
            for r, (right, present) in enumerate(zip(correct, there, strict=True))
        ],
        Choice(),
    )
