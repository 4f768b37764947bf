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
from checkwise.integrations.transformers.folders import checkpoints
from tests.integrations.transformers_runs import (
    arguments,
    known_script,
    saved_step,
    scripted_trainer,
    steps_on_disk,
)

SETS = {"one": None, "two": {"art": slice(0, 17), "photo": slice(17, 41)}}
DELTA_PP = 4


def train(folder: Path) -> None:
    """Train from the newest checkpoint, if there is one, and say what was chosen."""
    callback = ReliabilityCallback(delta_pp=DELTA_PP, calibrator="ts-soften")
    table, labels = known_script()
    trainer = scripted_trainer(
        arguments(folder, steps=20, every=1),
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
    (folder / "ended.json").write_text(json.dumps(facts))


def check(folder: Path) -> None:
    """What a training that resumes now would choose is there, whole and right."""
    whole = checkpoints(folder)
    journal = folder / "checkwise.jsonl"
    if not whole:
        return
    live = cw.LiveSelector(delta_pp=DELTA_PP, journal=journal, read_only=True)
    live.resume(max(whole))
    assert live.choice is not None
    assert saved_step(whole[live.choice]) == live.choice
    assert set(live.keep) <= set(whole)
    assert len(whole) <= len(live.keep) + 2, (sorted(whole), live.keep)


def wait_for_progress(journal: Path, *, seconds: float) -> None:
    """Until a child has recorded something, so that a kill strikes between two steps or in one."""
    before = journal.stat().st_size if journal.exists() else 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and (not journal.exists() or journal.stat().st_size <= before):
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
        child = os.fork()
        if child == 0:
            os.dup2(os.open(folder.parent / "child.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
            os.dup2(1, 2)
            try:
                train(folder)
            finally:
                os._exit(0 if (folder / "ended.json").exists() else 1)
        if done < kills:
            wait_for_progress(folder / "checkwise.jsonl", seconds=20)
            time.sleep(float(rng.uniform(0, 0.15)))
            os.kill(child, signal.SIGKILL)
            done += 1
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, (
            folder.parent / "child.log"
        ).read_text()[-3000:]
        check(folder)


if __name__ == "__main__":
    for name in SETS:
        main(Path(sys.argv[1], name), int(sys.argv[2]), int(sys.argv[3]))
