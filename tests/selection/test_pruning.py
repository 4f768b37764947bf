"""What ``droppable`` names can be deleted while training runs, without changing the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import checkwise as cw

ROWS = 8


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("source-acc", {}),
        ("ac-nc", {"delta_pp": 0.5}),
        ("ac-nec", {"delta_pp": "1", "q": 2}),
        ("ac-nll", {"delta_pp": 0, "ties": "latest"}),
        ("ac-cwece", {"delta": "2%", "ties": "earliest"}),
        ("ac-early", {"delta_pp": 2}),
        ("ac-nec", {"delta_pp": 1, "pareto": True}),
        ("ac-random", {"delta_pp": 1}),
        ("ac", {"objectives": ["ece"], "constraint": "nll", "delta": "40%"}),
        ("pure-nll", {}),
    ],
)
def test_a_live_selection_that_is_pruned_chooses_as_one_that_is_not(
    rule: str, params: dict[str, Any]
) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        whole, pruned = cw.LiveSelector(rule, **params), cw.LiveSelector(rule, **params)
        entries: dict[int, dict[str, Any]] = {}
        dropped: set[int] = set()
        for step in range(ROWS):
            entries[step] = {m: float(rng.integers(1, 6) / 8) for m in ("nll", "ece", "cwece")}
            entries[step] |= {"accuracy": (300 + int(rng.integers(0, 12))) / 400, "n": 400}
            whole.add(step, {"val": entries[step]})
            dropped |= set(whole.droppable)
            assert set(whole.keep) == set(range(step + 1)) - dropped
            assert whole.choice not in dropped
            if rule != "ac-random":  # which draws by what it sees
                assert whole.choice == cw.select(whole.trajectory, rule, **params).step
        for step in whole.keep:
            pruned.add(step, {"val": entries[step]})
        if rule != "ac-random":
            assert pruned.choice == whole.choice
