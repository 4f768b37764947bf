"""Ray Train: real workers report, and the choice is that of `select` on the same predictions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.integrations.ray_training import SIZES, examples, weights
from tests.requirements import available

available("ray", "torch")

from checkwise.integrations.ray_train import Validation, choose

ROOT = Path(__file__).parents[2]


def test_two_workers_report_what_one_would_and_the_choice_is_that_of_select(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.ray_training", tmp_path, "2"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout.splitlines()[-1])
    outputs = {
        step: {
            name: (x @ weight, y)
            for name, (x, y) in ((s, examples(n, ord(s))) for s, n in SIZES.items())
        }
        for step, weight in weights()
    }
    offline = cw.select(cw.Trajectory.from_predictions(outputs), "ac-nc", delta_pp=2)
    assert facts["counts"] == [21, 34]  # the repeated example is counted once
    assert facts["diverged"] == [False, False, False, True, False]
    assert facts["step"] == offline.step
    assert facts["feasible"] == list(offline.feasible_steps)
    saved = np.load(Path(facts["path"], "weight.npy"))
    np.testing.assert_array_equal(saved, dict(weights())[offline.step])
    again = cw.select(cw.load(tmp_path / "run"), "ac-nc", delta_pp=2)
    assert again.path == facts["path"]


def result(*metrics: dict[str, Any]) -> Any:
    """What `choose` reads of a Result."""
    pairs = [(SimpleNamespace(path=f"c{i}"), one) for i, one in enumerate(metrics)]
    return SimpleNamespace(best_checkpoints=pairs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "a Result with checkpoints"),
        (result(), "a Result with checkpoints"),
        (result({"val_acc": 0.5}), "Expected checkwise/step in the metrics of c0, but got val_acc"),
        (
            result(*[{"checkwise/step": 1.0, "checkwise/a/n": 4, "checkwise/a/accuracy": 0.5}] * 2),
            "one checkpoint of step 1, but got c0 and c1",
        ),
        (result({"checkwise/step": 1.0, "checkwise/a/n": 4}), "all 1 diverged"),
    ],
)
def test_results_that_cannot_be_chosen_from_are_refused(given: Any, message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        choose(given)


def test_wrong_arguments_in_a_worker_are_refused() -> None:
    with pytest.raises(cw.InputError, match="validation sets by name"):
        Validation(["a"])  # type: ignore[arg-type]
    validation = Validation({"a": None})
    with pytest.raises(cw.InputError, match="one of the validation sets a, but got 'b'"):
        validation.update("b", [[1.0, 0.0]], [0])
    with pytest.raises(cw.InputError, match="at least one example of the validation set 'a'"):
        validation.metrics(1)
