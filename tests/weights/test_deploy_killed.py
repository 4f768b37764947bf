"""Killed at any operation on files, ``deploy`` leaves the old folder or the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_killed_deploy_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.weights.killed_deploy", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
