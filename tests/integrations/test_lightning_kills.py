"""A training that is killed at random instants ends with the choice that its records lead to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.requirements import available

available("lightning")

import torch

from tests.integrations.kills import selector
from tests.integrations.selections import check_kept

ROOT = Path(__file__).parents[2]
KILLS = 5


def test_the_choice_survives_every_kill(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.kills", tmp_path, "0", str(KILLS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    states = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert not states[-1]["killed"]
    assert len(states) > 1  # the first kill is at an operation; others depend on the machine
    for state in states:
        # Of a first save that was cut off, a record may be left without a checkpoint.
        if state.get("choice") is not None and (state["loaded"] is not None or state["there"]):
            assert state["loaded"] == state["choice"]
            assert state["there"] <= state["feasible"] + 2
    checkpoints = tmp_path / "checkpoints"
    live = selector(checkpoints / "checkwise.jsonl")
    offline = check_kept(checkpoints, tmp_path / "seen", live.steps)
    assert len(live.steps) == 16
    assert live.choice == offline.step
    best = Path((tmp_path / "done").read_text())
    assert torch.load(best, weights_only=True)["global_step"] == offline.step
    names = {path.name for path in checkpoints.iterdir()}
    hidden = {name for name in names if name.startswith(".")}
    assert hidden == set()
    assert len([name for name in names if name.endswith(".ckpt")]) <= len(live.keep) + 1 + 1  # link
