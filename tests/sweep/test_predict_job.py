"""Checkpoints evaluated by an executor's workers give the same files as by processes here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from checkwise.predict import JOBS, FunctionName, PredictResult, Task, Worker, predict
from checkwise.predict.evaluating import remove_leftovers
from checkwise.store import FileState, StoreError, is_whole
from checkwise.study.folder import take
from checkwise.study.sweep import evaluate_with
from checkwise.study.sweep import predicting as predict_job
from checkwise.study.sweep.executors import LocalExecutor
from checkwise.study.sweep.predicting import OUTPUTS, TASKS, PredictJob, work
from tests.cli.predict_functions import checkpoints
from tests.cli.test_predict import outputs_in


def predicted(folder: Path, out: Path, *, workers: int = 0) -> PredictResult:
    """With an executor's workers, or without any."""
    elsewhere = evaluate_with(LocalExecutor(), workers) if workers else None
    function = f"{folder.parent / 'plain.py'}:outputs"
    return predict(folder, function, ["a", "b"], out, elsewhere=elsewhere)


def test_workers_of_an_executor_write_the_same_files(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {step: float(step) for step in range(1, 6)})
    result = predicted(folder, tmp_path / "out", workers=2)
    assert (result.written, result.missing, result.failures) == (10, 0, ())
    predicted(folder, tmp_path / "here")
    assert outputs_in(tmp_path / "out") == outputs_in(tmp_path / "here")
    assert not (tmp_path / "out" / JOBS).exists()


def test_a_checkpoint_that_fails_is_reported_and_the_others_are_evaluated(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {1: 1.0, 2: -1.0, 3: 3.0})
    result = predicted(folder, tmp_path / "out", workers=1)
    (failure,) = result.failures
    assert (failure.step, failure.domain, result.written, result.missing) == (2, "a", 4, 2)
    assert "RuntimeError: cannot load this one" in str(failure.error)
    (folder / "model_2.pt").write_text("2")
    assert predicted(folder, tmp_path / "out").written == 2


@pytest.fixture
def job(tmp_path: Path) -> PredictJob:
    """A session with two checkpoints, as a launcher leaves it that was killed."""
    folder = checkpoints(tmp_path / "run", {1: 1.0, 2: 2.0})
    session = tmp_path / "out" / JOBS / "session"
    (session / OUTPUTS).mkdir(parents=True)
    tasks = [
        Task(
            step, folder / f"model_{step}.pt", FileState.of(folder / f"model_{step}.pt"), ("a", "b")
        )
        for step in (1, 2)
    ]
    (session / TASKS).write_text(
        json.dumps([{**vars(task), "path": str(task.path)} for task in tasks])
    )
    name = FunctionName(str(tmp_path / "plain.py"), "outputs")
    with (tmp_path / "lock").open("w") as lock:
        worker = Worker(name, lock=lock.fileno())
        worker.load()
        worker.close()
    return PredictJob(str(session.parent), "session", name.source, "outputs", worker.sha256 or "")


def test_a_checkpoint_that_another_worker_holds_is_left_to_it(job: PredictJob) -> None:
    out = Path(job.cohort).parent
    lease = take(Path(job.cohort) / "session" / "step-000001")
    assert lease is not None
    with lease:
        calls = iter(range(100))
        work(job, stop=lambda: next(calls) > 3)
        assert [*outputs_in(out)] == ["step-000002/a.npz", "step-000002/b.npz"]
    work(job)
    assert len(outputs_in(out)) == 4


def test_a_worker_that_outlives_its_command_adds_nothing(
    job: PredictJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(job.cohort).parent

    def removed_meanwhile(file: Path) -> bool:
        whole = is_whole(file)
        if whole and file.is_relative_to(job.cohort):
            remove_leftovers(out)  # what another command does first
        return whole

    monkeypatch.setattr("checkwise.study.sweep.predicting.is_whole", removed_meanwhile)
    with pytest.raises(StoreError):
        work(job)
    assert outputs_in(out) == {}
    assert not (out / JOBS / "session" / OUTPUTS).exists()
    shutil.rmtree(out)


def test_outputs_on_other_examples_are_removed_and_reported(tmp_path: Path) -> None:
    folder = checkpoints(tmp_path / "run", {1: 1.0, 2: 2.0})
    predicted(folder, tmp_path / "out")
    (tmp_path / "plain.py").write_text(
        (tmp_path / "plain.py").read_text().replace("default_rng(0)", "default_rng(1)")
    )
    predicted(folder, tmp_path / "other")
    odd = "step-000002/b.npz"
    shutil.copyfile(tmp_path / "other" / odd, tmp_path / "out" / odd)
    task = Task(2, folder / "model_2.pt", FileState.of(folder / "model_2.pt"), ("a", "b"))
    (failure,) = predict_job._unlike(tmp_path / "out", [task])
    assert (failure.step, failure.domain) == (2, "b")
    assert "The labels of domain 'b' at step 2 differ from those at step 1" in str(failure.error)
    assert not (tmp_path / "out" / odd).exists()
