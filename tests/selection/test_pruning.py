"""What ``droppable`` names can be deleted while training runs, without changing the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.selection import sequences

ROWS = 8


def test_pruning_never_changes_the_choice_of_thousands_of_runs() -> None:
    assert sequences.disagreements(6_000, seed=0) == 0


def test_these_runs_tell_a_wrong_pruning_from_a_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tolerance that is forgotten drops checkpoints that are chosen later."""
    whole = sequences.columns
    calls = iter(range(10**6))

    def careless(correct: Any, metrics: Any, there: Any) -> Any:
        table = whole(correct, metrics, there)
        first = next(calls) % 4 < 2  # the two prunings, not the two choices
        return whole(correct, metrics, there & (table["order"] == 0)) if first else table

    monkeypatch.setattr(sequences, "columns", careless)
    assert sequences.disagreements(2_000, seed=0) > 100


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        *sequences.RULES,
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
    for _ in range(4):
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
