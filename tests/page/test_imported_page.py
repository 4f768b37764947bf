"""The page of an imported sweep that has accuracies and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkwise.readers import Request
from checkwise.study import OUTSIDE_THE_SEAL, Cohort, import_cohort, sentences
from checkwise.study.report import write_report
from tests.page.chromium import browser, needs_chromium
from tests.study.sweeps import domainbed_sweep

RULES = ("ac-early", "ac-mean")


@pytest.fixture
def cohort(tmp_path: Path) -> Cohort:
    import_cohort(domainbed_sweep(tmp_path / "runs"), tmp_path / "cohort", Request())
    return Cohort.open(tmp_path / "cohort")


def test_it_answers_about_accuracy_and_says_where_the_values_lay(
    cohort: Cohort, tmp_path: Path
) -> None:
    page = write_report(cohort, tmp_path / "report.html", rules=RULES).read_text()
    (row,) = cohort.contrasts(["ac-early"], metrics=["target_accuracy"])
    assert sentences.answer([row]) in page
    assert "target accuracy by" in sentences.answer([row])
    assert "NLL" not in sentences.headline([row]) + sentences.spread([row])
    assert OUTSIDE_THE_SEAL in page


@needs_chromium
def test_its_script_gives_the_same_answer(cohort: Cohort, tmp_path: Path) -> None:
    report = write_report(cohort, tmp_path / "report.html", rules=RULES)
    (row,) = cohort.contrasts(["ac-early"], metrics=["target_accuracy"])
    with browser(tmp_path / "profile") as tab:
        tab.open(report)
        tab.run("document.querySelector('#heldout > summary').click()")
        tab.wait("document.querySelectorAll('#rules-target tbody tr').length > 1")
        said = tab.run("document.getElementById('live-answer').textContent")
        assert said == sentences.answer([row])
        assert tab.console == []
