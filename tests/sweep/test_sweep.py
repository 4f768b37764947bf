"""Sweeps: each run once, whatever is started, killed or repeated."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkwise.store import StoreError, attempts_folder, finished
from checkwise.study.folder import open_cohort, read_failures, verify
from checkwise.study.sweep import Job, all_roots, make_cohort, read_roots, read_study, work
from checkwise.study.sweep import worker as one_run
from checkwise.study.sweep.worker import Worked
from checkwise.study.train import train_run
from tests.commands import call
from tests.refusals import refused
from tests.runs import contents
from tests.sweep.studies import ENVIRONMENT, all_contents, planned, write_tiny

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("unbroken")
    cohort = planned(write_tiny(folder), folder / "cohort")
    work(Job(str(cohort), "a"))
    return all_contents(cohort)


def test_a_sweep_killed_with_its_workers_is_finished_by_the_next(
    tmp_path: Path, unbroken: dict[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = write_tiny(tmp_path), tmp_path / "out"
    words = ["study", "run", str(study), "--out", str(out)]
    words += ["--workers", "2", "--set", "resume_seconds=0"]
    sweep = subprocess.Popen(
        [sys.executable, "-c", "from checkwise.cli import main; main()", *words],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    while not list(out.glob("attempts/*/*/source.jsonl")):
        assert sweep.poll() is None
        time.sleep(0.02)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    code, printed, _ = call(capsys, *words)
    assert (code, printed) == (0, f"4 of 4 runs finished in {out}.\n")
    assert all_contents(out) == unbroken
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert call(capsys, *words)[0] == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert verify(out) == []


def test_a_run_that_is_asked_to_stop_goes_on_where_it_stopped(tmp_path: Path) -> None:
    longer = (("steps = 5", "steps = 400"), ("record_every = 2", "record_every = 20"))
    alone = (('"ERM", "VREx"', '"ERM"'), ('"0", "75"', '"75"'))
    study = write_tiny(tmp_path, *longer, *alone)
    make_cohort(read_study(study), tmp_path / "unbroken", {})
    work(Job(str(tmp_path / "unbroken"), "a"))
    words = ["study", "run", study, "--workers", 1]
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "checkwise", *map(str, words), "--out", str(out)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not list(out.glob("attempts/*/*/source.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed = process.communicate()[0].decode()
    assert process.returncode == 128 + signal.SIGINT
    assert "0 of 1 runs finished" in printed
    assert list(out.glob("attempts/*/*/resume/*")), "no state was saved"
    work(Job(str(out), "a"))
    assert all_contents(out) == all_contents(tmp_path / "unbroken")


def test_a_failed_run_does_not_stop_the_rest_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = planned(write_tiny(tmp_path), tmp_path / "cohort")
    tried: list[str] = []

    def breaking(folder: Path, *args: object, **options: object) -> object:
        tried.append(folder.parent.name)
        if "ERM-75" in folder.parent.name:
            print("about to break")
            raise ValueError("it broke")
        return train_run(folder, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(one_run, "train_run", breaking)
    assert work(Job(str(cohort), "first")) == Worked(trained=3, failed=1)
    bad = cohort / "runs" / "RotatedMNIST-ERM-75-h0-t0"
    assert [tried.count(name) for name in sorted(set(tried))] == [1, 3, 1, 1]
    assert tried.count(bad.name) == 3  # once, and two retries
    assert work(Job(str(cohort), "first")) == Worked(trained=0, failed=1)
    assert len(tried) == 6, "another worker of the same round tries it again"
    assert [finished(folder) for folder in open_cohort(cohort).runs.values()].count(True) == 3
    failures = read_failures(bad)
    assert [failure.number for failure in failures] == [1, 2, 3]
    assert {failure.reason for failure in failures} == {"ValueError: it broke"}
    for failure in failures:
        log = (attempts_folder(bad) / failure.log).read_text()
        assert log.startswith("about to break\nTraceback")
        assert log.endswith("ValueError: it broke\n")
    code, printed, _ = call(capsys, "study", "status", cohort, "--json")
    assert code == 0
    assert json.loads(printed)["counts"] == {"finished": 3, "failed": 1}
    code, printed, _ = call(capsys, "study", "status", cohort, "--verify")
    assert code == 1
    assert "it broke" in printed
    monkeypatch.undo()
    work(Job(str(cohort), "second"))
    assert len(read_failures(bad)) == 3, "the reasons are kept"
    assert verify(cohort) == []
    code, printed, _ = call(capsys, "study", "status", cohort, "--json")
    assert json.loads(printed)["counts"] == {"finished": 4}


def test_a_full_disk_ends_the_worker_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = planned(write_tiny(tmp_path), tmp_path / "cohort")

    def full(folder: Path, *args: object, **options: object) -> object:
        raise StoreError("no space left")

    monkeypatch.setattr(one_run, "train_run", full)
    with refused("system"):
        work(Job(str(cohort), "a"))
    assert not list(cohort.rglob("*.failed"))


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    cohort = planned(write_tiny(tmp_path), tmp_path / "cohort")
    other = read_study(write_tiny(tmp_path, ("steps = 5", "steps = 7")))
    with refused("differs: steps … --out"):
        make_cohort(other, cohort, {})


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    study = read_study(write_tiny(tmp_path))
    with refused("exists"):
        make_cohort(study, tmp_path, {})


def test_the_plan_is_shown_without_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = call(capsys, "study", "run", write_tiny(tmp_path), "--dry-run")
    assert code == 0
    assert "4 runs of 5 updates" in printed
    assert "GB of disk" in printed
    code, printed, _ = call(capsys, "study", "run", "pacs-frozen", "--dry-run")
    assert "180 runs" in printed
    assert "No estimate" in printed
    assert "--data PACS=PATH" in printed


def test_one_run_can_be_trained_alone(
    tmp_path: Path, unbroken: dict[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--algorithm", "VREx", "--held-out", "75", "--hparams-seed", 0, "--trial-seed", 0]
    out = tmp_path / "one"
    code, printed, _ = call(capsys, "study", "run", write_tiny(tmp_path), *words, "--out", out)
    assert (code, printed) == (0, f"1 of 1 runs finished in {out}.\n")
    (run,) = (out / "runs").iterdir()
    assert contents(run) == unbroken["RotatedMNIST-VREx-75-h0-t0"]
    code, printed, _ = call(capsys, "select", run, "--json")
    (chosen,) = json.loads(printed)["runs"]
    assert chosen["selection"]["step"] in (0, 2, 4)


def test_data_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = read_study("pacs-frozen")
    assert all_roots(study, read_roots(["PACS=/data/x"])) == {"PACS": "/data/x"}
    with refused("unknown: --data … PACS … 'Pacs'"):
        all_roots(study, {"Pacs": "/data"})
    with refused("missing: --data … PACS=PATH"):
        all_roots(study, {})
    monkeypatch.setenv("CHECKWISE_DATA", str(tmp_path))
    assert all_roots(study, {}) == {"PACS": str(tmp_path / "PACS")}
    with refused("value: NAME=PATH"):
        read_roots(["PACS"])
