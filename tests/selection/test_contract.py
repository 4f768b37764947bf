"""Every registered rule keeps the contract, and the contract catches rules that do not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import Columns
from checkwise.selection.rulebook import unregister
from checkwise.testing import check_rule
from tests.refusals import refused

PARAMS: dict[str, dict[str, Any]] = {
    "ac": {"objectives": ("brier", "worst_class_accuracy")},
    "wald": {"threshold_pp": 50},
}


@pytest.mark.parametrize("name", list(cw.rules()))
def test_every_rule_keeps_the_contract(name: str) -> None:
    check_rule(name, **PARAMS.get(name, {}))


@pytest.fixture
def name() -> Iterator[str]:
    yield "under-test"
    unregister("under-test")


def test_a_rule_that_changes_its_mind_is_caught(name: str) -> None:
    calls = count()

    @cw.rule(name)
    def fickle(table: Columns) -> int:
        steps = table["step"][~table["diverged"]]
        return int(steps[next(calls) % len(steps)])

    with pytest.raises(AssertionError, match=r"chose .* then"):
        check_rule(fickle)


def test_a_rule_that_is_not_prunable_is_caught(name: str) -> None:
    @cw.rule(name, needs=("nll",), prunable=True)
    def lowest(table: Columns) -> int:
        errors = np.where(table["diverged"], np.inf, table["nll"])
        return int(table["step"][errors.argmin()])

    with pytest.raises(AssertionError, match="says it is prunable"):
        check_rule(lowest)


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda table: 17, "value: 17"),
        (lambda table: table["step"][table["diverged"]][0], "value"),
    ],
)
def test_choices_that_cannot_be_are_refused(name: str, choose: Any, message: str) -> None:
    cw.rule(name)(choose)
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["a"],
        values={"accuracy": [[0.5], [0.6]]},
        diverged=np.array([False, True]),
    )
    with refused(message):
        cw.select(run, name)


def test_a_constrained_rule_is_held_to_its_word(name: str) -> None:
    @cw.rule(name, constrained=True)
    def first(table: Columns, *, delta_pp: float = 0.5) -> int:
        return int(table["step"][0])

    run = cw.Trajectory(steps=[1, 2], domains=["a"], values={"accuracy": [[0.5], [0.6]]})
    with refused("value: 0.5 points"):
        cw.select(run, name)
    assert cw.select(run, name, delta_pp=20).step == 1
    with refused("value: `delta_pp`"):
        cw.rule("other", constrained=True)(lambda table: 1)


def test_a_name_is_taken_once(name: str) -> None:
    cw.rule(name)(lambda table: table["step"][0])
    with refused("exists"):
        cw.rule(name)(lambda table: table["step"][0])


def test_a_users_rule_works_on_many_runs(name: str) -> None:
    cw.rule(name)(lambda table: table["step"][-1])
    run = cw.Trajectory(steps=[1, 2], domains=["a"], values={"accuracy": [[0.5], [0.6]]})
    assert {k: s.step for k, s in cw.select_many({"x": run, "y": run}, name).items()} == {
        "x": 2,
        "y": 2,
    }


def test_a_rule_that_fails_is_named(name: str) -> None:
    @cw.rule(name)
    def broken(table: Columns, *, last: int = 2) -> int:
        return int(table["step"][-last:][0])

    run = cw.Trajectory(steps=[1, 2], domains=["a"], values={"accuracy": [[0.5], [0.6]]})
    with pytest.raises(cw.InputError, match=f"rule '{name}', but it failed with TypeError"):
        cw.select(run, name, last="x")
