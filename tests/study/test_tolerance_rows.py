"""Tolerances in a study: saved by the study file, and rows of a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkwise as cw
from checkwise.study import Cohort
from tests.cli.calls import answer, run
from tests.refusals import refused
from tests.sweep.studies import write_tiny

ROW = "ac-nc-paired"


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    records = ("[hparams]", '[records]\nlogits = "outcomes"\nkeep = "none"\n\n[hparams]')
    study = write_tiny(folder, ('["ERM", "VREx"]', '["ERM"]'), records)
    assert run("study", "run", study, "--out", folder / "out", "--workers", "1") == 0
    return folder / "out"


def test_a_row_is_the_choice_under_its_tolerance(cohort: Path) -> None:
    study = Cohort.open(cohort)
    expected = cw.select_many(study.usable, "ac-nc", tolerance="paired")
    steps = study.select(ROW)["step"].tolist()
    assert steps == [one.step for one in expected.values()]
    assert steps == study.select("ac-nc", tolerance="paired")["step"].tolist()


def test_rows_stand_beside_each_other(cohort: Path) -> None:
    rules = f"source-acc,ac-nc,{ROW}"
    said = answer("study", "compare", cohort, "--rules", rules, "--metrics", "target_accuracy")
    assert [row["rule"] for row in said["contrasts"]] == ["ac-nc", ROW]


def test_the_option_goes_to_the_rules_that_take_it(cohort: Path) -> None:
    asked = ("study", "compare", cohort, "--param", "tolerance=paired", "--param", "alpha=0.1")
    said = answer(*asked, "--metrics", "source_accuracy")
    assert said["settings"]["tolerance"] == "paired"
    expected = Cohort.open(cohort).compare(
        ["ac-nc"], metrics=["source_accuracy"], tolerance="paired", alpha=0.1
    )
    assert said["contrasts"][0]["mean"] == pytest.approx(expected["mean"][0])


def test_an_unknown_tolerance_is_refused(cohort: Path) -> None:
    with refused("unknown: fixed, paired"):
        Cohort.open(cohort).select("ac-nc", tolerance="loose")


def test_a_registered_choice_knows_its_tolerance(cohort: Path) -> None:
    assert run("study", "register", cohort, "--rule", "ac-nc", "--param", "tolerance=paired") == 0
    metrics = ("--metrics", "target_accuracy")
    same = answer(
        "study", "compare", cohort, *metrics, "--param", "tolerance=paired", "--param", "alpha=0.05"
    )
    other = answer("study", "compare", cohort, *metrics)
    assert same["registered"]["ac-nc"]["state"] != "none"
    assert other["registered"]["ac-nc"]["state"] == "none"
