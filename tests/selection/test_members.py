"""The members of an average: who is near the best, how few are spread, and what stays on disk."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import KeepMembers, members
from checkwise.selection.averages import spread
from tests.refusals import refused


def run(correct: list[int], n: int = 1000) -> cw.Trajectory:
    return cw.Trajectory(
        steps=range(len(correct)),
        domains=["val"],
        values={"accuracy": [[c / n] for c in correct], "nll": [[0.5]] * len(correct)},
        counts=[n],
    )


def test_a_few_are_spread_evenly_from_the_first_to_the_last() -> None:
    for n, k in product(range(1, 40), range(1, 12)):
        chosen = spread(range(n), k)
        assert len(chosen) == min(n, k) == len(set(chosen))
        assert chosen == sorted(chosen)
        if k == 1:
            assert abs(Fraction(n - 1, 2) - chosen[0]) <= Fraction(1, 2)
        else:
            assert (chosen[0], chosen[-1]) == (0, n - 1)
            gaps = np.diff(chosen)
            assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def test_the_tolerance_is_one_point_whatever_the_rule_and_exact_at_its_edge() -> None:
    trajectory = run([800, 890, 899, 900, 889])
    for rule in ("source-acc", "ac-nll", "pure-nll"):
        assert members(cw.select(trajectory, rule)) == (1, 2, 3)
    chosen = cw.select(trajectory, "ac-nll")
    assert members(chosen, delta_pp="0.1") == (2, 3)
    assert members(chosen, 2) == (1, 3)


def test_another_constraint_has_its_own_feasible_set() -> None:
    trajectory = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["val"],
        values={"f1": [[0.80], [0.81], [0.60]], "nll": [[0.5], [0.4], [0.3]]},
    )
    chosen = cw.select(trajectory, "ac", constraint="f1", delta=0.02, objectives=["nll"])
    assert members(chosen) == (1, 2)


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_number_of_members_is_a_whole_one(k: object) -> None:
    with refused("value: `k`"):
        members(cw.select(run([1, 2]), "source-acc"), k)  # type: ignore[arg-type]


def test_live_members_are_those_of_the_records_so_far() -> None:
    live = cw.LiveSelector("ac-nll", delta_pp=0.5)
    assert live.members() == ()
    for step, accuracy in enumerate([0.80, 0.89, 0.895, 0.90]):
        live.add(step, {"val": {"accuracy": accuracy, "nll": 0.5, "n": 1000}})
    assert live.members() == (1, 2, 3)
    assert live.members(2) == (1, 3)
    assert live.members(delta_pp="0.5") == (2, 3)


@pytest.mark.parametrize("seed", range(6))
def test_keeping_what_is_near_the_best_keeps_every_member(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    pruned = cw.LiveSelector("ac-nll", journal=tmp_path / "pruned.jsonl")
    whole = cw.LiveSelector("ac-nll")
    for step in range(30):
        right = 800 + 3 * step + draw.randrange(30)
        entry = {"val": {"accuracy": right / 1000, "nll": draw.random(), "n": 1000}}
        for live in (pruned, whole):
            live.add(step, entry)
        (tmp_path / f"{step}.pt").touch()
        pruned.saved(step, tmp_path / f"{step}.pt")
        pruned.prune(KeepMembers(1))
        assert pruned.members() == whole.members()
        assert pruned.members(3) == whole.members(3)
        assert all((tmp_path / f"{member}.pt").exists() for member in pruned.members())
