"""A training that is killed at random instants loses nothing but the line in work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", range(2))
def test_killing_at_any_instant_loses_no_record_and_no_choice(tmp_path: Path, seed: int) -> None:
    words = [sys.executable, "-m", "tests.integrations.killed_live", str(tmp_path), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


def test_killing_at_every_write_under_a_tolerance_of_the_data(tmp_path: Path) -> None:
    words = ["tests.integrations.killed_tolerance", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30
