"""Trains tiny runs in forked children that are killed, and restarts them until they finish.

Started by ``test_resume`` in a process of its own: ``python -m tests.train.killed_run FOLDER
ALGORITHM STRIDE``. Forking after the imports makes a restart take no time.
"""

from __future__ import annotations

import itertools
import sys
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


def main() -> None:
    folder, algorithm, stride = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    train(folder / "first", config(algorithm))  # imports and compiles, so that no child has to
    for count in itertools.count(1, stride):
        killed = killed_at(folder / f"at-{count}", algorithm, count)
        train(folder / f"at-{count}", config(algorithm))
        if not killed:
            break
    print(count // stride)


if __name__ == "__main__":
    main()
