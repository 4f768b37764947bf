"""Every rule on examples small enough to check by hand."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import Columns
from tests.refusals import refused


def run(accuracy: list[float], **metrics: list[float]) -> cw.Trajectory:
    """One domain, steps 100, 200, …"""
    columns = {"accuracy": accuracy, **metrics}
    return cw.Trajectory(
        steps=[100 * (t + 1) for t in range(len(accuracy))],
        domains=["val"],
        values={name: np.array(column)[:, None] for name, column in columns.items()},
    )


PLAIN = run(
    [0.80, 0.895, 0.900, 0.897, 0.900],
    nll=[0.20, 0.30, 0.50, 0.40, 0.60],
    ece=[0.01, 0.05, 0.02, 0.045, 0.03],
    cwece=[0.001, 0.030, 0.010, 0.020, 0.040],
)


def test_source_accuracy_takes_the_earliest_of_the_best() -> None:
    chosen = cw.select(PLAIN, "source-acc")
    assert chosen.step == 300
    assert chosen.feasible_steps == (300, 500)
    assert chosen.gap_pp == 0


def test_a_checkpoint_on_the_edge_of_the_tolerance_is_feasible() -> None:
    # In floats 0.900 - 0.895 is 0.0050000000000000044, more than half a point.
    assert cw.select(PLAIN, delta_pp=0.5).feasible_steps == (200, 300, 400, 500)
    assert cw.select(PLAIN, delta_pp=0.49).feasible_steps == (300, 400, 500)


@pytest.mark.parametrize("best", [0.9, 0.903, 0.937])
def test_rounding_never_decides_at_the_edge_of_logged_accuracies(best: float) -> None:
    # In floats 0.903 - 0.0025 is 0.9005000000000001, more than the 0.9005 that was logged.
    edge, below = round(best - 0.0025, 4), round(best - 0.0026, 4)
    assert edge < best - 0.0025
    values = {"accuracy": [[best], [edge], [below]]}
    run = cw.Trajectory(steps=[1, 2, 3], domains=["a"], values=values)
    assert cw.select(run, "ac-early", delta_pp=0.25).feasible_steps == (1, 2)


@pytest.mark.parametrize("scale", [1, 7, 1000])
def test_the_edge_is_exact_with_counts(scale: int) -> None:
    edge = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["a"],
        values={
            "accuracy": [[0.9], [0.895], [(895 * scale - 1) / (1000 * scale)]],
            "nll": [[3.0], [2.0], [1.0]],
        },
        counts=[1000 * scale],
    )
    assert cw.select(edge, "ac-nll", delta_pp=0.5).step == 2
    assert cw.select(edge, "ac-nll", delta_pp="0.5").feasible_steps == (1, 2)
    assert cw.select(edge, "ac-nll", delta_pp=0.5).gap_pp == pytest.approx(0.5, abs=1e-12)


# Feasible: steps 200, 300, 400, 500. Rescaled by hand (ranges 0.3, 0.03, 0.03):
#   nll   0, 2/3, 1/3, 1     ece 1, 0, 5/6, 1/3     cwece 2/3, 0, 1/3, 1
@pytest.mark.parametrize(
    ("rule", "q", "step", "score"),
    [
        ("ac-nc", inf, 400, 1 / 3),
        ("ac-nc", 1, 400, 2 / 3),  # 2/3 at 200, 300 and 400
        ("ac-nc", 2, 400, np.sqrt(2) / 3),
        ("ac-ne", inf, 300, 2 / 3),
        ("ac-nec", inf, 300, 2 / 3),
        ("ac-nec", 1, 300, 2 / 3),
        ("ac-ece", inf, 300, 0),
        ("ac-nll", inf, 200, 0),
        ("ac-cwece", inf, 300, 0),
    ],
)
def test_the_constrained_family(rule: str, q: float, step: int, score: float) -> None:
    chosen = cw.select(PLAIN, rule, q=q)
    assert chosen.score == pytest.approx(score, abs=1e-9)
    if rule == "ac-nc" and q == 1:
        assert {chosen.step, *chosen.ties, *chosen.near_ties} == {200, 300, 400}
    else:
        assert chosen.step == step


def test_two_opposed_checkpoints_are_decided_by_the_offset_and_it_is_said() -> None:
    opposed = run([0.900, 0.899], nll=[0.5, 0.4], cwece=[0.01, 0.02])
    # (1, 0) and (0, 1): with η the larger range is the smaller distance loss.
    chosen = cw.select(opposed)
    assert chosen.near_ties
    assert "rounding decides" in chosen.explain()
    rescaled = run([0.900, 0.899], nll=[0.0005, 0.0004], cwece=[0.01, 0.02])
    assert {cw.select(opposed).step, cw.select(rescaled).step} == {100, 200}
    assert cw.select(opposed, eta=0.0).step == cw.select(rescaled, eta=0.0).step == 100


def test_a_constant_objective_counts_for_nothing() -> None:
    flat = run([0.9, 0.9, 0.9], nll=[3, 2, 1], cwece=[0.5, 0.5, 0.5])
    chosen = cw.select(flat)
    assert chosen.step == 300
    assert chosen.table["cwece_normalised"].tolist() == [0, 0, 0]


def test_a_single_feasible_checkpoint_is_chosen_whatever_its_errors() -> None:
    alone = run([0.95, 0.90], nll=[9, 1], cwece=[0.9, 0.1])
    chosen = cw.select(alone)
    assert (chosen.step, chosen.score) == (100, 0)
    assert "No other checkpoint is within 0.5 points" in chosen.explain()


def test_early_is_the_first_feasible() -> None:
    assert cw.select(PLAIN, "ac-early").step == 200


def test_random_is_feasible_reproducible_and_covers_the_set() -> None:
    key = [cw.RunKey("PACS", "ERM", ("sketch",), h, t) for h in range(20) for t in range(20)]
    chosen = [
        cw.select(
            cw.Trajectory(steps=PLAIN.steps, domains=["val"], values=PLAIN.values, key=k),
            "ac-random",
        ).step
        for k in key
    ]
    again = cw.select_many(
        {
            k: cw.Trajectory(steps=PLAIN.steps, domains=["val"], values=PLAIN.values, key=k)
            for k in key
        },
        "ac-random",
    )
    assert chosen == [again[k].step for k in key]
    share = {step: chosen.count(step) / len(chosen) for step in (200, 300, 400, 500)}
    assert sum(share.values()) == 1
    assert all(0.18 < value < 0.32 for value in share.values())


def test_random_without_a_key_does_not_depend_on_which_metrics_are_there() -> None:
    bare = run(PLAIN.values["accuracy"][:, 0].tolist())
    draw = cw.rules()["ac-random"].rank
    assert draw(Columns.of(bare)).score.tolist() == draw(Columns.of(PLAIN)).score.tolist()


def test_pure_rules_ignore_accuracy_and_take_the_earliest_tie() -> None:
    tied = run([0.1, 0.9, 0.5], nll=[2, 1, 1], ece=[0, 0.1, 0], cwece=[0, 0, 0.1])
    assert [cw.select(tied, f"pure-{m}").step for m in ("ece", "cwece", "nll")] == [100, 100, 200]


def test_wald_with_a_relative_threshold_is_ac_ece() -> None:
    assert cw.select(PLAIN, "wald", threshold_pp=89.5).step == cw.select(PLAIN, "ac-ece").step
    assert cw.select(PLAIN, "wald", threshold_pp=70).step == 100
    with refused("empty: 90.00"):
        cw.select(PLAIN, "wald", threshold_pp=95)
    with refused("missing: threshold_pp"):
        cw.select(PLAIN, "wald")


@pytest.mark.parametrize("digits", [0, 4, 9, 13, 25])
def test_a_threshold_of_many_digits_is_still_exact(digits: int) -> None:
    counts = [397, 467, 409]  # a common denominator of 227 million
    correct = np.array([[300, 300, 300], [390, 460, 400], [391, 461, 401]])
    table = cw.Trajectory(
        steps=[100, 200, 300],
        domains=list("abc"),
        counts=counts,
        values={"accuracy": correct / counts, "ece": np.array([[0.1] * 3, [0.2] * 3, [0.3] * 3])},
    )
    assert table.correct is not None
    threshold = f"90.{'0' * digits}1"
    assert cw.select(table, "wald", threshold_pp=threshold).step == 200


def test_any_objectives_can_be_named() -> None:
    by_name = cw.select(PLAIN, "ac", objectives=["nll", "cwece"])
    assert by_name.step == cw.select(PLAIN, "ac-nc").step
    better_high = run([0.9, 0.9], worst_class_accuracy=[0.2, 0.6])
    assert cw.select(better_high, "ac", objectives=["worst_class_accuracy"]).step == 200


def test_diverged_checkpoints_stay_in_the_table_and_are_never_chosen() -> None:
    lost = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["val"],
        values={"accuracy": [[0.99], [0.9], [np.nan]], "nll": [[0.0], [0.5], [np.nan]]},
        diverged=np.array([True, False, True]),
    )
    tried: list[tuple[str, dict[str, Any]]] = [
        ("source-acc", {}),
        ("ac-nll", {"delta_pp": 100}),
        ("pure-nll", {}),
    ]
    for rule, params in tried:
        chosen = cw.select(lost, rule, **params)
        assert chosen.step == 2
        assert chosen.feasible_steps == (2,)
    assert chosen.table["step"].tolist() == [2, 1, 3]
    assert "2 diverged checkpoints were left out" in chosen.explain()


def test_weights_and_the_worst_domain_change_what_counts() -> None:
    two = cw.Trajectory(
        steps=[1, 2],
        domains=["a", "b"],
        values={"accuracy": [[0.9, 0.5], [0.6, 0.7]], "nll": [[1.0, 2.0], [1.5, 1.4]]},
        counts=[10, 1000],
    )
    assert cw.select(two, "source-acc").step == 1
    assert cw.select(two, "source-acc", weights="sample").step == 2
    assert cw.select(two, "source-acc", weights={"a": 1, "b": 3}).step == 2
    assert cw.select(two, "source-acc", worst_domain=True).step == 2
    assert cw.select(two, "source-acc", worst_domain=True).accuracy == 0.6
    assert cw.select(two, "pure-nll", weights={"a": 1, "b": 0}).step == 1
    with refused("value: a, b"):
        cw.select(two, weights={"a": 1}, rule="source-acc")


def test_a_missing_metric_names_the_rules_that_work() -> None:
    with pytest.raises(cw.MissingMetricError) as caught:
        cw.select(run([0.9, 0.8], nll=[1, 2]), "ac-nc")
    message = str(caught.value)
    assert "needs cwece" in message
    assert "source-acc, ac-nll, ac-early, ac-random, pure-nll" in message


def test_a_dominated_checkpoint_is_still_within_the_tolerance() -> None:
    chosen = cw.select(run([0.9, 0.9], nll=[0.7, 0.4], cwece=[0.2, 0.1]), pareto=True)
    assert chosen.feasible_steps == (200,)
    said = chosen.explain()
    assert (
        "2 of 2 checkpoints are within 0.5 points of the best, 1 of them worse than another" in said
    )
    assert "simply the most accurate" not in said
    alone = cw.select(run([0.9, 0.8], nll=[0.7, 0.4], cwece=[0.2, 0.1]), pareto=True)
    assert "simply the most accurate" in alone.explain()


def test_a_rule_without_a_tolerance_lists_what_it_may_choose() -> None:
    run = cw.Trajectory(
        steps=[1, 2, 3],
        domains=["val"],
        values={"accuracy": [[0.9], [0.5], [0.5]], "nll": [[0.3], [0.2], [0.1]]},
        diverged=[False, False, True],
    )
    free, constrained = cw.select(run, "pure-nll"), cw.select(run, "ac-nll")
    assert free.feasible_steps == (1, 2)
    assert constrained.feasible_steps == (1,)
    assert free.as_dict()["feasible_steps"] == [1, 2]


def test_a_weight_for_the_domain_that_a_run_holds_out_is_ignored() -> None:
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["art", "photo"],
        values={"accuracy": [[0.9, 0.5], [0.6, 0.7]]},
        key=cw.RunKey("PACS", "ERM", ("sketch",), 0, 0),
    )
    weights = {"art": 3, "photo": 1}
    wanted = cw.select(run, "source-acc", weights=weights)
    assert (
        cw.select(run, "source-acc", weights={**weights, "sketch": 5}).accuracy == wanted.accuracy
    )
    with refused("value: art, photo"):
        cw.select(run, "source-acc", weights={**weights, "elsewhere": 5})
