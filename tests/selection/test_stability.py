"""Stability is the whole rule on resampled examples: equal to doing just that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.records import Examples, Outcomes
from checkwise.selection import Columns
from checkwise.selection.rulebook import unregister
from checkwise.sure import Stability
from checkwise.sure.draws import bootstrapped
from checkwise.sure.shares import choices, table_of
from tests.refusals import refused
from tests.selection.validated import predictions, validated_run

DRAWS = 20
SEED = 5


def resampled_runs(saved: Any, counts: Any, groups: Any = None) -> list[cw.Trajectory]:
    """Every resample written out as predictions and measured afresh."""
    runs = []
    for d in range(len(counts[0])):
        rows = [np.repeat(np.arange(len(row[d])), row[d]) for row in counts]
        part = {
            step: {
                name: (z[r], y[r]) for (name, (z, y)), r in zip(domains.items(), rows, strict=True)
            }
            for step, domains in saved.items()
        }
        # A group that is drawn twice is two groups.
        units = groups and {
            name: [f"{g} {k}" for g, c in zip(groups[name], row[d], strict=True) for k in range(c)]
            for name, row in zip(groups, counts, strict=True)
        }
        runs.append(cw.Trajectory.from_predictions(part, groups=units))
    return runs


RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ac-nc", {"delta_pp": 3}, {}),
    ("ac-nec", {"delta_pp": "12.5", "q": 2}, {"weights": "sample"}),
    ("source-acc", {}, {}),
    ("ac-early", {"delta_pp": 2}, {"worst_domain": True}),
    ("pure-ece", {}, {}),
    ("wald", {"threshold_pp": 20}, {}),
    ("ac", {"constraint": "brier", "delta": "5%", "objectives": ["hard_ece"]}, {}),
    ("ac-nc", {"delta_pp": 3}, {"tolerance": "paired", "alpha": 0.2}),
    ("ac-nll", {}, {"tolerance": "paired", "alpha": 0.5, "weights": "sample"}),
    ("ac-nll", {"delta": "3%"}, {"weights": {"domain 0": 3, "domain 1": 1}}),
]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("rule", "params", "options"), RULES)
def test_equal_to_selecting_from_every_resample(
    rule: str, params: dict[str, Any], options: dict[str, Any], grouped: bool
) -> None:
    saved = predictions()
    groups = {name: np.arange(40) // 3 for name in saved[0]} if grouped else None
    run = cw.Trajectory.from_predictions(saved, groups=groups)
    chosen = cw.select(run, rule, **options, **params)
    (drawn,) = bootstrapped(run, DRAWS, SEED)
    literal = [
        cw.select(one, rule, **options, **params)
        for one in resampled_runs(saved, drawn.counts, groups)
    ]
    result = chosen.stability(DRAWS, SEED)
    assert result.steps[result.chosen].tolist() == [one.step for one in literal]
    table = table_of(chosen, drawn)
    choices(chosen, table)
    looked_at = [name for name in ("accuracy", *chosen.looked_at) if name in run.metrics]
    for name in looked_at:
        fast = table[name]
        slow = np.array([one.columns[name] for one in literal])
        known = ~np.isnan(fast)
        eligible = np.array([one.ranking.eligible for one in literal])
        assert known[eligible].all()
        np.testing.assert_allclose(fast[known], slow[known], rtol=0, atol=1e-9)
        sign = -1 if name == "accuracy" else 1
        lost = [
            sign * (row[chosen.index] - row[one.index])
            for row, one in zip(slow, literal, strict=True)
        ]
        assert result.expected_loss[name] == pytest.approx(np.mean(lost), abs=1e-9)


def test_a_rule_of_the_users_own_is_run_on_every_draw() -> None:
    saved = predictions(checkpoints=5)
    run = cw.Trajectory.from_predictions(saved)

    @cw.rule("largest-brier-gap", needs=("brier",), constrained=True)
    def rule(table: Columns, *, delta_pp: float = 4) -> int:
        "The feasible checkpoint furthest from the mean Brier score of all."
        away = np.abs(table["brier"] - table["brier"].mean())
        return int(table["step"][np.where(table.within(delta_pp), away, -1).argmax()])

    try:
        chosen = cw.select(run, rule)
        (drawn,) = bootstrapped(run, DRAWS, SEED)
        literal = [cw.select(one, rule).step for one in resampled_runs(saved, drawn.counts)]
        result = chosen.stability(DRAWS, SEED)
        assert result.steps[result.chosen].tolist() == literal
    finally:
        unregister("largest-brier-gap")


def test_a_metric_of_the_users_own_is_computed_for_every_draw() -> None:
    @cw.metric("doubt", direction="lower")
    def doubt(probs: Any, labels: Any) -> float:
        return float(np.median(1 - probs.max(axis=1)))

    try:
        saved = predictions(checkpoints=4)
        run = cw.Trajectory.from_predictions(saved)
        chosen = cw.select(run, "ac", objectives=["doubt"], delta_pp=5)
        (drawn,) = bootstrapped(run, 15, SEED)
        literal = [
            cw.select(one, "ac", objectives=["doubt"], delta_pp=5).step
            for one in resampled_runs(saved, drawn.counts)
        ]
        result = chosen.stability(15, SEED)
        assert result.steps[result.chosen].tolist() == literal
    finally:
        del cw.metrics.METRICS["doubt"]


def test_a_checkpoint_that_diverged_is_never_chosen() -> None:
    saved = predictions()
    best = cw.select(cw.Trajectory.from_predictions(saved)).step
    for z, _ in saved[best].values():
        z[0, 0] = np.nan
    result = cw.select(cw.Trajectory.from_predictions(saved)).stability(200)
    assert result.share[best] == 0.0
    assert sum(result.share.values()) == pytest.approx(1)


def test_the_order_of_domains_and_the_size_of_parts_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved = predictions(domains=3)
    turned = {step: dict(reversed(domains.items())) for step, domains in saved.items()}
    here = cw.select(cw.Trajectory.from_predictions(saved)).stability(1500)
    there = cw.select(cw.Trajectory.from_predictions(turned)).stability(1500)
    assert np.array_equal(here.chosen, there.chosen)
    monkeypatch.setattr("checkwise.sure.draws._COUNTS_AT_ONCE", 1)
    done: list[int] = []
    again = cw.select(cw.Trajectory.from_predictions(saved)).stability(1500, progress=done.append)
    assert np.array_equal(here.chosen, again.chosen)
    assert done == [1000, 1500]


def test_accuracy_alone_needs_no_logits() -> None:
    run = validated_run()
    assert run.examples is not None
    bits = Examples(
        domains=run.domains,
        steps=run.steps,
        outcomes=Outcomes(run.examples.correct),
    )
    few = replace(run, examples=bits)
    assert np.array_equal(
        cw.select(few, "source-acc").stability(100).chosen,
        cw.select(run, "source-acc").stability(100).chosen,
    )
    with refused("missing"):
        cw.select(few, "ac-nc").stability(100)
    with refused("missing"):
        cw.select(replace(run, examples=None), "source-acc").stability(100)


def test_what_it_says() -> None:
    result = Stability(
        steps=np.array([10, 20, 30, 40]),
        chosen=np.array([1] * 5 + [2] * 3 + [0] * 1 + [3] * 1),
        reported=30,
        expected_loss={},
        seed=0,
    )
    assert result.share == {10: 0.1, 20: 0.5, 30: 0.3, 40: 0.1}
    assert result.smallest_set(0.5) == (20,)
    assert result.smallest_set(0.8) == (20, 30)
    assert result.smallest_set() == (20, 30, 10)
    assert result.smallest_set(1) == (20, 30, 10, 40)
    assert str(result) == (
        "Step 30 is chosen in 30% of 10 resamples of the validation examples; 90% of the choices "
        "are steps 10, 20 and 30."
    )
    often = [Stability(result.steps, np.array([3] * 19 + [1]), step, {}, 0) for step in (40, 20)]
    assert [re.findall(r"(\d+)%", str(one)) for one in often] == [["95"], ["5", "95"]]
    assert "tep 40" in str(often[1])
    with refused("value"):
        result.smallest_set(0)
    with refused("value"):
        result.smallest_set(1.5)
    with refused("value: draws"):
        cw.select(validated_run()).stability(0)
