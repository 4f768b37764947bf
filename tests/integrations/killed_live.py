"""A training that journals, saves and prunes, killed again and again until it is through.

Started by ``test_live_killed`` in a process of its own: ``python -m
tests.integrations.killed_live FOLDER SEED``. It prints how often the training was killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import checkwise as cw
from tests.killing import die_at, in_child, was_killed

STEPS = 30
FILES = ("weights", "optimiser", "state")
SETTINGS: dict[str, Any] = {"rule": "ac-nll", "delta_pp": 1}
OPERATIONS = ("fsync", "rename", "unlink", "rmdir", "ftruncate", "pwrite", "mkdir", "open")


def measured(step: int) -> dict[str, Any]:
    draw = random.Random(step)
    correct = 600 + 4 * step + draw.randrange(25)
    return {"val": {"accuracy": correct / 1000, "nll": draw.random(), "n": 1000}}


def save(folder: Path, step: int) -> Path:
    """A checkpoint that appears whole, so that half a one can only come from deleting it."""
    checkpoint, hidden = folder / f"checkpoint-{step}", folder / f".new-{step}"
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir()
    for name in FILES:
        (hidden / name).write_text(str(step))
    if checkpoint.exists():
        checkpoint.rename(folder / f".old-{step}-{os.getpid()}")
    hidden.rename(checkpoint)
    return checkpoint


def train(folder: Path, said: int) -> None:
    """Continue after the last checkpoint; ``said`` hears of each record once ``add`` returned."""
    with cw.LiveSelector(journal=folder / "checkwise.jsonl", **SETTINGS) as live:
        live.prune()  # the last process may have been killed before it could
        first = max(live.checkpoints, default=-1) + 1
        for step in range(first, STEPS):
            live.add(step, measured(step))
            os.write(said, f"added {step}\n".encode())
            live.saved(step, save(folder, step))
            os.write(said, f"saved {step}\n".encode())
            live.prune()


def killed(folder: Path, draw: random.Random) -> tuple[bool, list[str]]:
    """Train until a random operation or instant; whether it was killed, and what it had said."""
    hear, tell = os.pipe()
    by_operation, number, instant = draw.random() < 0.7, draw.randrange(1, 150), 0.2 * draw.random()

    def work() -> None:
        os.close(hear)
        if by_operation:
            die_at(number, OPERATIONS)
        train(folder, tell)

    pid = in_child(work)
    os.close(tell)
    if not by_operation:
        time.sleep(instant)
        os.kill(pid, signal.SIGKILL)
    heard = b""
    while part := os.read(hear, 10_000):
        heard += part
    os.close(hear)
    return was_killed(pid), heard.decode().splitlines()


def check(folder: Path, said: set[str]) -> None:
    """Nothing was lost but the line in work, and the choice is there and whole."""
    journal = folder / "checkwise.jsonl"
    if not journal.exists():
        assert not said
        return
    whole = journal.read_bytes().split(b"\n")[1:-1]
    records = {line["step"]: line for line in map(json.loads, whole) if "domains" in line}
    assert {f"added {step}" for step in records} >= {s for s in said if s.startswith("added")}
    direct = cw.LiveSelector(**SETTINGS)
    feasible = 0
    for step, line in records.items():
        feasible = len(direct.keep)  # before the last record, after which nothing may be pruned yet
        values = line["domains"]["val"]
        direct.add(step, {"val": {**values["values"], "n": values["n"]}})
        assert direct.trajectory.values["nll"][-1, 0] == measured(step)["val"]["nll"]
    if not whole:
        return
    live = cw.LiveSelector(journal=journal, read_only=True, **SETTINGS)
    assert live.steps == direct.steps
    assert (live.keep, live.droppable, live.choice) == (
        direct.keep,
        direct.droppable,
        direct.choice,
    )
    there = [int(p.name.split("-")[1]) for p in folder.glob("checkpoint-*")]
    for step in there:
        files = [(folder / f"checkpoint-{step}" / name).read_text() for name in FILES]
        assert files == [str(step)] * len(FILES), f"half of step {step}"
    assert len(there) <= max(len(live.keep), feasible) + 2
    best = live.among(live.checkpoints).selection
    saved = {step for step in live.keep if f"saved {step}" in said}
    assert saved <= set(there), "what may be chosen was deleted"
    assert best is None or best.step in there


def main(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    with cw.LiveSelector(**SETTINGS) as once:  # imports everything, so that forks need not
        once.add(0, measured(0))
        assert once.choice == 0
    kills, said = 0, set[str]()
    while True:
        was_killed, heard = killed(folder, draw)
        said |= set(heard)
        check(folder, said)
        kills += was_killed
        if not was_killed:  # it came to its end, whether or not it could say so before a kill
            break
    assert (
        len(list(folder.glob("checkpoint-*")))
        <= len(cw.LiveSelector.from_journal(folder / "checkwise.jsonl").keep) + 1
    )
    assert not list(folder.glob("*.being-deleted")) + list(folder.glob(".*.being-deleted"))
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
