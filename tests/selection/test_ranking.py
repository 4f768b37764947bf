"""The ranks of a selection follow the order in which its rule chooses."""

from __future__ import annotations

import numpy as np
import pytest

import checkwise as cw


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("ac-nll", [300, 200, 100, 400]),  # equal scores: the higher accuracy, then the earlier
        ("pure-nll", [200, 300, 400, 100]),  # equal scores: the earlier step, whatever the accuracy
        ("source-acc", [300, 100, 200, 400]),
    ],
)
def test_ties_are_ranked_as_they_are_broken(rule: str, steps: list[int]) -> None:
    run = cw.Trajectory(
        steps=[100, 200, 300, 400],
        domains=["val"],
        values={
            "accuracy": np.c_[[0.9025, 0.901, 0.904, 0.80]],
            "nll": np.c_[[0.5, 0.4, 0.4, 0.4]],
        },
    )
    chosen = cw.select(run, rule)
    assert chosen.table["step"].tolist() == steps
    assert chosen.step == steps[0]
    assert chosen.table["rank"].tolist() == [1, 2, 3, 4]


def test_what_is_not_eligible_follows_by_accuracy_whatever_its_score() -> None:
    run = cw.Trajectory(
        steps=[1, 2, 3, 4],
        domains=["val"],
        values={"accuracy": np.c_[[0.5, 0.9, 0.7, 0.899]], "nll": np.c_[[0.1, 0.9, 0.2, 0.8]]},
    )
    assert cw.select(run, "ac-nll").table["step"].tolist() == [4, 2, 3, 1]


def test_an_exact_tie_is_no_near_tie() -> None:
    run = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["val"],
        values={"accuracy": np.c_[[0.9, 0.9, 0.9]], "nll": np.c_[[0.4, 0.4, 0.5]]},
    )
    chosen = cw.select(run, "ac-nll")
    assert (chosen.step, chosen.ties, chosen.near_ties) == (1, (2,), ())
    assert "cannot be told" not in chosen.explain()


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("q", [1, 2, float("inf")])
def test_a_choice_that_only_the_offset_decides_is_named(scale: float, q: float) -> None:
    # Two checkpoints of opposed order: each is best in one objective and worst in the other.
    run = cw.Trajectory(
        steps=[100, 200],
        domains=["val"],
        values={
            "accuracy": np.c_[[0.9, 0.9]],
            "nll": np.c_[[0.3296, 0.3363]],
            "cwece": np.c_[[0.005 + 0.1 * scale, 0.005]],
        },
    )
    chosen = cw.select(run, "ac-nc", q=q)
    assert {*chosen.ties, *chosen.near_ties, chosen.step} == {100, 200}
    assert "cannot be told from" in chosen.explain() or "Exactly tied" in chosen.explain()
    assert cw.select(run, "ac-nll").near_ties == ()
