"""Ray Train: a worker and the driver are killed, and the choice is that of `select`.

Real workers on a real Ray; see `ray_training`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from tests.engines.ray_training import (
    DELTA_PP,
    DRIVER_DIES,
    PREDICTIONS,
    REPORTS,
    SIZES,
    examples,
    kept_steps,
    wait_for,
    weights,
)
from tests.integrations.selections import check_calibrator, check_predictions
from tests.requirements import requires

pytestmark = requires("ray", find_spec("ray") is not None, "ray is not installed")

ROOT = Path(__file__).parents[2]


def start(folder: Path) -> subprocess.Popen[str]:
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    quick = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.ray_training", folder, "2"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **own, **quick},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def all_outputs() -> dict[int, dict[str, Any]]:
    """The predictions of every step."""
    sets = {name: examples(n, ord(name)) for name, n in SIZES.items()}
    return {
        step: {name: (x @ weight, y) for name, (x, y) in sets.items()} for step, weight in weights()
    }


def offline() -> cw.Selection:
    """What `select` chooses from them."""
    return cw.select(cw.Trajectory.from_predictions(all_outputs()), "ac-nc", delta_pp=DELTA_PP)


def test_a_killed_worker_and_a_killed_driver_change_nothing(tmp_path: Path) -> None:
    driver = start(tmp_path)
    try:
        wait_for(lambda: driver.poll() is not None or DRIVER_DIES in kept_steps(tmp_path))
        assert driver.poll() is None, driver.communicate()[1][-3000:]
    finally:
        driver.kill()
        driver.communicate()
    assert (tmp_path / "worker killed").exists()
    before = cw.load(tmp_path / "run", include_unsaved=True)
    assert before.steps.tolist() == [100, 200, 300]  # the fourth diverged

    again = start(tmp_path)
    printed, errors = again.communicate()
    assert again.returncode == 0, errors[-3000:]
    facts = json.loads(printed.splitlines()[-1])
    reported = [int(line) for line in (tmp_path / REPORTS).read_text().split()]
    assert reported == [100, 200, 200, 300, 400, 400, 500]  # two steps were done again
    assert facts["checkpoints"] == len(reported)
    assert facts["steps"] == [100, 200, 300, 400, 500]  # and none is counted twice
    assert facts["counts"] == [21, 34]  # nor is the example that a sampler repeats
    assert facts["diverged"] == [False, False, False, True, False]
    expected = offline()
    assert facts["step"] == expected.step
    assert facts["feasible"] == list(expected.feasible_steps)
    saved = np.load(Path(facts["path"], "weight.npy"))
    np.testing.assert_array_equal(saved, dict(weights())[expected.step])

    outputs = {step: sets for step, sets in all_outputs().items() if step != DRIVER_DIES}
    kept = tmp_path / PREDICTIONS
    # What the killed worker had kept of the second step is not deleted.
    check_predictions(kept, outputs, beside=("calibrator.json", "earlier-step-000200-1"))
    check_calibrator(kept / "calibrator.json", outputs, expected.step)
    shares = expected.stability(200).share
    assert facts["share"] == {str(step): share for step, share in shares.items()}

    read = cw.select(cw.load(tmp_path / "run"), "ac-nc", delta_pp=DELTA_PP)
    assert (read.step, read.path) == (expected.step, facts["path"])
    assert read.feasible_steps == expected.feasible_steps
    usable = ~expected.trajectory.diverged
    np.testing.assert_array_equal(
        read.trajectory.values["accuracy"], expected.trajectory.values["accuracy"][usable]
    )
