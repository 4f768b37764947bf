"""The processors of runs, from records of any age."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkwise.study import Cohort, machines
from checkwise.study.report import write_report
from checkwise.study.report.facts import cohort_facts
from tests.study.cohorts import mark_again, tiny_runs, write_cohort

EPYC = {"architecture": "x86_64", "processor": "AMD EPYC 7B13", "instructions": "AVX2"}
XEON = {"architecture": "x86_64", "processor": "Intel Xeon", "instructions": "AVX512"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cohort(tmp_path / "tiny", tiny_runs()[:3])


def note(folder: Path, number: int, **facts: Any) -> None:
    """Add facts to the run.json of a run, and let its mark agree."""
    run = sorted((folder / "runs").iterdir())[number]
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, **facts}))
    mark_again(run)


def test_runs_are_counted_by_processor_and_instructions(folder: Path) -> None:
    note(folder, 0, machine=EPYC)
    note(folder, 1, machine=EPYC, continued=[{"updates": 100, "machine": XEON}])
    note(folder, 2, machine=EPYC | {"accelerator": "A100"})
    found = machines(sorted((folder / "runs").iterdir()))
    assert found == {
        "AMD EPYC 7B13, AVX2": 2,
        "Intel Xeon, AVX512": 1,
        "AMD EPYC 7B13, AVX2, A100": 1,
    }


@pytest.mark.parametrize(
    "facts", [{}, {"machine": {}}, {"machine": None}, {"machine": ["AVX2"]}, {"continued": 3}]
)
def test_a_run_that_records_no_processor_is_left_out(folder: Path, facts: dict[str, Any]) -> None:
    note(folder, 0, **facts)
    assert machines(sorted((folder / "runs").iterdir())) == {}


def test_the_page_names_the_processors_and_says_what_they_change(folder: Path) -> None:
    silent = write_report(folder, folder / "r.html").read_text("utf-8")
    assert "The processor that the runs were trained on is not recorded." in silent
    note(folder, 0, machine=EPYC)
    note(folder, 1, machine=XEON)
    note(folder, 2, machine=EPYC)
    assert cohort_facts(Cohort.open(folder)).machines == {
        "AMD EPYC 7B13, AVX2": 2,
        "Intel Xeon, AVX512": 1,
    }
    page = write_report(folder, folder / "r.html").read_text("utf-8")
    assert "Trained on AMD EPYC 7B13, AVX2 (2 runs) and Intel Xeon, AVX512 (1 run)." in page
    assert "the last bits may differ, and in small studies the conclusions too." in page
