"""``study run --plan-only`` and ``study work``: workers that anything may start, kill or stop."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkwise.store import (
    RESUME_FILE,
    RUN_FILE,
    SOURCE_FILE,
    attempts_folder,
    finished,
    latest_attempt,
)
from checkwise.study.folder import attempts_at, open_cohort, read_failures, take, verify
from checkwise.study.sweep import Job, noted_round, work
from checkwise.study.sweep.worker import Worked
from checkwise.study.train.algorithms import unregister
from tests.commands import call
from tests.sweep.studies import ENVIRONMENT, all_contents, planned, write_features, write_tiny

LONGER = (("steps = 5", "steps = 60"), ("record_every = 2", "record_every = 3"))
KEPT = ("[hparams]", '[records]\nkeep = "all"\nlogits = "source"\n\n[hparams]')


def start(cohort: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "checkwise", "study", "work", str(cohort), *words]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE)


def await_records(cohort: Path, number: int) -> None:
    end = time.monotonic() + 500
    while number > sum(
        journal.read_bytes().count(b"\n")
        for journal in cohort.glob("attempts/*/*/source.jsonl")
        if journal.exists()
    ):
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def asking_this_process(cohort: Path, number: signal.Signals) -> Iterator[None]:
    """Send the signal from a thread, when training has begun, so that it is handled."""
    default = signal.signal(number, signal.SIG_IGN)

    def ask() -> None:
        await_records(cohort, 2)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal.signal(number, default)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("study"), *LONGER, KEPT)


@pytest.fixture(scope="module")
def unbroken(study: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What one worker leaves that nothing disturbs."""
    out = planned(study, tmp_path_factory.mktemp("unbroken") / "cohort")
    work(Job(str(out), "a"))
    return all_contents(out)


def test_a_planned_study_is_trained_by_a_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = write_tiny(tmp_path), tmp_path / "out"
    code, printed, _ = call(capsys, "study", "run", study, "--plan-only", "--out", out)
    assert (code, printed) == (
        0,
        f"4 runs planned in {out}. Start workers with: checkwise study work {out}\n",
    )
    assert not list((out / "runs").iterdir())
    code, printed, _ = call(capsys, "study", "work", out)
    assert (code, printed) == (0, f"4 runs finished by this worker in {out}.\n")
    assert verify(out) == []
    assert not list((out / "attempts").iterdir()), "finished runs leave attempts"
    code, printed, _ = call(capsys, "study", "work", out, "--wait")
    assert (code, printed) == (0, f"0 runs finished by this worker in {out}.\n")


def test_planning_again_lets_failed_runs_be_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = write_tiny(tmp_path), tmp_path / "out"
    assert call(capsys, "study", "run", study, "--plan-only", "--out", out)[0] == 0
    first = noted_round(out)[0]
    bad = next(iter(open_cohort(out).runs.values()))
    (out / "runs" / bad.name).mkdir()
    (out / "runs" / bad.name / RUN_FILE).write_text("{}")  # no run's configuration
    (out / "runs" / bad.name / RESUME_FILE).parent.mkdir()
    (out / "runs" / bad.name / RESUME_FILE).write_text("no state")
    code, printed, _ = call(capsys, "study", "work", out, "--set", "retries=1")
    assert code == 1
    assert "1 run failed 2 times and will not be tried again" in printed
    assert len(read_failures(bad)) == 2
    code, printed, _ = call(capsys, "study", "work", out, "--set", "retries=1")
    assert (code, len(read_failures(bad))) == (1, 2)
    moved = attempts_at(attempts_folder(bad))[0]
    reason = read_failures(bad)[0].reason
    assert str(moved) in reason, "the message names a folder that is not there"
    (moved / RESUME_FILE).unlink()
    assert call(capsys, "study", "run", study, "--plan-only", "--out", out)[0] == 0
    assert noted_round(out)[0] != first
    assert call(capsys, "study", "work", out)[0] == 0
    assert verify(out) == []


