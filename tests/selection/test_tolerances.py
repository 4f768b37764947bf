"""Tolerances: what each of them keeps, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise import statistics as paired
from checkwise.selection import TOLERANCES, members
from checkwise.selection.rulebook import unregister
from tests.refusals import refused
from tests.selection.example_runs import outputs


def run_of(seed: int, **shape: Any) -> cw.Trajectory:
    return cw.Trajectory.from_predictions(outputs(seed, **shape))


def drawn(seed: int) -> tuple[cw.Trajectory, dict[str, Any]]:
    """A run of any shape and options that fit it."""
    rng = np.random.default_rng(1000 + seed)
    sizes = tuple(int(n) for n in rng.integers(2, 60, rng.integers(1, 4)))
    made = outputs(
        seed,
        steps=int(rng.integers(1, 10)),
        sizes=sizes,
        gain=float(rng.choice([0.0, 0.3, 2.0])),
        grouped=bool(rng.random() < 0.4),
    )
    if len(made) > 2 and rng.random() < 0.4:
        made[100]["d0"][0][0, 0] = np.nan
    weights: Any = rng.choice(["equal", "sample", "own"])
    if weights == "own":
        weights = {f"d{e}": float(w) for e, w in enumerate(rng.uniform(0.1, 1, len(sizes)))}
    asked = {"weights": weights, "delta_pp": str(rng.choice(["0", "0.5", "3", "20"]))}
    return cw.Trajectory.from_predictions(made), asked


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", TOLERANCES)
def test_every_tolerance_keeps_the_choice_of_source_acc(name: str, seed: int) -> None:
    run, asked = drawn(seed)
    chosen = cw.select(run, "ac-nc", tolerance=name, **asked)
    best = cw.select(run, "source-acc", weights=asked["weights"])
    assert best.step in chosen.feasible_steps
    assert chosen.step in chosen.feasible_steps
    lost = set(run.steps[run.diverged].tolist())
    assert not lost.intersection(chosen.feasible_steps)


@pytest.mark.parametrize("seed", range(4))
def test_fixed_is_what_it_was(seed: int) -> None:
    run, asked = drawn(seed)
    named = cw.select(run, "ac-nc", tolerance="fixed", **asked)
    without = cw.select(replace(run, examples=None), "ac-nc", **asked)
    assert named.to_json() == without.to_json()
    assert "tolerance" not in json.loads(named.to_json())
    assert named.explain().startswith(without.explain())


def sample_of(run: cw.Trajectory) -> paired.Stratified:
    assert run.examples is not None
    correct = tuple(one.astype(np.float64) for one in run.examples.correct)
    return paired.Stratified(correct, np.full(len(run.domains), 1 / len(run.domains)))


@pytest.mark.parametrize("seed", range(5))
def test_the_feasible_set_is_the_mask_of_the_statistic(seed: int) -> None:
    run = run_of(seed, sizes=(60, 90))
    sample = sample_of(run)
    mask = paired.not_shown_worse(sample, delta=0.01, alpha=0.1, growing=True)
    chosen = cw.select(run, "ac-nc", tolerance="paired", alpha=0.1, delta_pp="1")
    assert chosen.feasible.tolist() == mask.tolist()
    assert chosen.feasible_steps == tuple(run.steps[mask].tolist())


def test_checkpoints_whose_answers_nobody_kept_take_their_share_of_alpha() -> None:
    run = run_of(3, sizes=(20, 30))
    gone = replace(run, logged=tuple(range(0, 100 * (len(run) + 30), 10)))
    assert gone.evaluated > len(run)
    sample = sample_of(run)
    mask = paired.not_shown_worse(sample, delta=0, alpha=0.4, evaluated=gone.evaluated)
    chosen = cw.select(gone, "ac-nc", tolerance="paired", alpha=0.4, delta_pp="0", guard=False)
    assert chosen.feasible.tolist() == mask.tolist()
    assert paired.not_shown_worse(sample, delta=0, alpha=0.4).sum() < mask.sum()


def test_paired_differs_where_examples_do() -> None:
    """The same accuracies with other errors: what is shared decides, so the sets differ."""
    run = run_of(3, sizes=(120, 120), gain=0.4)
    assert run.examples is not None
    rng = np.random.default_rng(0)
    mixed = tuple(np.stack([rng.permutation(row) for row in one]) for one in run.examples.correct)
    from checkwise.records import Examples, Outcomes

    other = replace(
        run,
        examples=Examples(domains=run.domains, steps=run.steps, outcomes=Outcomes(mixed)),
    )
    kept = [len(cw.select(r, "ac-nc", tolerance="paired").feasible_steps) for r in (run, other)]
    assert kept[0] < kept[1]  # independent errors make differences noisier
    one, two = (cw.select(r, "ac-nc", tolerance="paired") for r in (run, other))
    assert one.digest != two.digest
    assert cw.select(run, "ac-nc").digest == cw.select(other, "ac-nc").digest


def test_every_rule_with_a_tolerance_follows_it() -> None:
    run = run_of(5, sizes=(60, 60))
    expected = cw.select(run, "ac-nc", tolerance="paired").feasible_steps
    for rule in ("ac-ne", "ac-early", "ac-random", "ac-nll"):
        assert cw.select(run, rule, tolerance="paired").feasible_steps == expected
    assert cw.select(run, "ac-early", tolerance="paired").step == expected[0]

    @cw.rule("latest-near", constrained=True)
    def latest(table: Any, *, delta_pp: float = 0.5) -> int:
        return int(table["step"][table.within(delta_pp)][-1])

    try:
        assert cw.select(run, "latest-near", tolerance="paired").step == expected[-1]
    finally:
        unregister("latest-near")


def test_many_runs_together_are_the_same_as_one_by_one() -> None:
    runs = {seed: run_of(seed, sizes=(30, 40)) for seed in range(4)}
    together = cw.select_many(runs, "ac-nc", tolerance="paired")
    for key, run in runs.items():
        alone = cw.select(run, "ac-nc", tolerance="paired")
        assert together[key].to_json() == alone.to_json()


def test_json_says_which_tolerance() -> None:
    said = cw.select(run_of(0), tolerance="paired").as_dict()
    assert (said["tolerance"], said["alpha"]) == ("paired", 0.05)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tolerance": "loose"}, "unknown: fixed, paired … 'loose'"),
        ({"tolerance": "paired", "alpha": 1.5}, "value: alpha"),
        ({"alpha": 0.1}, "unsupported: alpha … 'fixed'"),
        ({"tolerance": "paired", "worst_domain": True}, "unsupported: worst_domain … 'paired'"),
        ({"rule": "pure-nll", "tolerance": "paired"}, "unsupported: pure-nll … ac-nc"),
        ({"rule": "source-acc", "tolerance": "paired"}, "unsupported: source-acc"),
        (
            {
                "rule": "ac",
                "tolerance": "paired",
                "constraint": "nll",
                "delta": 0.1,
                "objectives": ["ece"],
            },
            "unsupported: accuracy … 'paired' … ac",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], expected: str) -> None:
    with refused(expected):
        cw.select(run_of(0), **options)


def test_a_run_without_examples_is_refused_by_name() -> None:
    run = replace(run_of(0), examples=None)
    with refused("missing: 'paired'"):
        cw.select(run, tolerance="paired")
    with refused("missing"):
        cw.select_many({"a": run}, "ac-nc", tolerance="paired")


def test_the_members_of_an_average_do_not_depend_on_the_tolerance() -> None:
    run = run_of(2, sizes=(50, 50))
    usual = members(cw.select(run, "ac-nc"))
    assert members(cw.select(run, "ac-nc", tolerance="paired")) == usual


def test_explain_says_what_a_tolerance_kept() -> None:
    chosen = cw.select(run_of(1, sizes=(60, 80), gain=1.2), tolerance="paired", guard=False)
    kept = len(chosen.feasible_steps)
    said = f"{kept} of {len(chosen.trajectory)} checkpoints are not shown to be worse than the best"
    assert said in chosen.explain()
