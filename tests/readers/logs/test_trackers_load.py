"""Trackers' stores through ``load_runs``: the choice that their own reader's numbers lead to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import checkwise as cw
from tests.readers.logs.tracker_stores import MATERIAL, build, own_reading
from tests.refusals import refused

WITHOUT_STEPS = "UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'without steps'"


def _choices(path: Path) -> dict[str, int]:
    return {
        key.dataset: cw.select(run, "source-acc").step for key, run in cw.load_runs(path).items()
    }


@pytest.mark.parametrize("name", ["mlflow.db", "anything"])
def test_mlflow(tmp_path: Path, name: str) -> None:
    store = build("mlflow", tmp_path / name, changes=WITHOUT_STEPS)
    best = []
    for run in own_reading("mlflow").values():
        if run["name"] == "cnn":
            losses = {step for _, step, _ in run["history"]["val/loss"]}
            history = {step: value for _, step, value in run["history"]["val_acc"]}
            best.append(max(losses, key=lambda step: history[step]))
    assert sorted(_choices(store).values()) == sorted(best)


def test_mlflow_in_a_folder_names_the_folder_of_the_model(tmp_path: Path) -> None:
    changes = f"{WITHOUT_STEPS}; DELETE FROM runs WHERE rowid > 1"
    build("mlflow", tmp_path / "mlflow.db", here=True, changes=changes)
    (run_id,) = (i for i, run in own_reading("mlflow").items() if len(run["history"]) == 3)
    models = {step: model for model, step in own_reading("mlflow")[run_id]["models"].items()}
    for model in models.values():
        folder = tmp_path / "mlruns" / "1" / "models" / model / "artifacts"
        folder.mkdir(parents=True)
        (folder / "weights.bin").write_bytes(b"w")
    run = cw.load(tmp_path / "mlflow.db")
    assert run.steps.tolist() == sorted(models) == [200, 400]
    chosen = cw.select(run, "ac-nll")
    assert chosen.step == 400
    assert chosen.path == str(tmp_path / "mlruns" / "1" / "models" / models[400] / "artifacts")


def test_trackio(tmp_path: Path) -> None:
    store = build("trackio", tmp_path / "digits.db")
    best = {}
    for run in own_reading("trackio"):
        rows = {r["train/global_step"]: r["val"]["acc"] for r in run["logs"] if "val" in r}
        name = run["name"] if run["name"] == "vit" else f"cnn-{run['id'][:8]}"
        best[name] = max(rows, key=lambda step: rows[step])
    assert _choices(store) == _choices(tmp_path) == best


def test_a_folder_of_trials(tmp_path: Path) -> None:
    shutil.copytree(MATERIAL / "ray", tmp_path / "digits")
    best = {}
    for name, rows in own_reading("ray").items():
        saved = [row for row in rows if row["checkpoint_dir_name"]]
        best[name] = max(saved, key=lambda row: row["val_acc"])
    runs = {Path(key.dataset).name: run for key, run in cw.load_runs(tmp_path).items()}
    assert set(runs) == set(best)
    for name, run in runs.items():
        chosen = cw.select(run, "source-acc")
        assert chosen.step == best[name]["training_iteration"]
        folder = tmp_path / "digits" / name / best[name]["checkpoint_dir_name"]
        assert chosen.path == str(folder)


def test_ray_train(tmp_path: Path) -> None:
    shutil.copyfile(
        MATERIAL / "ray_train_snapshot.json", tmp_path / "checkpoint_manager_snapshot.json"
    )
    metrics = own_reading("ray_train")
    for name in metrics:
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.bin").write_bytes(b"w")
    best = max(metrics, key=lambda name: metrics[name]["val"]["acc"])
    assert cw.select(cw.load(tmp_path), "source-acc").path == str(tmp_path / best)


def test_an_offline_run_of_wandb(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "offline-run-1"
    folder.mkdir(parents=True)
    shutil.copyfile(MATERIAL / "offline.wandb", folder / "run-1.wandb")
    for path in (tmp_path, folder, folder / "run-1.wandb"):
        with refused("empty"):
            cw.load(path)