def test_places_of_data_are_those_that_the_plan_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_features(tmp_path / "zoo.npz")
    study = write_tiny(
        tmp_path,
        ('dataset = "RotatedMNIST"', 'dataset = "Features"\nname = "Zoo"'),
        ('kind = "digits"', 'kind = "linear"'),
        ('["0", "75"]', '["Art"]'),
    )
    monkeypatch.delenv("CHECKWISE_DATA", raising=False)
    words = ("study", "run", study, "--plan-only", "--out", tmp_path / "out")
    assert call(capsys, *words, "--data", f"Zoo={file}")[0] == 0
    assert call(capsys, "study", "work", tmp_path / "out")[0] == 0
    moved = file.rename(tmp_path / "moved.npz")
    assert call(capsys, "study", "work", tmp_path / "out")[0] == 2
    assert call(capsys, "study", "work", tmp_path / "out", "--data", f"Zoo={moved}")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_worker_that_is_asked_to_stop_saves_and_gives_its_run_back(
    number: signal.Signals, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own once, else in this one: starting it takes seconds."""
    cohort = planned(study, tmp_path / "cohort")
    if number == signal.SIGTERM:
        process = start(cohort)
        await_records(cohort, 2)
        process.send_signal(number)
        printed = process.communicate()[0].decode()
        code = process.returncode
    else:
        with asking_this_process(cohort, number):
            code, printed, _ = call(capsys, "study", "work", cohort)
    assert code == 128 + number
    assert f"Stopped by {number.name}" in printed
    assert not list(cohort.glob("attempts/*/lease"))
    begun = [run for run in open_cohort(cohort).runs.values() if attempts_folder(run).is_dir()]
    (run,) = [run for run in begun if not finished(run)]
    assert (latest_attempt(run) / RESUME_FILE).is_file()


@pytest.fixture
def unregistered() -> Iterator[None]:
    """What a plugin registers in this process is gone after the test."""
    yield
    unregister("Deadly")


@pytest.mark.usefixtures("unregistered")
def test_a_run_that_kills_its_workers_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        "import os, signal\nimport checkwise as cw\n\n"
        "@cw.study.train.algorithm('Deadly')\n"
        "class Deadly(cw.study.train.Algorithm):\n"
        "    def objective(self, forward):\n"
        "        print('the last words', flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    study = write_tiny(tmp_path, ('"VREx"', '"Deadly"'), ('["0", "75"]', '["0"]'))
    words = ("--plugin", plugin, "--set", "retries=1", "--workers", "1")
    code, printed, _ = call(capsys, "study", "run", study, "--out", tmp_path / "out", *words)
    assert code == 1
    assert "1 of 2 runs finished" in printed
    assert "ended or fell silent without a word" in " ".join(printed.split())
    (bad,) = [run for run in open_cohort(tmp_path / "out").runs.values() if "Deadly" in run.name]
    failures = read_failures(bad)
    assert [failure.lost for failure in failures] == [True, False]
    assert (attempts_folder(bad) / failures[0].log).read_text() == "the last words\n"


def test_an_unfinished_run_of_an_older_version_is_continued(
    study: Path, unbroken: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    cohort = planned(study, tmp_path / "cohort")
    calls = iter(range(1, 1000))
    work(Job(str(cohort), "a", wait=False), stop=lambda: next(calls) > 20)
    (attempt,) = cohort.glob("attempts/*/*/")
    run = cohort / "runs" / attempt.parent.name
    attempt.rename(run)  # where older versions trained
    saved = (run / SOURCE_FILE).read_bytes()
    assert saved
    assert work(Job(str(cohort), "b")) == Worked(trained=4, failed=0)
    assert all_contents(cohort) == unbroken


def test_a_worker_first_continues_what_was_interrupted(study: Path, tmp_path: Path) -> None:
    cohort = planned(study, tmp_path / "cohort")

    def work_a_little() -> list[str]:
        calls = iter(range(1, 1000))
        work(Job(str(cohort), "a", wait=False), stop=lambda: next(calls) > 20)
        return [folder.name for folder in (cohort / "attempts").iterdir()]

    begun = work_a_little()
    assert len(begun) == 1
    assert work_a_little() == begun


def test_commands_read_the_furthest_attempt_of_a_run_that_is_not_finished(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cohort = planned(study, tmp_path / "cohort")
    calls = iter(range(1, 1000))
    work(Job(str(cohort), "a", wait=False), stop=lambda: next(calls) > 20)
    (attempt,) = cohort.glob("attempts/*/*/")
    run = cohort / "runs" / attempt.parent.name
    records = (attempt / SOURCE_FILE).read_bytes().count(b"\n")
    code, printed, _ = call(capsys, "select", cohort, "--json")
    assert code == 0
    assert "the run is not finished" in printed
    assert call(capsys, "select", run, "--json")[0] == 0
    assert call(capsys, "select", run, "--page", tmp_path / "run.html")[0] == 0
    code, printed, _ = call(capsys, "study", "status", cohort, "--json")
    assert json.loads(printed)["counts"] == {"interrupted": 1, "waiting": 3}
    assert f'"records": {records}' in printed
    (fault,) = [fault for fault in verify(cohort) if fault.run == run.name]
    assert fault.what == f"the run is not finished ({records} records)"
    work(Job(str(cohort), "a"))
    assert len(json.loads(call(capsys, "select", cohort, "--json")[1])["runs"]) == 4


def test_a_run_that_another_worker_holds_is_left_alone(study: Path, tmp_path: Path) -> None:
    cohort = planned(study, tmp_path / "cohort")
    held = next(iter(open_cohort(cohort).runs.values()))
    lease = take(attempts_folder(held))
    assert lease is not None
    with lease:
        assert work(Job(str(cohort), "a", wait=False)) == Worked(trained=3, failed=0)
    assert work(Job(str(cohort), "a", wait=False)) == Worked(trained=1, failed=0)


def test_two_workers_are_killed_and_one_is_stopped_for_long(
    study: Path, unbroken: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    for attempt in range(10):  # on a busy machine one worker may train all before others begin
        cohort = planned(study, tmp_path / f"cohort{attempt}")
        with four_workers(cohort) as processes:
            victims = holders(cohort, 3)
            if victims:
                lose_two_and_stop_one(cohort, processes, victims, unbroken)
                return
    raise AssertionError("three workers never trained at once")


@contextmanager
def four_workers(cohort: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    options = ("--wait", "--set", "takeover=2", "--set", "resume_seconds=0", "--set", "retries=20")
    processes = [start(cohort, *options) for _ in range(4)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def lose_two_and_stop_one(
    cohort: Path,
    processes: list[subprocess.Popen[bytes]],
    victims: list[int],
    unbroken: dict[str, dict[str, bytes]],
) -> None:
    """Kill two workers that train, stop a third past the takeover, and let it go on afterwards."""
    by_pid = {process.pid: process for process in processes}
    stopped = by_pid[victims.pop(random.randrange(3))]
    stopped.send_signal(signal.SIGSTOP)
    for pid in victims:
        by_pid[pid].kill()
    rest = [
        process for process in processes if process is not stopped and process.pid not in victims
    ]
    for process in rest:
        process.wait(500)
        assert process.returncode == 0
    assert all_contents(cohort) == unbroken, "the run of the stopped worker was not taken over"
    before = {p: p.stat().st_mtime_ns for p in (cohort / "runs").rglob("*")}
    stopped.send_signal(signal.SIGCONT)
    stopped.wait(500)
    assert stopped.returncode == 0
    assert all_contents(cohort) == unbroken
    assert before == {p: p.stat().st_mtime_ns for p in (cohort / "runs").rglob("*")}
    assert verify(cohort) == []


def holders(cohort: Path, number: int) -> list[int]:
    """The processes that hold runs, once enough have begun to record; none if all runs ended."""
    end = time.monotonic() + 500
    while time.monotonic() < end:
        pids = set()
        for lease in cohort.glob("attempts/*/lease"):
            if list(lease.parent.glob("*/source.jsonl")):
                with lease.open() as file:
                    text = file.read()
                if text:
                    pids.add(json.loads(text)["pid"])
        if len(pids) >= number:
            return sorted(pids)[:number]
        if all(map(finished, open_cohort(cohort).runs.values())):
            return []
        time.sleep(0.01)
    raise AssertionError("too few workers began")
