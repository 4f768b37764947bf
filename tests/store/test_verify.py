"""Every corruption is found, named, and comes with what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from checkwise.records import RunKey
from checkwise.store import DONE_FILE, HELDOUT_FOLDER, RUNS_FOLDER, attempts_folder, name_as_file
from checkwise.study.folder import (
    LOG,
    Failure,
    Fault,
    mark_done,
    open_cohort,
    record_steps,
    register,
    verify,
    write_cohort,
    write_failure,
)
from tests.refusals import refused
from tests.runs import config, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cohort = tmp_path_factory.mktemp("cohort") / "cohort"
    asked = config(logits="all")
    other = RunKey("digits", "ERM", ("15",), 0, 0)
    write_cohort(
        cohort,
        name="tiny",
        roles={"digits": "development"},
        study={"steps": 13, "record_every": 3},
        metrics={"bins": 15, "bandwidth": 0.1},
        keys=[asked.key, other],
    )
    train(cohort / RUNS_FOLDER / str(asked.key), asked)
    return cohort


@pytest.fixture
def cohort(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "cohort"))


def damage(cohort: Path) -> list[Fault]:
    return [fault for fault in verify(cohort) if fault.kind == "damaged"]


def run_folder(cohort: Path) -> Path:
    return cohort / RUNS_FOLDER / str(config().key)


def test_a_cohort_knows_its_runs(cohort: Path) -> None:
    found = open_cohort(cohort)
    assert (found.name, found.role) == ("tiny", "development")
    assert found.runs[config().key] == run_folder(cohort)


def test_a_sound_cohort_has_no_damage_and_names_what_is_left(cohort: Path) -> None:
    faults = verify(cohort)
    assert [(fault.kind, fault.what) for fault in faults] == [
        ("unfinished", "the run has not started")
    ]
    assert verify(run_folder(cohort)) == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "source.jsonl",
        "heldout/30.jsonl",
        "checkpoints/step-000006.safetensors",
        "predictions/source/step-000003.npz",
        "predictions/heldout/30/step-000012.npz",
    ],
)
@pytest.mark.parametrize("how", [flip, cut, Path.unlink], ids=["flipped", "cut", "missing"])
def test_a_changed_file_is_named(cohort: Path, name: str, how: Callable[[Path], None]) -> None:
    how(run_folder(cohort) / name)
    faults = damage(cohort)
    assert faults
    assert any(name.rpartition("/")[2] in fault.what for fault in faults)
    assert all(fault.do for fault in faults)


def test_a_file_that_was_added_is_named(cohort: Path) -> None:
    (run_folder(cohort) / "checkpoints" / "step-000007.safetensors").write_bytes(b"x")
    assert "step-000007" in damage(cohort)[0].what


def test_a_damaged_mark_is_told(cohort: Path) -> None:
    (run_folder(cohort) / DONE_FILE).write_text("{")
    assert len(damage(cohort)) == 1


def test_a_folder_outside_the_plan_is_told(cohort: Path) -> None:
    (cohort / RUNS_FOLDER / "stray").mkdir()
    assert damage(cohort)[0].do == "move it out of the study"


def test_a_log_of_registrations_changed_by_hand_is_told(cohort: Path) -> None:
    for rule in ("ac-nc", "ac-nll"):
        register(cohort, {"rule": rule})
    assert damage(cohort) == []
    log = cohort / LOG
    log.write_text(log.read_text().replace("ac-nc", "ac-ece"))
    (fault,) = damage(cohort)
    assert fault.run == LOG
    assert "line 2" in fault.what
    assert verify(run_folder(cohort)) == []


def test_a_log_of_registrations_that_cannot_be_read_is_told(cohort: Path) -> None:
    (cohort / LOG).mkdir()
    (fault,) = damage(cohort)
    assert (fault.run, "is a folder" in fault.what) == (LOG, True)


def test_a_failed_run_gives_its_reason(cohort: Path) -> None:
    run = cohort / RUNS_FOLDER / "digits-ERM-15-h0-t0"
    attempts_folder(run).mkdir(parents=True)
    write_failure(run, "a" * 32, Failure("r", 1, "here", "ValueError: it broke"))
    assert verify(cohort)[0].what.endswith("ValueError: it broke")


def test_a_folder_that_is_no_cohort_is_refused(tmp_path: Path) -> None:
    with refused("missing: cohort.json"):
        verify(tmp_path)


def test_the_last_step_is_recorded_whatever_the_schedule() -> None:
    assert len(record_steps(5001, 100)) == 51
    assert record_steps(5, 3) == [0, 3, 4]
    assert name_as_file("a/b") != name_as_file("a%2Fb")


def test_held_out_values_that_cannot_be_are_found_although_the_mark_fits(cohort: Path) -> None:
    (run,) = (folder for folder in (cohort / RUNS_FOLDER).iterdir() if folder.is_dir())
    (journal,) = (run / HELDOUT_FOLDER).iterdir()
    journal.write_text(journal.read_text().replace('"nll":', '"nll":-', 1))
    mark_done(run, 12)
    damaged = [fault for fault in verify(cohort) if fault.kind == "damaged"]
    assert [fault.run for fault in damaged] == [run.name]
    assert "nll" in damaged[0].what
