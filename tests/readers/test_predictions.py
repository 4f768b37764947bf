"""Folders of saved outputs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.readers import load, load_runs
from checkwise.records import Trajectory
from tests.readers.samples import STEPS, outputs, predictions_folder
from tests.refusals import refused


def test_a_folder_reads_as_the_arrays_it_was_saved_from(tmp_path: Path) -> None:
    def pair(step: int, seed: int) -> tuple[Any, Any]:
        saved = outputs(step, seed)
        return saved["logits"], saved["labels"]

    run = load(predictions_folder(tmp_path))
    expected = Trajectory.from_predictions(
        {step: {"art": pair(step, 1), "photo": pair(step, 2)} for step in STEPS}
    )
    assert run.digest == expected.digest
    assert run.domains == ("art", "photo")
    assert run.paths is None


def test_probabilities_are_accepted_by_name(tmp_path: Path) -> None:
    saved = outputs(0, 1)
    exp = np.exp(saved["logits"].astype(np.float64))
    (tmp_path / "step-000000").mkdir()
    np.savez(
        tmp_path / "step-000000" / "val.npz",
        probs=exp / exp.sum(axis=1, keepdims=True),
        labels=saved["labels"],
    )
    assert load(tmp_path).domains == ("val",)


def test_held_out_predictions_are_never_opened(tmp_path: Path) -> None:
    folder = predictions_folder(tmp_path)
    before = load(folder).digest
    for step in STEPS:
        (folder / f"step-{step:06d}" / "sketch.npz").write_bytes(b"poison")
        (folder / f"step-{step:06d}" / "target.npz").write_bytes(b"poison")
    assert load(folder, held_out="sketch").digest == before
    with refused("format: sketch.npz"):
        load(folder)


def test_weights_beside_the_outputs_are_named(tmp_path: Path) -> None:
    folder = predictions_folder(tmp_path)
    (folder / "step-000000" / "weights.safetensors").touch()
    (folder / "step-000000" / "optimizer.pt").touch()
    (folder / "step-000100" / "last.ckpt").touch()
    (folder / "step-000200.pt").touch()
    assert load(folder).paths == (
        str(folder / "step-000000" / "weights.safetensors"),
        str(folder / "step-000100" / "last.ckpt"),
        str(folder / "step-000200.pt"),
    )


def test_folders_of_predictions_are_told_apart_by_their_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        predictions_folder(tmp_path / name / "predictions", steps=[0])
    runs = load_runs(tmp_path)
    assert [key.dataset for key in runs] == ["a/predictions", "b/predictions"]
    assert [key.dataset for key in load_runs(tmp_path / "a" / "predictions")] == ["predictions"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"labels": [0, 1]}, "format: arrays labels"),
        ({"logits": [[0.0, 1.0]]}, "format: no labels"),
        ({"logits": [[[0.0, 1.0]]], "labels": [0]}, "format: 1, 1, 2"),
        ({"logits": [["a", "b"]], "labels": [0]}, "format: type <U1"),
        ({"logits": [[0.0, 1.0]], "labels": ["a"]}, "format"),
    ],
)
def test_wrong_arrays_are_refused_by_file(
    tmp_path: Path, arrays: dict[str, Any], said: str
) -> None:
    file = tmp_path / "step-000000" / "val.npz"
    file.parent.mkdir()
    saved: dict[str, Any] = {name: np.array(value) for name, value in arrays.items()}
    np.savez(file, **saved)
    with refused(said) as caught:
        load(tmp_path)
    assert str(file) in str(caught.value)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "step-000000" / "val.npz"
    file.parent.mkdir()
    np.savez(file, logits=np.array([{"run": "me"}], dtype=object), labels=np.array([0]))
    with refused("format"):
        load(tmp_path)


def test_a_file_that_is_one_array_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "step-000000"
    folder.mkdir()
    np.save(folder / "val.npy", np.zeros((2, 2)))
    shutil.move(folder / "val.npy", folder / "val.npz")
    with refused("format: a single array"):
        load(tmp_path)


def test_a_domain_missing_at_one_step_is_refused_by_name(tmp_path: Path) -> None:
    folder = predictions_folder(tmp_path)
    (folder / "step-000200" / "art.npz").unlink()
    with refused("missing: 'art' … 200"):
        load(folder)


def test_two_folders_of_one_step_are_refused(tmp_path: Path) -> None:
    folder = predictions_folder(tmp_path)
    shutil.copytree(folder / "step-000100", folder / "step-100")
    with refused("ambiguous: step-000100 … step-100"):
        load(folder)


@pytest.mark.parametrize("told", [{"sources": "test"}, {"held_out": "test"}])
def test_a_step_without_a_domain_is_no_fault_of_an_option(told: dict[str, Any]) -> None:
    def said(step: int, *names: str) -> dict[str, Any]:
        saved = outputs(step, 1)
        return dict.fromkeys(names, (saved["logits"], saved["labels"]))

    made = {0: said(0, "art", "test"), 100: said(100, "art")}
    with refused("missing: 'test' … 100 … art"):
        Trajectory.from_predictions(made, **told)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("groups", np.arange(9) / 2, "format: groups"),
        ("correct", np.ones(9, dtype=np.int64), "format: correct"),
        ("nll", np.ones(9, dtype=np.int64), "format: nll … decimal numbers"),
    ],
)
def test_an_array_beside_the_outputs_is_named(
    tmp_path: Path, name: str, wrong: Any, message: str
) -> None:
    (tmp_path / "step-000000").mkdir()
    saved = {"logits": np.eye(9), "labels": np.arange(9), name: wrong}
    np.savez(tmp_path / "step-000000" / "val.npz", **saved)
    with refused(message) as error:
        load(tmp_path)
    assert f"holds {name} of shape (9,) and type {wrong.dtype}" in str(error.value)
    assert "logits" not in str(error.value)
