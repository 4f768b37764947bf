"""Ties and ranks: which of several best checkpoints is taken, and how that is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from tests.refusals import refused

TIED = cw.Trajectory(
    steps=[1, 2, 3, 4],
    domains=["val"],
    values={
        "accuracy": [[0.897], [0.900], [0.898], [0.2]],
        "nll": [[0.4], [0.4], [0.4], [0.4]],
        "cwece": [[0.1], [0.1], [0.1], [0.1]],
        "ece": [[0.1], [0.1], [0.1], [0.1]],
    },
)


@pytest.mark.parametrize(
    ("rule", "ties", "step", "broken_by"),
    [
        ("ac-nc", None, 2, "higher accuracy, then the earlier step"),
        ("ac-nc", "accuracy", 2, "higher accuracy, then the earlier step"),
        ("ac-nc", "earliest", 1, "the earlier step"),
        ("ac-nc", "latest", 3, "the later step"),
        ("pure-nll", None, 1, "the earlier step"),
        ("pure-nll", "accuracy", 2, "higher accuracy, then the earlier step"),
        ("pure-nll", "latest", 4, "the later step"),
        ("wald", "latest", 3, "the later step"),
    ],
)
def test_exact_ties_are_broken_as_asked(
    rule: str, ties: str | None, step: int, broken_by: str
) -> None:
    params: dict[str, Any] = {"threshold_pp": 80} if rule == "wald" else {}
    chosen = cw.select(TIED, rule, ties=ties, **params)
    assert chosen.step == step
    assert f"; broken by {broken_by}." in chosen.explain()
    assert chosen.as_dict()["params"].get("ties") == ties
    assert chosen.rank[chosen.index] == 1
    assert chosen.table["step"][0] == step


def test_ties_are_broken_by_the_constraint() -> None:
    run = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["val"],
        values={"loss": [[0.30], [0.29], [0.29]], "latency": [[5], [5], [5]]},
    )
    asked: dict[str, Any] = {"constraint": "loss", "delta": 0.1, "objectives": ["latency"]}
    chosen = cw.select(run, "ac", **asked)
    assert chosen.step == 2
    assert "broken by lower loss, then the earlier step." in chosen.explain()
    assert cw.select(run, "ac", ties="earliest", **asked).step == 1


@pytest.mark.parametrize("rule", ["ac-early", "ac-random"])
def test_rules_without_ties_refuse_the_option(rule: str) -> None:
    with refused(f"unknown: {rule} … 'ties'"):
        cw.select(TIED, rule, ties="latest")


def test_a_rule_that_names_a_step_refuses_ties_unless_they_are_its_own() -> None:
    from checkwise.selection import rule
    from checkwise.selection.rulebook import unregister

    try:

        @rule("first-step")
        def first_step(table: Any) -> Any:
            return table["step"][0]

        @rule("own-ties")
        def own_ties(table: Any, *, ties: int = 0) -> Any:
            return table["step"][ties]

        with refused("unknown"):
            cw.select(TIED, "first-step", ties="latest")
        assert cw.select(TIED, "own-ties", ties=1).step == 2
    finally:
        unregister("first-step")
        unregister("own-ties")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8),
    st.sampled_from(["earliest", "latest", "accuracy"]),
)
def test_the_choice_is_a_sort(rows: list[tuple[int, int]], ties: Any) -> None:
    run = cw.Trajectory(
        steps=np.arange(len(rows)),
        domains=["val"],
        values={
            "accuracy": np.c_[[a / 4 for a, _ in rows]],
            "nll": np.c_[[e / 4 for _, e in rows]],
        },
    )
    among = {
        "earliest": [0] * len(rows),
        "latest": [-t for t in range(len(rows))],
        "accuracy": [-accuracy for accuracy, _ in rows],
    }[ties]
    order = sorted(range(len(rows)), key=lambda t: (rows[t][1], among[t], t))
    chosen = cw.select(run, "pure-nll", ties=ties)
    assert np.argsort(chosen.rank).tolist() == order
    assert cw.select_many({0: run}, "pure-nll", ties=ties)[0].step == order[0]


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
