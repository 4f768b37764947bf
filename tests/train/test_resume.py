"""Kill a run at any instant, start it again: the same bytes as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import checkwise as cw
from checkwise.study.train.algorithms import Forward, unregister
from tests.runs import config, contents, train

ROOT = Path(__file__).resolve().parents[2]
STRIDE = 7


def stopping(updates: int) -> Callable[[], bool]:
    """Ask to stop after so many updates."""
    calls = iter(range(1, 100))
    return lambda: next(calls) == updates


def test_a_kill_before_any_operation_on_files_leaves_no_trace(tmp_path: Path) -> None:
    train(tmp_path / "unbroken", config("GroupDRO"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.killed_run", tmp_path, "GroupDRO", str(STRIDE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 70 // STRIDE
    expected = contents(tmp_path / "unbroken")
    for folder in tmp_path.glob("at-*"):
        assert contents(folder) == expected, folder.name
        assert not (folder / "resume").exists()


class Noisy(cw.study.train.Algorithm):
    """Draws in every update, as dropout does."""

    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        logits = forward.logits + torch.randn(forward.logits.shape)
        loss = torch.nn.functional.cross_entropy(logits, forward.labels)
        return loss, {"loss": loss}


@pytest.mark.parametrize(
    ("algorithm", "stop_after"), [("CORAL", 1), ("VREx", 2), ("Noisy", 4), ("IRM", 8), ("ERM", 12)]
)
def test_a_run_asked_to_stop_continues_in_the_middle_of_a_record(
    tmp_path: Path, algorithm: str, stop_after: int
) -> None:
    cw.study.train.algorithm("Noisy")(Noisy)
    try:
        train(tmp_path / "unbroken", config(algorithm))
        asked = config(algorithm)
        assert train(tmp_path / "run", asked, stop=stopping(stop_after)) == "stopped"
        torch.manual_seed(99)  # another process
        assert train(tmp_path / "run", asked) == "finished"
    finally:
        unregister("Noisy")
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


def test_deleted_weights_are_the_same_after_a_restart(tmp_path: Path) -> None:
    asked = config(keep="feasible", steps=31, record_every=2)
    train(tmp_path / "unbroken", asked)
    train(tmp_path / "run", asked, stop=stopping(17))
    train(tmp_path / "run", asked)
    assert contents(tmp_path / "run") == contents(tmp_path / "unbroken")


def test_a_finished_run_is_not_touched(tmp_path: Path) -> None:
    train(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert train(tmp_path / "run") == "finished"
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert after == before
