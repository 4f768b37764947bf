"""Models made by workers are those that one process makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkwise.study.baselines import DeriveJob, derive_with_workers, folder_of
from checkwise.study.baselines.deriving import work
from checkwise.study.folder import take
from checkwise.study.sweep.executors import LocalExecutor
from tests.commands import answer
from tests.weights.cohorts import copied, derive, train_cohort


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_cohort(tmp_path_factory.mktemp("cohort"))


def results(cohort: Path) -> dict[str, bytes]:
    """Every file of the results; of records what does not depend on the clock."""
    found = {}
    for path in sorted(path for path in (cohort / "derived").rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == "record.json":
            content = json.dumps({**json.loads(content), "seconds": 0}).encode()
        found[str(path.relative_to(cohort))] = content
    return found


def test_two_workers_make_what_one_process_makes(
    cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = copied(cohort, tmp_path / "here"), copied(cohort, tmp_path / "there")
    derive(here, "swad")
    told = answer(capsys, "study", "derive", there, "--method", "swad", "--workers", 2)
    assert [result["made_now"] for result in told["results"]] == [True, True]
    assert results(there) == results(here)
    job = DeriveJob(cohort=str(there), path=str(there), method="swad")
    again = derive_with_workers(job, LocalExecutor(), 1)
    assert (len(again.made), len(again.current)) == (0, 2)
    forced = derive_with_workers(job, LocalExecutor(), 1, force=True)
    assert (len(forced.made), len(forced.current)) == (2, 0)
    assert results(there) == results(here)


def test_a_worker_waits_for_what_another_one_makes(cohort: Path, tmp_path: Path) -> None:
    place = copied(cohort, tmp_path)
    first = min(record.run for record in derive(place, "swad-nobn").records)
    held = take(folder_of(place, "swad-nobn", first))
    assert held is not None
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 4

    job = DeriveJob(cohort=str(place), path=str(place), method="swad-nobn")
    (folder_of(place, "swad-nobn", first) / "record.json").unlink()
    with held:
        work(job, stop=stop)
        assert not (folder_of(place, "swad-nobn", first) / "record.json").exists()
    work(job)
    assert (folder_of(place, "swad-nobn", first) / "record.json").exists()
