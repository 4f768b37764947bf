"""Kills a Lightning training again and again until it ends; it forks, since imports take long.

``python -m tests.integrations.kills FOLDER SEED KILLS``. What is tested is ``CheckpointFolder``, by
which Keras saves as well.

Prints, for every kill, what was on disk: the step that the journal chooses, the step of the file
that it names, the number of checkpoints, and how many the rule may choose, before and after the
last record.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import checkwise as cw
from tests.integrations.lightning_models import train_in
from tests.killing import die_at, has_ended, in_child, was_killed

OPERATIONS = ("mkdir", "fsync", "rename", "replace", "symlink", "unlink", "pwrite", "open")
JOURNAL = "checkwise.jsonl"


def main() -> None:
    folder, draw, kills = Path(sys.argv[1]), random.Random(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    cw.metrics.evaluate(logits=[[1.0, 0.0, 0.0]], labels=[0])  # compiled before the first fork
    for kill in range(kills + 1):
        operation = draw.randint(1, 60) if kill < kills and kill % 3 == 0 else 0

        def work(operation: int = operation) -> None:
            if operation:
                die_at(operation, OPERATIONS)
            train_in(folder)

        child = in_child(work)
        if kill < kills and not operation:
            wait(child, folder / "checkpoints", draw, within_a_save=kill % 3 == 1)
            os.kill(child, signal.SIGKILL)
        killed = was_killed(child)
        found = state(folder / "checkpoints")
        print(json.dumps({"killed": killed, **found}), flush=True)
        if not killed:
            break


def wait(child: int, checkpoints: Path, draw: random.Random, *, within_a_save: bool) -> None:
    """Until a random instant, of the training or of one of its next saves."""
    if not within_a_save:
        time.sleep(draw.uniform(0, 1))
        return
    for _ in range(draw.randint(1, 3)):
        for saving in (False, True):
            while not has_ended(child) and is_saving(checkpoints) is not saving:
                time.sleep(0.0002)
    time.sleep(draw.uniform(0, 0.03))


def is_saving(checkpoints: Path) -> bool:
    try:
        names = os.listdir(checkpoints)
    except FileNotFoundError:  # not made yet, or made and removed to see whether it can be
        return False
    return any(name.startswith(".") and name.endswith(".saving") for name in names)


def step_of(path: Path) -> int:
    """The step that a checkpoint holds; only plain data is unpickled."""
    return int(torch.load(path, weights_only=True)["global_step"])


def state(checkpoints: Path) -> dict[str, Any]:
    """What a reader finds."""
    files = {*checkpoints.glob("*.ckpt"), *checkpoints.glob(".*.ckpt.part*")}
    there = len([path for path in files if not path.is_symlink()])
    journal = checkpoints / JOURNAL
    if not journal.exists() or b"\n" not in journal.read_bytes():  # killed before its first line
        return {"there": there}
    live = selector(checkpoints / JOURNAL)
    lines = (checkpoints / JOURNAL).read_text().splitlines(keepends=True)
    records = [number for number, line in enumerate(lines) if '"domains"' in line]
    earlier = checkpoints / "earlier.jsonl"
    earlier.write_text("".join(lines[: records[-1]] if records else lines))
    feasible = [len(selector(path).keep) for path in (earlier, checkpoints / JOURNAL)]
    earlier.unlink()
    return {
        "there": there,
        "feasible": max(feasible),
        "choice": live.choice,
        "loaded": None if live.path is None else step_of(live.path),
    }


def selector(journal: Path) -> cw.LiveSelector:
    return cw.LiveSelector("ac-nc", delta_pp=2, journal=journal, read_only=True)


if __name__ == "__main__":
    main()
