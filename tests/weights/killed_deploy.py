"""Deploy again and again, each time killed at another operation on files, and look what is left.

Started by ``test_deploy_killed`` in a process of its own: ``python -m tests.weights.killed_deploy
FOLDER``. It prints how often it was killed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import checkwise as cw
from checkwise.deployed import deploying, load
from checkwise.deployed.bundle import write_bundle
from tests.killing import die_at, in_child, was_killed
from tests.weights.deployments import contents, train

OPERATIONS = ("mkdir", "fsync", "rename", "replace", "unlink", "rmdir", "close")
OLD: dict[str, Any] = {"calibrator": "none"}
NEW: dict[str, Any] = {"average": "probabilities", "members": 3, "delta_pp": 5}
INSTANTS = 4


def killed(work: Callable[[], object], *, number: int = 0, after: float = 0.0) -> bool:
    """Run ``work`` in a process that dies at an operation or an instant; whether it died."""

    def deploy() -> None:
        if number:
            die_at(number, OPERATIONS)
        work()

    pid = in_child(deploy)
    if not number:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    return was_killed(pid)


def about_to_write(predictions: Path, folder: Path) -> tuple[Any, Any]:
    """The files and facts of the new model, which is all that ``deploy`` does on disk."""
    kept: list[tuple[Any, Any]] = []

    def keep(_: Path, files: Any, info: Any, **__: Any) -> dict[str, Any]:
        kept.append((files, info))
        return {}

    with patch.object(deploying, "write_bundle", keep):
        cw.deploy(predictions, folder / "unwritten", **NEW)
    return kept[0]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    predictions = train(folder, rows=40)
    began = time.perf_counter()
    cw.deploy(predictions, folder / "new", **NEW)
    took = time.perf_counter() - began
    cw.deploy(predictions, folder / "old", **OLD)
    new, old = contents(folder / "new"), contents(folder / "old")
    out, kills = folder / "out", 0
    files, info = about_to_write(predictions, folder)
    for before in ({}, old):

        def attempt(number: int = 0, after: float = 0.0, before: dict[str, bytes] = before) -> bool:
            if before and not out.exists():
                shutil.copytree(folder / "old", out)
            force = bool(before)
            if number:
                died = killed(lambda: write_bundle(out, files, info, replace=force), number=number)
            else:
                died = killed(lambda: cw.deploy(predictions, out, **NEW, force=force), after=after)
            left = contents(out) if out.exists() else {}
            assert left in (before, new), f"neither the old nor the new, killed at {number}"
            if left:
                load(out)
            if left == new:
                os.rename(out, folder / f"done-{time.time_ns()}")
            return died

        number = 1
        while attempt(number):
            kills, number = kills + 1, number + 1
        assert number > 10
        draw = random.Random(0)
        for _ in range(INSTANTS):
            kills += attempt(after=1.2 * took * draw.random())
    cw.deploy(predictions, out, **NEW, force=True)
    assert contents(out) == new
    assert not [place for place in folder.iterdir() if place.name.startswith(".")]
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
