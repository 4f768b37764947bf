"""What trainers wrote is read as their own objects reported it, with the checkpoints they saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.readers import load_runs
from checkwise.records import Trajectory
from tests.material.trainers.cases import Case, cases

ALL = list(cases())
# Two loaders of Lightning have numbers, not names.
SETS = {"lightning": {"odd": "0", "even": "1"}}


def _of_log(runs: dict[Any, Trajectory], run: dict[str, Any], root: Path) -> list[Trajectory]:
    """The trajectories that a run of the account could be: equally many evaluations."""
    saved = [e for e in run["evaluations"] if e["checkpoint"] is not None]
    wanted = len(saved) or len(run["evaluations"])
    return [trajectory for trajectory in runs.values() if len(trajectory) == wanted]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.trainer}-{case.name}")
def test_a_log_is_read_as_the_trainer_reported_it(case: Case, tmp_path: Path) -> None:
    root = case.unpack(tmp_path)
    runs = load_runs(root)
    expected = case.expected()
    assert len(runs) == len(expected)
    for run in expected:
        assert any(_agrees(t, run, root, case.trainer) for t in _of_log(runs, run, root)), (
            f"no trajectory of {list(runs)} is the run of {run['log']}"
        )


def _agrees(trajectory: Trajectory, run: dict[str, Any], root: Path, trainer: str) -> bool:
    """Whether a trajectory has the accuracies, losses and checkpoints of the trainer's account."""
    saved = [e for e in run["evaluations"] if e["checkpoint"] is not None]
    account = saved or run["evaluations"]
    names = SETS.get(trainer, {})
    for domain in account[0]["scores"]:
        column = trajectory.domains.index(names.get(domain, domain))
        for metric, name in (("accuracy", "accuracy"), ("nll", "loss")):
            reported = [evaluation["scores"][domain].get(name) for evaluation in account]
            if reported[0] is None:
                assert metric not in trajectory.values
                continue
            read = trajectory.values[metric][:, column]
            if not np.allclose(read, reported, rtol=0, atol=1e-6):
                return False
    paths = [None if path is None else os.path.realpath(path) for path in trajectory.paths or ()]
    wanted = [os.path.realpath(root / evaluation["checkpoint"]) for evaluation in saved]
    return paths == wanted
