"""Cohorts: choices, held-out results and paired comparisons, checked on paper."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkwise.errors import CheckwiseError
from checkwise.study import Cohort, method
from checkwise.study.heldout import values_at
from tests.refusals import refused
from tests.study.cohorts import key, tiny_runs, write_cohort


@pytest.fixture
def tiny(tmp_path: Path) -> Cohort:
    return Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))


def test_opening_counts_runs_and_carries_the_role(tiny: Cohort) -> None:
    assert list(tiny.runs) == [key("ERM", 0), key("ERM", 1), key("IRM", 0)]
    assert tiny.unfinished == (key("IRM", 1),)
    assert (tiny.name, tiny.role, tiny.n_diverged) == ("tiny", "development", 1)


def test_selecting_gives_one_row_per_run(tiny: Cohort) -> None:
    table = tiny.select("ac-nc")
    assert table["step"].tolist() == [200, 200, 100]
    assert table["algorithm"].tolist() == ["ERM", "ERM", "IRM"]
    assert table["held_out"].tolist() == ["sketch"] * 3
    assert table["source_accuracy"].tolist() == [0.895, 0.895, 0.9]
    assert table["gap_pp"].tolist() == [0.5, 0.5, 0.0]
    assert table["eligible"].tolist() == [2, 2, 1]
    assert not any(str(column).startswith("target") for column in table)


def test_selecting_opens_no_held_out_file(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "poisoned", tiny_runs())
    for journal in folder.glob("runs/*/heldout/*.jsonl"):
        journal.write_bytes(b"\xff not json")
    cohort = Cohort.open(folder)
    assert cohort.select("ac-nc")["step"].tolist() == [200, 200, 100]
    with pytest.raises(CheckwiseError):
        cohort.evaluate("ac-nc")
    for journal in folder.glob("runs/*/heldout/*.jsonl"):
        journal.unlink()
        journal.parent.rmdir()
    assert Cohort.open(folder).select("ac-nc")["step"].tolist() == [200, 200, 100]


def test_evaluating_adds_the_targets_of_the_chosen_step(tiny: Cohort) -> None:
    table = tiny.evaluate("ac-nc")
    assert table["target"].tolist() == ["sketch"] * 3
    assert table["target_accuracy"].tolist() == [0.62, 0.49, 0.40]
    assert table["target_nll"].tolist() == [1.2, 1.9, 3.0]
    assert table["target_hard_ece"].tolist() == [0.25] * 3
    assert table["source_nll"].tolist() == pytest.approx([0.4, 0.4, 0.7])


def test_a_step_without_a_target_record_has_no_target_results() -> None:
    journal = {"step": np.array([100, 300]), "nll": np.array([1.0, 3.0])}
    found = values_at(journal, [50, 100, 200, 300, 400])["nll"]
    np.testing.assert_array_equal(found, [np.nan, 1.0, np.nan, 3.0, np.nan])


def test_comparing_on_paper(tiny: Cohort) -> None:
    table = tiny.compare(["source-acc", "ac-nc"]).set_index("metric")
    assert list(table.index) == ["target_accuracy", "target_nll", "target_ece", "target_cwece"]
    accuracy = table.loc["target_accuracy"]  # +2, −1, 0 points
    assert accuracy["mean"] == pytest.approx(1 / 3)
    assert accuracy["median"] == pytest.approx(0)
    assert (accuracy["wins"], accuracy["ties"], accuracy["losses"]) == (1, 1, 1)
    assert accuracy["lose_1pp"] == pytest.approx(1 / 3)
    assert [accuracy["low"], accuracy["high"]] == pytest.approx([-1, 2])
    nll = table.loc["target_nll"]  # −0.3, −0.1, 0
    assert nll["mean"] == pytest.approx(-0.4 / 3)
    assert nll["median"] == pytest.approx(-0.1)
    assert (nll["wins"], nll["ties"], nll["losses"]) == (2, 1, 0)
    assert [nll["low"], nll["high"]] == pytest.approx([-0.3, 0])
    assert np.isnan(nll["lose_1pp"])
    assert table.loc["target_cwece", "mean"] == pytest.approx((-1.0 + 0.5 + 0) / 3)
    assert (table["n"] == 3).all()
    assert (table["unfinished"] == 1).all()
    assert (table["role"] == "development").all()
    assert table["scale"].tolist() == [100, 1, 100, 100]


def test_losing_exactly_one_point_counts_as_losing(tiny: Cohort) -> None:
    # 0.49 − 0.50 is a little above −0.01 in floating point.
    table = tiny.compare(["ac-nc"], by=["trial_seed"], metrics=["target_accuracy"])
    assert table.set_index("trial_seed").loc["1", "lose_1pp"] == 1.0


def test_splitting_by_algorithm_and_a_single_run_without_interval(tiny: Cohort) -> None:
    table = tiny.compare(["ac-nc"], by=["algorithm"], metrics=["target_nll"])
    table = table.set_index("algorithm")
    assert table["n"].to_dict() == {"ERM": 2, "IRM": 1}
    assert table["mean"].to_dict() == pytest.approx({"ERM": -0.2, "IRM": 0.0})
    assert table["low"].isna().to_dict() == {"ERM": False, "IRM": True}
    assert table.loc["ERM", "low"] == pytest.approx(-0.3)


def test_any_reference_can_be_subtracted(tiny: Cohort) -> None:
    forth = tiny.compare(["ac-nc"], "source-acc")
    back = tiny.compare(["source-acc"], "ac-nc")
    np.testing.assert_allclose(forth["mean"], -back["mean"])
    np.testing.assert_allclose(forth["low"], -back["high"])
    assert (forth["wins"] == back["losses"]).all()


def test_parameters_reach_the_rules_that_take_them(tiny: Cohort) -> None:
    # At a tolerance of 0 nothing but the best accuracy is feasible, so nothing differs.
    assert (tiny.compare(["source-acc", "ac-nc"], delta_pp=0)["mean"] == 0).all()
    tight = method("ac-nc", delta_pp="0.1")
    table = tiny.compare([tight], "ac-nc", metrics=["target_nll"])
    assert table["rule"].tolist() == ["ac-nc(delta_pp=0.1)"]
    assert table["mean"].tolist() == pytest.approx([0.4 / 3])


def test_ac_mean_is_the_mean_over_the_feasible_set(tiny: Cohort) -> None:
    table = tiny.evaluate("ac-mean")
    assert table["target_nll"].tolist() == pytest.approx([1.35, 1.95, 3.0])
    assert table["step"].isna().tolist() == [True, True, False]
    with refused("unsupported: ac-mean"):
        tiny.select("ac-mean")


def test_source_metrics_and_the_gap_can_be_compared(tiny: Cohort) -> None:
    table = tiny.compare(["ac-nc"], metrics=["source_nll", "gap_pp"])
    assert table["mean"].tolist() == pytest.approx([-0.2, 1 / 3])
    assert table["losses"].tolist() == [0, 2]


def test_a_target_that_diverged_is_left_out_and_counted(tmp_path: Path) -> None:
    runs = tiny_runs()
    runs[0] = replace(runs[0], target_diverged=(200,))
    table = Cohort.open(write_cohort(tmp_path / "c", runs)).compare(["ac-nc"])
    assert table["n"].tolist() == [2, 2, 2, 2]
    assert table["missing"].tolist() == [1, 1, 1, 1]


def test_several_held_out_domains_weigh_equally_within_their_run(tmp_path: Path) -> None:
    run = replace(tiny_runs()[0], key=key("ERM", 0, ("cartoon", "sketch")))
    cohort = Cohort.open(write_cohort(tmp_path / "c", [run]))
    assert cohort.evaluate("ac-nc")["target"].tolist() == ["cartoon", "sketch"]
    assert cohort.compare(["ac-nc"], metrics=["target_accuracy"])["mean"].tolist() == [
        pytest.approx(2)
    ]


def test_the_order_of_the_plan_does_not_change_intervals(tmp_path: Path) -> None:
    ours = Cohort.open(write_cohort(tmp_path / "a", tiny_runs())).compare(["ac-nc"])
    other = Cohort.open(write_cohort(tmp_path / "b", tiny_runs()[::-1])).compare(["ac-nc"])
    measured = ["seconds"]
    assert ours.drop(columns=measured).equals(other.drop(columns=measured))


def test_a_cohort_without_finished_runs_says_so(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "c", tiny_runs()[3:])
    with refused("empty: 1 … 0"):
        Cohort.open(folder).compare(["ac-nc"])


def test_what_cannot_be_compared_is_refused_with_a_way_out(tiny: Cohort) -> None:
    with refused("unsupported: 'patience'"):
        tiny.compare(["ac-nc"], patience=1)
    with refused("missing: 'target_auroc' … source_accuracy"):
        tiny.compare(["ac-nc"], metrics=["target_auroc"])
    with refused("unknown: `by` … dataset"):
        tiny.compare(["ac-nc"], by=["seed"])
    with refused("value"):
        tiny.compare(["ac-nc", "ac-nc"])
    with refused("value"):
        tiny.compare("ac-nc")


@pytest.mark.parametrize("by", [[], ["algorithm"], ["dataset"], ["algorithm", "dataset"]])
def test_development_and_evaluation_data_are_only_compared_apart(
    by: list[str], tmp_path: Path
) -> None:
    pacs = tiny_runs()[:2]
    runs = [*pacs, *(replace(run, key=replace(run.key, dataset="VLCS")) for run in pacs)]
    folder = write_cohort(tmp_path / "mixed", runs, role="mixed")
    plan = json.loads((folder / "cohort.json").read_text())
    plan["roles"] = {"PACS": "development", "VLCS": "evaluation"}
    (folder / "cohort.json").write_text(json.dumps(plan))
    cohort = Cohort.open(folder)
    if "dataset" in by:
        table = cohort.compare(["ac-nc"], by=by, metrics=["target_nll"])
        assert dict(zip(table["dataset"], table["role"], strict=True)) == plan["roles"]
    else:
        with refused("ambiguous: role … dataset"):
            cohort.compare(["ac-nc"], by=by)
    alone = Cohort.open(folder, role="evaluation").compare(["ac-nc"], by=by)
    assert (alone["n"].max(), set(alone["role"])) == (2, {"evaluation"})
    with refused("empty: mixed"):
        Cohort.open(folder, role="test")


def test_a_run_that_diverged_throughout_is_left_out_and_counted(tmp_path: Path) -> None:
    runs = tiny_runs()
    runs[1] = replace(runs[1], diverged=(100, 200, 300))
    cohort = Cohort.open(write_cohort(tmp_path / "c", runs))
    table = cohort.compare(["ac-nc"])
    assert cohort.wrecked == (key("ERM", 1),)
    assert table["n"].tolist() == [2] * 4
    assert table["wrecked"].tolist() == [1] * 4
