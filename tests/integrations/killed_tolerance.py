"""A live selection under a tolerance that compares examples, killed at every write in turn.

Started by ``test_live_killed`` in a process of its own: ``python -m
tests.integrations.killed_tolerance FOLDER``. For the first, second, … operation on
files a training is killed there and resumed; what it ends with has to be what a training ends with
that nobody killed. It prints at how many operations that was tried.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from tests.integrations.killed_live import FILES, OPERATIONS, save
from tests.killing import die_at, in_child, was_killed

STEPS = 6
JOURNAL = "checkwise.jsonl"
SETTINGS: dict[str, Any] = {"rule": "ac-nc", "delta_pp": 2, "tolerance": "paired", "alpha": 0.3}


def outputs(step: int) -> dict[str, Any]:
    """Worse and better checkpoints in turn, so that some are left out and deleted; in groups."""
    rng = np.random.default_rng(5)
    labels, groups = np.arange(60) % 3, np.arange(60) // 2
    noise = rng.normal(size=(60, 3)) + 0.2 * np.random.default_rng(step).normal(size=(60, 3))
    gain = (0.4, 3.0, 1.5, 3.1)[step % 4]
    return {"val": (gain * np.eye(3)[labels] + noise, labels, groups)}


def train(folder: Path) -> None:
    """Continue after the last checkpoint."""
    with cw.LiveSelector(journal=folder / JOURNAL, **SETTINGS) as live:
        live.prune()
        for step in range(max(live.checkpoints, default=-1) + 1, STEPS):
            live.add(step, outputs(step))
            live.saved(step, save(folder, step))
            live.prune()


def in_a_fork(folder: Path, number: int = 0) -> bool:
    """Train in a process that dies before an operation of that number; whether it died."""

    def work() -> None:
        if number:
            die_at(number, OPERATIONS)
        train(folder)

    return was_killed(in_child(work))


def ended_with(folder: Path) -> dict[str, Any]:
    """What a finished training leaves: the choice, what it was chosen from, and its weights."""
    live = cw.LiveSelector(journal=folder / JOURNAL, read_only=True, **SETTINGS)
    assert live.selection is not None
    examples = live.selection.trajectory.examples
    assert examples is not None
    kept = {
        path.name: [(path / name).read_text() for name in FILES]
        for path in sorted(folder.glob("checkpoint-*"))
    }
    return {
        "choice": live.choice,
        "feasible": live.selection.feasible_steps,
        "keep": live.keep,
        "droppable": live.droppable,
        "examples": examples.digest,
        "groups": examples.groups is not None,
        "afterwards": cw.select(cw.load(folder / JOURNAL)).step,
        "weights": kept,
    }


def main(folder: Path) -> None:
    whole = folder / "whole"
    whole.mkdir(parents=True)
    train(whole)
    expected = ended_with(whole)
    run = cw.Trajectory.from_predictions({step: outputs(step) for step in range(STEPS)})
    offline = cw.select(run, **SETTINGS)
    assert expected["choice"] == expected["afterwards"] == offline.step
    assert expected["feasible"] == offline.feasible_steps
    assert expected["groups"]
    assert expected["droppable"]
    tried, number = 0, 1
    while True:
        place = folder / "killed"
        place.mkdir()
        died = in_a_fork(place, number)
        if not died:  # there are no more operations
            break
        assert not in_a_fork(place)
        found = ended_with(place)
        assert found == expected, (number, found, expected)
        shutil.rmtree(place)
        tried, number = tried + 1, number + 1
    print(tried)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
