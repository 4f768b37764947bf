"""What trainers wrote is read as their own objects reported it, with the checkpoints they saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.errors import InputError
from checkwise.readers import load_runs
from checkwise.records import Trajectory
from tests.material.trainers.cases import Case, cases

ALL = list(cases())
# Two loaders of Lightning have numbers, not names.
SETS = {"lightning": {"odd": "0", "even": "1"}}


def _saved(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The evaluations that can be chosen: those with a checkpoint; without any, all."""
    saved = [e for e in run["evaluations"] if e["checkpoint"] is not None]
    return saved or run["evaluations"]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.trainer}-{case.name}")
def test_a_log_is_read_as_the_trainer_reported_it(case: Case, tmp_path: Path) -> None:
    root = case.unpack(tmp_path)
    expected = case.expected()
    if not any(run["evaluations"] for run in expected):
        with pytest.raises(InputError, match="validation"):
            load_runs(root)
        return
    runs = [*load_runs(root).values()]
    assert len(runs) == len(expected)
    for run in expected:
        alike = [t for t in runs if len(t) == len(_saved(run))]
        assert any(_agrees(trajectory, run, root, case.trainer) for trajectory in alike)


def _agrees(trajectory: Trajectory, run: dict[str, Any], root: Path, trainer: str) -> bool:
    """Whether a trajectory has the accuracies, losses and checkpoints of the trainer's account."""
    account = _saved(run)
    names = SETS.get(trainer, {})
    for domain in account[0]["scores"]:
        column = trajectory.domains.index(names.get(domain, domain))
        for metric, reported in _scores(account, domain).items():
            if not np.allclose(trajectory.values[metric][:, column], reported, rtol=0, atol=1e-6):
                return False
    paths = [path and os.path.realpath(path) for path in trajectory.paths or ()]
    files = [e["checkpoint"] and os.path.realpath(root / e["checkpoint"]) for e in account]
    return paths == files if any(files) else not any(paths)


def _scores(account: list[dict[str, Any]], domain: str) -> dict[str, list[float]]:
    """What the trainer reported, under our names."""
    scores = [evaluation["scores"][domain] for evaluation in account]
    reported = {"nll": [score["loss"] for score in scores]}
    if "accuracy" in scores[0]:
        reported["accuracy"] = [score["accuracy"] for score in scores]
    elif "error_rate" in scores[0]:
        reported["accuracy"] = [1 - score["error_rate"] for score in scores]
    return reported
