"""Rules made of other rules: each by hand, and the contract over all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.errors import InputError
from checkwise.selection.drawn import halves
from checkwise.selection.rules import variants
from checkwise.study.methods import method
from tests.refusals import refused
from tests.selection.test_stability import resampled_runs
from tests.selection.validated import predictions, validated_run

FEW: dict[str, Any] = {"stable": {"draws": 50}, "one-se": {"draws": 50}, "abstain": {"draws": 50}}
FEW |= {"crossfit": {"splits": 5}, "smooth": {}}


def turned(run: cw.Trajectory, saved: Any) -> cw.Trajectory:
    other = {step: dict(reversed(domains.items())) for step, domains in saved.items()}
    return cw.Trajectory.from_predictions(other)


@pytest.mark.parametrize("suffix", list(variants()))
@pytest.mark.parametrize("base", ["ac-nc", "pure-nll"])
@pytest.mark.parametrize("shape", [{"checkpoints": 1}, {"checkpoints": 6, "domains": 3}])
def test_every_variant_keeps_the_contract(base: str, suffix: str, shape: dict[str, Any]) -> None:
    saved = predictions(examples=20, **shape)
    run = cw.Trajectory.from_predictions(saved)
    params = {**FEW[suffix], **({"delta_pp": 8} if base == "ac-nc" else {})}
    name = f"{base}-{suffix}"
    chosen = cw.select(run, name, **params)
    assert chosen.step == cw.select(run, name, **params).step
    assert chosen.step == cw.select(turned(run, saved), name, **params).step
    assert chosen.step == cw.select_many({"one": run}, name, **params)["one"].step
    assert chosen.step in chosen.feasible_steps
    assert not chosen.rule_used.prunable
    if chosen.rule_used.constrained:
        assert chosen.gap_pp is not None
        assert chosen.gap_pp <= 8
        assert chosen.guarantee().bound_pp > 0
    if suffix != "smooth":
        with refused("missing"):
            cw.select(replace(run, examples=None), name, **params)
    if len(run) > 1:
        for z, _ in saved[chosen.step].values():
            z[0, 0] = np.nan
        again = cw.select(cw.Trajectory.from_predictions(saved), name, **params)
        assert again.step != chosen.step


def test_stable_is_what_is_chosen_most_often() -> None:
    run = validated_run(checkpoints=12)
    base = cw.select(run, "ac-nc", delta_pp=4, guard=False)
    share = base.stability(200, seed=3).share
    stable = cw.select(run, "ac-nc-stable", delta_pp=4, draws=200, seed=3, guard=False)
    assert stable.step == max(base.feasible_steps, key=lambda step: share[step])
    assert f"{share[stable.step]:.0%} of 200 resamples" in stable.explain()


@pytest.mark.parametrize("grouped", [False, True])
def test_cross_fitting_is_each_half_in_turn(grouped: bool) -> None:
    saved = predictions(checkpoints=6)
    groups = {name: np.arange(40) // 3 for name in saved[0]} if grouped else None
    run = cw.Trajectory.from_predictions(saved, groups=groups)
    first, second = halves(run, 6, seed=0)
    assert all((a + b == 1).all() for a, b in zip(first.counts, second.counts, strict=True))
    chosen = []
    for a, b in ((first, second), (second, first)):
        filters, ranks = (resampled_runs(saved, half.counts) for half in (a, b))
        for one, other in zip(filters, ranks, strict=True):
            joined = replace(
                one,
                values={**other.values, "accuracy": one.values["accuracy"]},
                examples=None,
            )
            chosen.append(cw.select(joined, "ac-nc", delta_pp=10, guard=False).step)
    votes = cw.select(run, "ac-nc-crossfit", delta_pp=10, splits=6, guard=False)
    eligible = cw.select(run, "ac-nc", delta_pp=10, guard=False).feasible_steps
    assert chosen.count(votes.step) == max(chosen.count(step) for step in eligible)
    assert votes.score == pytest.approx(1 - chosen.count(votes.step) / 12)


def test_one_standard_error_takes_the_earliest_near_the_best() -> None:
    run = validated_run(checkpoints=10, examples=60)
    assert run.examples is not None
    assert run.examples.nll is not None
    means = run.values["nll"].mean(axis=1)
    best = int(means.argmin())
    # The textbook standard error of a mean over domains of means.
    error = np.sqrt(sum(losses[best].var() / 60 for losses in run.examples.nll)) / 2
    chosen = cw.select(run, "pure-nll-one-se", draws=4000)
    at = float(chosen.ranking.note.split("(")[1].split(")")[0])
    assert at == pytest.approx(error, rel=0.05)
    assert chosen.step == run.steps[np.flatnonzero(means <= means[best] + error)[0]]
    within = cw.select(run, "ac-early", tolerance="1se")
    by_accuracy = cw.select(run, "source-acc-one-se", draws=4000)
    assert by_accuracy.step == within.step
    assert not by_accuracy.rule_used.constrained


def test_smoothing_is_a_moving_average() -> None:
    accuracy = [0.90, 0.91, 0.90, 0.95, 0.80, 0.92, 0.925, 0.92]
    nll = [0.5, 0.4, 0.6, 0.4, 0.9, 0.3, 0.35, 0.3]
    run = cw.Trajectory(
        steps=range(8),
        domains=["val"],
        values={"accuracy": [[a] for a in accuracy], "nll": [[m] for m in nll]},
        diverged=[t == 4 for t in range(8)],
    )
    assert cw.select(run, "source-acc").step == 3  # lucky
    means = [
        np.mean([accuracy[s] for s in (t - 1, t, t + 1) if 0 <= s < 8 and s != 4]) for t in range(8)
    ]
    means[4] = np.float64(0)
    assert cw.select(run, "source-acc-smooth").step == int(np.argmax(means))
    assert cw.select(run, "pure-nll-smooth", window=1).step == 5
    with refused("value: `window`"):
        cw.select(run, "pure-nll-smooth", window=2)


def test_abstain_takes_the_rule_only_where_it_is_shown_to_be_better() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 300)
    logits = 2 * np.eye(3)[labels] + random.normal(size=(300, 3))
    wrong = logits.copy()
    wrong[0] = -3 * np.eye(3)[labels[0]]
    right = logits.argmax(axis=1) == labels
    assert right[0]  # so that one more mistake makes the calm checkpoint less accurate
    clear = {0: {"val": (12 * logits, labels)}, 1: {"val": (2 * wrong, labels)}}
    run = cw.Trajectory.from_predictions(clear)
    assert cw.select(run, "source-acc").step == 0
    kept = cw.select(run, "abstain", delta_pp=1)
    assert kept.step == 1
    assert "nll and cwece are better" in kept.explain()
    close = {0: {"val": (2 * logits, labels)}, 1: {"val": (1.999 * wrong, labels)}}
    near = cw.Trajectory.from_predictions(close)
    usual = cw.select(near, "abstain", delta_pp=1)
    assert usual.step == 0
    if cw.select(near, "ac-nc", delta_pp=1).step == 1:
        assert "Abstained: ac-nc would choose step 1" in usual.explain()
    early = cw.select(run, "abstain", delta_pp=1, fallback="ac-early")
    assert early.step == 1
    with refused("unsupported"):
        cw.select(run, "abstain", fallback="pure-nll")
    with refused("unsupported"):
        cw.select(run, "ac-early-abstain")


def test_variants_are_rows_of_comparisons_and_say_what_they_need() -> None:
    assert method("ac-nc-stable", draws=100).label == "ac-nc-stable(draws=100)"
    assert method("ac-nc-stable").needs == {"logs", "logits"}
    assert method("ac-nc-smooth").needs == {"logs"}
    assert method("abstain").is_rule
    with refused("unknown: ac-nc-stable"):
        cw.select(validated_run(), "ac-nc-stabel")
    with refused("unknown: are ac-nc-stable … --tolerance … paired"):
        cw.select(validated_run(), "ac-nc-paired")
    with refused("unsupported"):
        cw.LiveSelector("ac-nc-stable")


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("ac-random-stable", {}),
        ("ac-nc-stable-stable", {}),
        ("ac-nc-abstain", {"fallback": 3}),
        ("ac-nc-stable", {"seed": "x"}),
        ("ac-nc-stable", {"seed": 1.5}),
    ],
)
def test_settings_that_do_not_fit_are_refused(rule: str, params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected"):
        cw.select(validated_run(), rule, **params)
