"""Trains, is killed at random instants and resumes, until a training ends by itself.

``python -m tests.integrations.transformers_kills FOLDER SEED KILLS`` does so with one evaluation
set, and with two.

Children are forked, so that what takes seconds to import is imported once. After every kill the
chosen checkpoint has to be there and loadable.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import checkwise as cw
from checkwise.integrations.transformers import ReliabilityCallback
from checkwise.integrations.transformers.checkpoints import whole_checkpoints
from tests.integrations.transformers_runs import (
    arguments,
    known_script,
    saved_step,
    scripted_trainer,
    steps_on_disk,
)
from tests.killing import has_ended, in_child, was_killed

SETS = {"one": None, "two": {"art": slice(0, 17), "photo": slice(17, 41)}}
# With a metric of its own the Trainer names another best, and the callback writes its state anew.
PLAIN = {"metric_for_best_model": "accuracy", "greater_is_better": True, "save_total_limit": 2}
DELTA_PP = 4


def train(folder: Path) -> None:
    """Train from the newest checkpoint, if there is one, and say what was chosen."""
    callback = ReliabilityCallback(delta_pp=DELTA_PP, calibrator="ts-soften")
    table, labels = known_script()
    trainer = scripted_trainer(
        arguments(folder, steps=20, every=1, **(PLAIN if folder.name == "one" else {})),
        table,
        labels,
        callback,
        every=1,
        sets=SETS[folder.name],
    )
    trainer.train(resume_from_checkpoint=bool(steps_on_disk(folder)) or None)
    facts = {
        "choice": callback.choice,
        "loaded": trainer.model.step.item(),
        "steps": callback.live.steps,
        "feasible": callback.selection.feasible_steps if callback.selection else (),
        "best": trainer.state.best_model_checkpoint,
    }
    (folder / "ending.json").write_text(json.dumps(facts))
    (folder / "ending.json").replace(folder / "ended.json")


def check(folder: Path) -> None:
    """What a training that resumes now would choose is there, whole and right."""
    whole = whole_checkpoints(folder)
    journal = folder / "checkwise.jsonl"
    if not whole:
        return
    live = cw.LiveSelector(delta_pp=DELTA_PP, journal=journal, read_only=True)
    live.resume(max(whole))
    assert live.choice is not None
    assert saved_step(whole[live.choice]) == live.choice
    assert set(live.keep) <= set(whole)
    assert len(whole) <= len(live.keep) + 2, (sorted(whole), live.keep)


def wait_for_progress(child: int, journal: Path, before: int) -> None:
    """Until a child has recorded something, so that a kill strikes between two steps or in one."""
    while not has_ended(child) and (not journal.exists() or journal.stat().st_size <= before):
        time.sleep(0.001)


def main(folder: Path, seed: int, kills: int) -> None:
    """Fork, kill, check, and again; the last child is left to end."""
    rng = np.random.default_rng(seed)
    cw.metrics.evaluate(
        logits=3 * np.eye(3, dtype=np.float32), labels=np.arange(3)
    )  # compiled once
    folder.mkdir()
    done = 0
    while not (folder / "ended.json").exists():
        journal = folder / "checkwise.jsonl"
        before = journal.stat().st_size if journal.exists() else 0
        child = in_child(lambda: train(folder))
        if done < kills:
            wait_for_progress(child, journal, before)
            time.sleep(float(rng.uniform(0, 0.15)))
            os.kill(child, signal.SIGKILL)
            done += 1
        was_killed(child)
        check(folder)


if __name__ == "__main__":
    for name in SETS:
        main(Path(sys.argv[1], name), int(sys.argv[2]), int(sys.argv[3]))
