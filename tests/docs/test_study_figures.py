"""Pictures of the study show what the packed journals give."""

from __future__ import annotations

import json
import re

import pytest
from pandas import read_csv

from checkwise.study import Pool
from tests.docs.test_pages import ROOT, builder

PAGE = ROOT / "docs" / "study" / "claims.md"


def test_the_overview_figures_were_drawn_from_the_packed_journals() -> None:
    module = builder("study_figures")
    with builder("packed").packed_cohorts(module.COHORTS) as cohorts:
        found = module.overview(Pool(list(cohorts.values())))
    assert json.loads(module.FACTS.read_text()) == found, "run studies/paper/study_figures.py"


def test_every_interval_of_the_overview_is_over_what_the_page_says() -> None:
    facts = json.loads(builder("study_figures").FACTS.read_text())
    assert {cell["tau"]["over"] for cell in facts["kendall"]["cells"]} == {"4 domains"}
    assert "four\nheld-out domains of a data set" in PAGE.read_text()
    shown = re.findall(r"images/(overview-[a-z]+)\.png", PAGE.read_text())
    assert sorted(shown) == sorted(
        f"overview-{name}" for name in (*builder("study_figures").OVER_RUNS, "trajectory")
    )


def test_the_figures_of_single_cohorts_were_drawn_from_the_packed_journals() -> None:
    module = builder("cohort_figures")
    shown = module.shown()
    assert json.loads(module.FACTS.read_text()) == module.plain(shown), "run cohort_figures.py"
    assert {cohort.name for cohort in shown if not cohort.of_design} == set(
        builder("tables").described()
    )


def test_intervals_on_single_cohorts_are_over_domains_and_never_over_runs() -> None:
    cohorts = json.loads(builder("cohort_figures").FACTS.read_text())
    over = {each["data"]: {change["over"] for change in each["changes"]} for each in cohorts}
    assert {data for data, units in over.items() if not units} == {
        "PACS, all layers",
        "OfficeHome, 5 classes",
    }
    blocks = {"PACS, five algorithms", "OfficeHome, five algorithms"}
    blocks |= {"camera traps, 4 regions", "PACS, ResNet-50"}
    assert {data for data, units in over.items() if units == {"9 blocks × 4 domains"}} == blocks
    taus = [cell["tau"] for each in cohorts for cell in (each["taus"] or {"cells": []})["cells"]]
    assert {tau["over"] for tau in taus} == {"24 places", "6 places", "4 domains", "3 domains"}
    assert {tau["over"] for tau in taus if tau["high"] > 1.05 or tau["low"] < -1} == {"3 domains"}


def test_the_changes_by_algorithm_are_those_of_the_tables() -> None:
    cohorts = json.loads(builder("cohort_figures").FACTS.read_text())
    finetuned = next(each for each in cohorts if each["name"] == "pacs-finetuned")
    change = next(c for c in finetuned["changes"] if c["metric"] == "target_nll")
    assert (change["algorithm"], change["over"]) == ("CORAL", "4 domains")
    table = read_csv(builder("tables").FOLDER / "pacs-finetuned" / "by-algorithm.csv")
    row = table[(table.algorithm == "CORAL") & (table.measure == "target_nll")].iloc[0]
    shown = [change[name] for name in ("mean", "low", "high")]
    assert shown == pytest.approx(row[["value", "low", "high"]].tolist(), abs=1e-5)


def test_the_picture_of_one_choice_was_drawn_from_the_packed_journal() -> None:
    module = builder("process_figure")
    shown, facts = module.packed_process()
    assert json.loads(module.FACTS.read_text()) == facts, "run process_figure.py"
    assert shown.distance[shown.feasible.index(shown.chosen)] == 0
    counts = facts["without compromise"]
    said = f"{counts['best in every objective']} of the {counts['runs']} runs, {counts['alone']} of"
    assert said in PAGE.read_text()
