"""Trains tiny runs in forked children that are killed, and restarts them until they finish.

Started by ``test_resume`` in a process of its own: ``python -m tests.train.killed_run MODE FOLDER
ALGORITHM NUMBER``. Forking after the imports makes a restart take no time.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.killing import die_at, in_child, was_killed
from tests.runs import config, train

DURABLE = ("fsync", "replace", "unlink", "ftruncate", "pwrite", "mkdir")


def killed_at(folder: Path, algorithm: str, number: int) -> bool:
    """Whether a run was killed at its ``number``-th operation before it could finish."""

    def work() -> None:
        die_at(number, DURABLE)
        train(folder, config(algorithm), resume_seconds=0)

    return was_killed(in_child(work))


def killed_after(folder: Path, algorithm: str, seconds: float) -> bool:
    """Whether a run was killed by the clock before it could finish."""
    pid = in_child(lambda: train(folder, config(algorithm), resume_seconds=0))
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return was_killed(pid)


def main() -> None:
    mode, folder, algorithm, number = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    train(folder / "first", config(algorithm))  # imports and compiles, so that no child has to
    kills = 0
    if mode == "operations":
        for count in range(1, 400, number):
            kills += killed_at(folder / f"at-{count}", algorithm, count)
            train(folder / f"at-{count}", config(algorithm))
    else:
        clock = random.Random(number)
        # Later kills come later: a busy machine may need long to reach its first record.
        while killed_after(folder / "clock", algorithm, clock.uniform(0, 0.02 * (kills + 4))):
            kills += 1
        train(folder / "clock", config(algorithm))
    print(kills)


if __name__ == "__main__":
    main()
