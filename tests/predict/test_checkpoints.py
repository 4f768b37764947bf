"""Which names in a folder are checkpoints, and of which step."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkwise.errors import InputError
from checkwise.predict.checkpoints import find_checkpoints
from tests.refusals import refused, said

# Names as trainers write them (folders end in a slash), and what is found without a pattern.
FOUND = {
    "own": (
        ["step-000100.safetensors", "step-000200.safetensors", "log.json"],
        {100: "step-000100.safetensors", 200: "step-000200.safetensors"},
    ),
    "transformers": (
        ["checkpoint-500/", "checkpoint-1000/", "runs/", "model.safetensors", "trainer_state.json"],
        {500: "checkpoint-500", 1000: "checkpoint-1000"},
    ),
    "lightning": (
        ["epoch=0-step=100.ckpt", "epoch=1-step=200.ckpt", "last.ckpt"],
        {100: "epoch=0-step=100.ckpt", 200: "epoch=1-step=200.ckpt"},
    ),
    "lightning with a metric": (
        ["epoch=00-val_loss=0.23.ckpt", "epoch=01-val_loss=0.19.ckpt"],
        {0: "epoch=00-val_loss=0.23.ckpt", 1: "epoch=01-val_loss=0.19.ckpt"},
    ),
    "a run's folder": (
        ["checkpoints/step-000100.safetensors", "checkpoints/step-000200.safetensors", "run.json"],
        {100: "checkpoints/step-000100.safetensors", 200: "checkpoints/step-000200.safetensors"},
    ),
    "ultralytics": (
        ["weights/epoch0.pt", "weights/epoch5.pt", "weights/best.pt", "results.csv"],
        {0: "weights/epoch0.pt", 5: "weights/epoch5.pt"},
    ),
    "timm": (
        ["checkpoint-3.pth.tar", "checkpoint-10.pth.tar", "model_best.pth.tar", "summary.csv"],
        {3: "checkpoint-3.pth.tar", 10: "checkpoint-10.pth.tar"},
    ),
    "a number that stays the same": (
        ["resnet18_1.pt", "resnet18_2.pt"],
        {1: "resnet18_1.pt", 2: "resnet18_2.pt"},
    ),
    "keras": (["weights.01.h5", "weights.02.h5"], {1: "weights.01.h5", 2: "weights.02.h5"}),
    "one checkpoint": (["model_12.pt"], {12: "model_12.pt"}),
    "orbax": (["0/", "1000/"], {0: "0", 1000: "1000"}),
    "not weights": (
        ["model_1.pt", "figure_1.png", "table_2.csv", "version_0/", ".model_3.pt"],
        {1: "model_1.pt"},
    ),
}


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            (path / "weights.bin").touch()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return folder


@pytest.mark.parametrize("trainer", FOUND)
def test_checkpoints_are_found_by_their_numbers(trainer: str, tmp_path: Path) -> None:
    names, expected = FOUND[trainer]
    found = find_checkpoints(fill(tmp_path, names))
    assert found == expected
    assert [*found] == sorted(found)


def test_a_pattern_says_which(tmp_path: Path) -> None:
    names = ["weights.01.keras", "weights.02.keras", "optimiser.01.keras", "deep/e3/weights.pt"]
    folder = fill(tmp_path, names)
    assert find_checkpoints(folder, "weights.{epoch}.keras") == {1: names[0], 2: names[1]}
    assert find_checkpoints(folder, "weights.{epoch+1:02d}.keras") == {0: names[0], 1: names[1]}
    assert find_checkpoints(folder, "*/e{epoch}/weights.pt") == {3: names[3]}


@pytest.mark.parametrize(
    ("names", "pattern", "reason"),
    [
        (
            ["model_1.pt", "ema_1.pt"],
            None,
            "ambiguous: kinds … 'ema_{step}.pt' … 1 … 'model_{step}.pt'",
        ),
        (["model_1.pt", "checkpoint-5/"], None, "ambiguous: 2 kinds … 'checkpoint-{step}' (1"),
        (["best.pt"], None, "missing"),
        (["model-00001-of-00002.safetensors"], None, "missing"),
        (["a1_2.pt", "a2_1.pt"], None, "missing"),
        (["step-1.pt", "step-01.pt"], None, "ambiguous"),
        (["model_1.pt"], "weights_{step}.pt", "missing: --checkpoints"),
        (["model_1.pt"], "model_1.pt", "value"),
        (["model_0.pt"], "model_{step+1}.pt", "value: -1"),
        (["model_1.pt"], "/model_{step}.pt", "outside"),
        ([f"model_{10**15}.pt"], None, "value: 0"),
    ],
)
def test_what_is_not_clear_is_asked_for(
    names: list[str], pattern: str | None, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        find_checkpoints(fill(tmp_path, names), pattern)
    assert said(error.value, reason)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "absent"):
        with refused("missing"):
            find_checkpoints(path)
