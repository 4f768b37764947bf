"""Ray Train without a cluster: what a worker reports, and what is chosen from reports.

Real workers train in tests/engines/test_ray_train.py, and on the page docs/ray-train.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.integrations.selections import check_calibrator, check_predictions, predictions
from tests.requirements import available

available("ray", "torch")

from checkwise.integrations.ray_train import Validation, choose
from tests.refusals import refused


def result(*metrics: dict[str, Any], name: str = "c{}") -> Any:
    """What `choose` reads of a Result."""
    pairs = [(SimpleNamespace(path=name.format(i)), one) for i, one in enumerate(metrics)]
    return SimpleNamespace(best_checkpoints=pairs)


def reports(kept: Path | None = None) -> list[dict[str, Any]]:
    """What one worker reports of the steps, in batches of seven."""
    reported = []
    for step, sets in predictions(diverging=300).items():
        validation = Validation(dict.fromkeys(sets), predictions=kept)
        for name, (logits, labels) in sets.items():
            for first in range(0, len(labels), 7):
                part = slice(first, first + 7)
                validation.update(name, logits[part], labels[part])
        reported.append(validation.metrics(step))
    return reported


def test_the_choice_is_that_of_select_on_the_same_predictions() -> None:
    run = cw.Trajectory.from_predictions(predictions(diverging=300))
    offline = cw.select(run, "ac-nc", delta_pp=2)
    chosen = choose(result(*reports()), "ac-nc", delta_pp=2)
    assert (chosen.step, chosen.feasible_steps) == (offline.step, offline.feasible_steps)
    np.testing.assert_allclose(chosen.trajectory.values["nll"], run.values["nll"])
    assert chosen.trajectory.n_diverged == 1


@pytest.mark.parametrize("by_score", [False, True])
def test_a_step_that_was_reported_again_counts_once_and_the_last_counts(
    tmp_path: Path, by_score: bool
) -> None:
    first = reports()
    wrong = {**first[1], "checkwise/a/accuracy": 0.0, "checkwise/a/correct": 0.0}
    told = [first[0], wrong, *first[1:]]
    together = result(*told, name=f"{tmp_path}/checkpoint_2026-11-17_03-00-0{{}}.5")
    if by_score:  # as with a checkpoint_score_attribute
        together.best_checkpoints.reverse()
    chosen = choose(together, "ac-nc", delta_pp=2)
    once = choose(result(*first), "ac-nc", delta_pp=2)
    assert chosen.trajectory.digest == once.trajectory.digest
    assert chosen.path == f"{tmp_path}/checkpoint_2026-11-17_03-00-02.5"
    pairs = [(Path(c.path).name, metrics) for c, metrics in together.best_checkpoints]
    order = range(len(pairs))
    snapshot = {
        "checkpoint_results": [{"checkpoint_dir_name": c, "metrics": m} for c, m in pairs],
        "checkpoint_report_indices": [*(reversed(order) if by_score else order)],
    }
    (tmp_path / "checkpoint_manager_snapshot.json").write_text(json.dumps(snapshot))
    for name, _ in pairs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.pt").write_bytes(b"x")
    read = cw.select(cw.load(tmp_path), "ac-nc", delta_pp=2)
    run = chosen.trajectory
    assert read.trajectory.steps.tolist() == run.steps[~run.diverged].tolist()
    assert (read.step, read.path) == (chosen.step, chosen.path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "value"),
        (result(), "value"),
        (result({"val_acc": 0.5}), "missing: checkwise/step … c0 … val_acc"),
        (result({"checkwise/step": 1.0, "checkwise/a/n": 4}), "empty: 1"),
    ],
)
def test_results_that_cannot_be_chosen_from_are_refused(given: Any, message: str) -> None:
    with refused(message):
        choose(given)


def test_kept_predictions_say_how_sure_and_are_calibrated(tmp_path: Path) -> None:
    kept = tmp_path / "predictions"
    made = result(*reports(kept))
    outputs = predictions(diverging=300)
    run = cw.Trajectory.from_predictions(outputs)
    for options in ({"delta_pp": 2}, {"tolerance": "paired"}):
        offline = cw.select(run, "ac-nc", **options)
        chosen = choose(made, "ac-nc", predictions=kept, calibrator="ts-soften", **options)
        assert (chosen.step, chosen.feasible_steps) == (offline.step, offline.feasible_steps)
        assert chosen.stability(200).share == offline.stability(200).share
        assert chosen.guarantee().paired == offline.guarantee().paired
        finite = {step: sets for step, sets in outputs.items() if step != 300}
        check_predictions(kept, finite, beside=("calibrator.json",))
        check_calibrator(kept / "calibrator.json", outputs, chosen.step)
        assert "Calibrated: ts-soften" in chosen.explain()
    with pytest.raises(cw.InputError, match="metrics alone"):
        choose(made, "ac-nc", tolerance="paired")


def test_a_step_reported_again_sets_earlier_predictions_aside(tmp_path: Path) -> None:
    kept = tmp_path / "predictions"
    reports(kept)
    (kept / "step-000100" / "a.npz").write_bytes(b"of a training that failed")
    made = result(*reports(kept))
    assert (kept / "earlier-step-000100-1" / "a.npz").read_bytes() == b"of a training that failed"
    chosen = choose(made, "ac-nc", predictions=kept)
    outputs = predictions(diverging=300)
    run = cw.Trajectory.from_predictions(outputs)
    assert chosen.stability(50).share == cw.select(run, "ac-nc").stability(50).share


def test_predictions_that_are_not_there_are_refused(tmp_path: Path) -> None:
    one = result({"checkwise/step": 1.0, "checkwise/a/n": 4, "checkwise/a/accuracy": 0.5})
    with refused("missing: predictions="):
        choose(one, "source-acc", calibrator="ts")
    with refused("missing"):
        choose(one, "source-acc", predictions=tmp_path / "none")
    with refused("value"):
        Validation({"a": None}, predictions="s3://bucket/predictions")


def test_wrong_arguments_in_a_worker_are_refused() -> None:
    with refused("value"):
        Validation(["a"])  # type: ignore[arg-type]
    validation = Validation({"a": None})
    with refused("unknown: 'b'"):
        validation.update("b", [[1.0, 0.0]], [0])
    with refused("empty: 'a'"):
        validation.metrics(1)
