"""What figures say about the data they show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkwise.study import Cohort, Pool
from checkwise.study.figures import algorithms, kendall, tolerance
from checkwise.study.tables import build
from tests.study.cohorts import tiny_runs, write_cohort


@pytest.fixture
def tiny(tmp_path: Path) -> Pool:
    return Pool([Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))])


@pytest.fixture
def two_sets(tmp_path: Path) -> Pool:
    """The tiny cohort as development data, and ERM alone on other data as evaluation."""
    office = [replace(run, key=replace(run.key, dataset="OfficeHome")) for run in tiny_runs()[:2]]
    return Pool(
        [
            Cohort.open(write_cohort(tmp_path / "pacs", tiny_runs())),
            Cohort.open(write_cohort(tmp_path / "office", office, role="evaluation")),
        ]
    )


def test_titles_name_the_data_that_was_drawn(two_sets: Pool, tiny: Pool) -> None:
    title = algorithms.draw(algorithms.algorithm_changes(two_sets)).get_suptitle()
    assert title == (
        "Rule − source-acc, OfficeHome and PACS, 1–4 runs per algorithm, development + evaluation, "
        "95% over runs"
    )
    title = algorithms.draw(algorithms.algorithm_changes(tiny)).get_suptitle()
    assert title == "Rule − source-acc, PACS, 1–2 runs per algorithm, development, 95% over runs"
    # The first scope is the evaluation data alone.
    title = tolerance.draw(tolerance.facts(two_sets)).get_suptitle()
    assert title == "ac-nc − source-acc, OfficeHome, 2 runs, evaluation, 95% over runs"


def test_the_shading_of_rank_agreement_is_explained(tiny: Pool) -> None:
    found = kendall.rank_agreements(tiny)
    figure = kendall.draw(found)
    title = figure.get_suptitle()
    assert title.splitlines()[0].endswith("development, 95% over runs")
    assert title.endswith("shaded: from 0 to the mean over all runs of the panel")
    tau = [build("kendall", tiny).cell("PACS", a, measure="tau_nll") for a in ("ERM", "IRM")]
    mean = sum(cell.n * cell.value for cell in tau) / sum(cell.n for cell in tau)
    assert found.panel_means["nll"] == pytest.approx(mean)
