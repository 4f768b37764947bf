"""Runs that logged a loss or another score and no accuracy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.selection import usable_rules
from tests.refusals import refused


def run_of(**scores: list[float]) -> cw.Trajectory:
    return cw.Trajectory(
        steps=np.arange(1, 4) * 100,
        domains=["validation"],
        values={name: np.c_[values] for name, values in scores.items()},
    )


def test_a_loss_alone_is_chosen_by() -> None:
    chosen = cw.select(run_of(nll=[0.5, 0.3, 0.4]))
    assert (chosen.rule, chosen.step, chosen.reason) == ("pure-nll", 200, "there is no accuracy")
    assert (chosen.accuracy, chosen.gap_pp) == (None, None)
    found = json.loads(chosen.to_json())
    assert (found["accuracy"], found["gap_pp"]) == (None, None)
    assert found["guarantee"]["bound_pp"] is None
    assert "constraint" not in found
    words = chosen.explain()
    assert "Use step 200. Validation NLL 0.3, the best of 3 checkpoints." in words
    assert "accuracy was" not in words.lower()
    assert "logits" not in words
    assert "accuracy 0" not in repr(chosen)


def test_all_checkpoints_are_near_where_nothing_says_how_near() -> None:
    for scores in ({"nll": [0.5, 0.3, 0.4]}, {"rmse": [0.5, 0.3, 0.4]}):
        chosen = cw.select(run_of(**scores))
        assert (chosen.step, chosen.feasible.tolist()) == (200, [True] * 3)


def test_columns_of_accuracy_are_absent() -> None:
    chosen = cw.select(run_of(nll=[0.5, 0.3, 0.4]))
    assert list(chosen.columns) == ["step", "diverged", "nll"]
    assert list(chosen.table) == ["rank", "step", "feasible", "score", "diverged", "nll"]
    table: Any = chosen.columns
    with refused("missing: 'accuracy'"):
        table["accuracy"]
    with refused("missing: 'accuracy'"):
        table.within(1)
    with refused("missing: 'accuracy'"):
        table.at_least(50)


def test_what_works_is_listed() -> None:
    assert usable_rules(["nll", "ece"]) == ["pure-ece", "pure-nll", "last"]
    run = run_of(nll=[0.5, 0.3, 0.4])
    with refused("missing: accuracy … pure-nll"):
        cw.select(run, "ac-nll")
    with refused("missing: --constraint f1"):
        cw.select(run, "source-acc")
    with refused("missing: no accuracy … pure-nll … `delta_pp`"):
        cw.select(run, delta_pp=1)
    with refused("missing"):
        cw.select(run, "pure-nll", ties="accuracy")
    assert cw.select(run_of(nll=[0.3, 0.3, 0.4]), ties="latest").step == 200


def test_without_accuracy_loss_and_known_scores_the_constraint_is_asked_for() -> None:
    unknown = run_of(quality=[0.9, 0.89, 0.7], latency=[3.0, 2.0, 1.0])
    with refused("missing: quality, latency … --constraint … quality … --objectives … latency"):
        cw.select(unknown)
    with refused("missing: --constraint … quality"):
        cw.select_many({"a": unknown})
    run = run_of(f1=[0.9, 0.89, 0.7], latency=[3.0, 2.0, 1.0])
    with refused("missing: --objectives"):
        cw.select(run, constraint="f1", delta="2%")
    chosen = cw.select(run, constraint="f1", delta="2%", objectives=["latency"])
    assert (chosen.rule, chosen.step, chosen.reason) == ("ac", 200, "objectives were named")


@pytest.mark.parametrize(
    ("scores", "objectives"),
    [
        (("nll", "cwece", "ece"), ("nll", "cwece")),
        (("nll", "ece"), ("nll",)),
        (("cwece",), ("cwece",)),
        (("ece",), ("ece",)),
    ],
)
def test_a_constraint_without_objectives_gets_the_usual_ones(
    scores: tuple[str, ...], objectives: tuple[str, ...]
) -> None:
    run = run_of(f1=[0.9, 0.89, 0.7], **{name: [0.5, 0.3, 0.1] for name in scores})
    chosen = cw.select(run, constraint="f1", delta="2%")
    assert (chosen.rule, chosen.params["objectives"]) == ("ac", objectives)
    assert "A constraint was named without objectives; " + objectives[0] in chosen.explain()
    assert "logits" not in chosen.explain()
    assert cw.select_many({0: run}, constraint="f1", delta="2%")[0].to_json() == chosen.to_json()


def test_objectives_without_a_rule_mean_ac() -> None:
    run = run_of(accuracy=[0.9, 0.897, 0.7], brier=[0.5, 0.3, 0.1])
    chosen = cw.select(run, objectives=["brier"])
    assert (chosen.rule, chosen.step, chosen.params["delta_pp"]) == ("ac", 200, 0.5)


def test_runs_with_and_without_accuracy_get_a_rule_each() -> None:
    runs = {"a": run_of(nll=[0.5, 0.3, 0.4]), "b": run_of(accuracy=[0.9, 0.8, 0.7])}
    assert {k: s.rule for k, s in cw.select_many(runs).items()} == {
        "a": "pure-nll",
        "b": "source-acc",
    }


def test_rules_of_ones_own_may_do_without() -> None:
    from checkwise.selection import rule
    from checkwise.selection.rulebook import unregister

    try:

        @rule("last-step")
        def last_step(table: Any) -> Any:
            return table["step"][-1]

        @rule("near", constrained=True)
        def near(table: Any, *, delta_pp: float = 1) -> Any:
            return table["step"][table.within(delta_pp)][0]

        chosen = cw.select(run_of(zeta=[1.0, 2.0, 3.0]), "last-step")
        assert chosen.explain().startswith("Use step 300.")
        with refused("missing: near … accuracy"):
            cw.select(run_of(nll=[1.0, 2.0, 3.0]), "near")
    finally:
        unregister("last-step")
        unregister("near")


def test_a_mean_over_domains_is_enough() -> None:
    run = cw.Trajectory(steps=[1, 2], domains=["a", "b"], values={}, pooled={"nll": [0.5, 0.4]})
    assert cw.select(run).step == 2
    with refused("missing"):
        cw.select(run, worst_domain=True)


def test_the_page_of_such_a_run_is_plain(tmp_path: Any) -> None:
    from checkwise.study.report import write_report

    page = write_report(run_of(nll=[0.5, 0.3, 0.4]), tmp_path / "page.html").read_text()
    assert "step 200" in page
    assert "NLL" in page
    assert "<input" not in page
    constrained = write_report(
        run_of(f1=[0.9, 0.89, 0.7], nll=[0.5, 0.3, 0.4], accuracy=[0.9, 0.8, 0.7]),
        tmp_path / "other.html",
        constraint="f1",
        delta="2%",
    ).read_text()
    assert "F1: what it costs" in constrained
    assert "NLL: what you gain" in constrained
    assert "Accuracy: what you gain" not in constrained
    assert "within 2% of the best" in constrained
