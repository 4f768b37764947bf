"""Kills a training again and again until it ends; a process that forks, since imports take long.

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
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import checkwise as cw

JOURNAL = "checkwise.jsonl"


def main(train_in: Callable[[Path], None], ending: str, step_of: Callable[[Path], int]) -> None:
    """For ``python -m MODULE FOLDER SEED KILLS``."""
    folder, draw, kills = Path(sys.argv[1]), random.Random(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    cw.metrics.evaluate(logits=[[1.0, 0.0, 0.0]], labels=[0])  # compiled before the first fork
    for kill in range(kills + 1):
        child = os.fork()
        if child == 0:
            try:
                train_in(folder)
            except BaseException:
                traceback.print_exc()
            os._exit(not (folder / "done").exists())
        if kill < kills:
            wait(folder / "checkpoints", draw, within_a_save=kill % 3 != 2)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found = state(folder / "checkpoints", ending, step_of)
        print(json.dumps({"status": status, **found}), flush=True)
        if not os.WIFSIGNALED(status):
            break


def wait(checkpoints: Path, draw: random.Random, *, within_a_save: bool) -> None:
    """Until a random instant, of the training or of one of its next saves."""
    if not within_a_save:
        time.sleep(draw.uniform(0, 1))
        return
    for _ in range(draw.randint(1, 3)):
        wait_for(checkpoints, saving=False)
        wait_for(checkpoints, saving=True)
    time.sleep(draw.uniform(0, 0.03))


def wait_for(checkpoints: Path, *, saving: bool) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and is_saving(checkpoints) is not saving:
        time.sleep(0.0002)


def is_saving(checkpoints: Path) -> bool:
    try:
        names = os.listdir(checkpoints)
    except FileNotFoundError:  # not made yet, or made and removed to see whether it can be
        return False
    return any(name.startswith(".") and name.endswith(".saving") for name in names)


def state(checkpoints: Path, ending: str, step_of: Callable[[Path], int]) -> dict[str, Any]:
    """What a reader finds."""
    files = {*checkpoints.glob(f"*{ending}"), *checkpoints.glob(f".*{ending}.part*")}
    there = len([path for path in files if not path.is_symlink()])
    if not (checkpoints / JOURNAL).exists():
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
