"""Kill a run at any instant, start it again: the same bytes as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import checkwise as cw
from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.study.train.algorithms import Forward, unregister
from tests.runs import config, contents, train

ROOT = Path(__file__).resolve().parents[2]


def kill_and_restart(mode: str, folder: Path, algorithm: str, number: int) -> int:
    """How often the run in ``folder`` was killed before it finished."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.killed_run", mode, folder, algorithm, str(number)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("algorithm", "stride"), [("ERM", 5), ("GroupDRO", 17)])
def test_a_kill_before_any_operation_on_files_leaves_no_trace(
    tmp_path: Path, algorithm: str, stride: int
) -> None:
    train(tmp_path / "unbroken", config(algorithm))
    kills = kill_and_restart("operations", tmp_path, algorithm, stride)
    assert kills >= 70 // stride
    expected = contents(tmp_path / "unbroken")
    for folder in tmp_path.glob("at-*"):
        assert contents(folder) == expected, folder.name
        assert not (folder / "resume").exists()


def test_a_run_killed_many_times_by_the_clock_ends_with_the_same_bytes(tmp_path: Path) -> None:
    train(tmp_path / "unbroken", config("IRM"))
    kills = kill_and_restart("clock", tmp_path, "IRM", 3)
    assert kills >= 2
    assert contents(tmp_path / "clock") == contents(tmp_path / "unbroken")


@pytest.mark.parametrize("stop_after", [1, 2, 4, 8, 12])
@pytest.mark.parametrize("algorithm", ["CORAL", "VREx"])
def test_a_run_asked_to_stop_continues_in_the_middle_of_a_record(
    tmp_path: Path, algorithm: str, stop_after: int
) -> None:
    train(tmp_path / "unbroken", config(algorithm))
    asked = iter(range(1, 100))
    outcome = train(tmp_path / "run", config(algorithm), stop=lambda: next(asked) == stop_after)
    assert outcome == "stopped"
    assert train(tmp_path / "run", config(algorithm)) == "finished"
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


class Noisy(cw.study.train.Algorithm):
    """Draws in every update, as dropout does."""

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        logits = forward.logits + torch.randn(forward.logits.shape)
        loss = torch.nn.functional.cross_entropy(logits, forward.labels)
        return loss, {"loss": loss}


@pytest.mark.parametrize("stop_after", [2, 4])
def test_an_algorithm_that_draws_continues_with_its_own_draws(
    tmp_path: Path, stop_after: int
) -> None:
    cw.study.train.algorithm("Noisy")(Noisy)
    try:
        train(tmp_path / "unbroken", config("Noisy"))
        asked = iter(range(1, 100))
        train(tmp_path / "run", config("Noisy"), stop=lambda: next(asked) == stop_after)
        torch.manual_seed(99)  # another process
        assert train(tmp_path / "run", config("Noisy")) == "finished"
    finally:
        unregister("Noisy")
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


def test_deleted_weights_are_the_same_after_a_restart(tmp_path: Path) -> None:
    asked = config(keep="feasible", steps=31, record_every=2)
    train(tmp_path / "unbroken", asked)
    calls = iter(range(1, 100))
    train(tmp_path / "run", asked, stop=lambda: next(calls) == 17)
    train(tmp_path / "run", asked)
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


def stopped(folder: Path) -> Path:
    calls = iter(range(1, 100))
    train(folder, stop=lambda: next(calls) == 5)
    return folder


def test_another_configuration_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run")
    other = config(steps=20, fingerprint="other")
    with pytest.raises(InputError, match=r"data\.fingerprint \(was .*steps \(was 13, now 20\)"):
        train(folder, other)


def test_changed_data_are_refused_by_name(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run")
    with pytest.raises(InputError, match="the data changed"):
        train(folder, config(fingerprint="f" * 64))


def test_a_damaged_state_says_what_to_remove(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run")
    state = folder / layout.RESUME_FILE
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(InputError, match="remove that file"):
        train(folder)


def test_a_state_of_another_schema_is_refused(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run")
    state = torch.load(folder / layout.RESUME_FILE, weights_only=True)
    torch.save({**state, "schema": 99}, folder / layout.RESUME_FILE)
    with pytest.raises(InputError, match=r"Expected schema 1, but got 99.*update checkwise"):
        train(folder)


def test_a_shortened_journal_is_refused(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "run")
    (folder / layout.SOURCE_FILE).write_bytes(b"")
    with pytest.raises(InputError, match="the journal was shortened"):
        train(folder)


def test_a_finished_run_is_not_touched(tmp_path: Path) -> None:
    train(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert train(tmp_path / "run") == "finished"
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert after == before
