"""Writes the files of this folder with the trackers themselves; README.md says how and with what.

Beside every store stands a JSON file with what the tracker's own reader returns for it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Stands for the folder in which the stores were written.
ELSEWHERE = "/home/user/project"
EPOCHS = 5


def accuracy(epoch: int, rate: float) -> float:
    return round(0.9 - 0.4 * (1 - rate) ** (epoch + 1), 4)


def loss(epoch: int, rate: float) -> float:
    return round(2.3 * (1 - rate) ** (epoch + 1) + 0.03 * epoch, 4)


def scores(epoch: int, rate: float) -> dict[str, float]:
    return {"val_acc": accuracy(epoch, rate), "val/loss": loss(epoch, rate)}


def dump(database: Path, target: Path) -> None:
    """A database as text, without the folder that it was written in."""
    connection = sqlite3.connect(database)
    # MLflow notes the script and its repository as tags.
    lines = [line for line in connection.iterdump() if "'mlflow.source." not in line]
    connection.close()
    text = "\n".join(lines) + "\n"
    target.write_text(text.replace(str(database.parent), ELSEWHERE), encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    target.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def mlflow_runs() -> dict[str, Any]:
    """Runs with logged models, with checkpoints, with one name, without steps, deleted."""
    import mlflow
    from mlflow.entities import LoggedModelOutput

    client = mlflow.MlflowClient()
    mlflow.set_experiment("digits")
    with mlflow.start_run(run_name="cnn") as run:
        for epoch in range(EPOCHS):
            step = 100 * (epoch + 1)
            mlflow.log_metrics(scores(epoch, 0.5), step)
            mlflow.log_metric("train_loss", float("nan") if epoch == 1 else loss(epoch, 0.6), step)
            if epoch in (1, 3):
                model = mlflow.initialize_logged_model(name=f"epoch-{epoch}")
                client.log_outputs(run.info.run_id, [LoggedModelOutput(model.model_id, step)])
        mlflow.log_metric("train_loss", float("inf"), step=600)
        # Tied to a step by the metric that names it.
        model = mlflow.initialize_logged_model(name="late")
        mlflow.log_metric("val_acc", 0.88, step=600, model_id=model.model_id)
        mlflow.initialize_logged_model(name="no-step")
    with mlflow.start_run(run_name="cnn"):  # killed after step 300, resumed from step 200
        for epoch in (0, 1, 2, 1, 2, 3):
            step = 100 * (epoch + 1)
            mlflow.log_metrics(scores(epoch, 0.3), step)
    with mlflow.start_run(run_name="without steps"):
        for epoch in range(EPOCHS):
            mlflow.log_metric("val_acc", accuracy(epoch, 0.4))
    with mlflow.start_run(run_name="no metrics"):
        mlflow.log_param("lr", 0.1)
    with mlflow.start_run(run_name="deleted") as run:
        mlflow.log_metric("val_acc", 0.99, step=1)
    client.delete_run(run.info.run_id)
    mlflow.set_experiment("other")
    with mlflow.start_run(run_name="cnn") as run:
        for epoch in range(EPOCHS):
            mlflow.log_metrics(scores(epoch, 0.5), epoch)
            with tempfile.TemporaryDirectory() as folder:
                weights = Path(folder, "weights.bin")
                weights.write_bytes(b"w")
                mlflow.log_artifact(str(weights), f"checkpoints/epoch_{epoch}")
    return mlflow_histories(client)


def mlflow_histories(client: Any) -> dict[str, Any]:
    """Every metric of every run that is not deleted, as MLflow reads it."""
    runs: dict[str, Any] = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            runs[run.info.run_id] = {
                "experiment": experiment.name,
                "name": run.info.run_name,
                "history": {
                    key: [
                        [metric.timestamp, metric.step, metric.value]
                        for metric in client.get_metric_history(run.info.run_id, key)
                    ]
                    for key in run.data.metrics
                },
                "models": {
                    output.model_id: output.step
                    for output in (run.outputs.model_outputs if run.outputs else [])
                },
            }
    return runs


def make_mlflow(work: Path) -> None:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{work / 'mlflow.db'}")
    write_json(HERE / "mlflow.json", mlflow_runs())
    dump(work / "mlflow.db", HERE / "mlflow.sql")


def make_mlflow_files(work: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri((work / "mlruns").as_uri())
    write_json(HERE / "mlruns.json", mlflow_runs())
    shutil.rmtree(HERE / "mlruns", ignore_errors=True)
    ignored = shutil.ignore_patterns(".trash", "mlflow.source.*", "mlflow.user", "params")
    shutil.copytree(work / "mlruns", HERE / "mlruns", ignore=ignored)
    for file in (HERE / "mlruns").rglob("meta.yaml"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(str(work), ELSEWHERE), encoding="utf-8")


def make_trackio(work: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(work)
    import trackio

    for name, rate in (("cnn", 0.5), ("cnn", 0.3), ("vit", 0.4)):
        trackio.init(project="digits", name=name, config={"rate": rate}, resume="never")
        for epoch in range(EPOCHS):
            training = float("nan") if epoch == 2 else loss(epoch, 0.6)
            trackio.log({"train/loss": training, "train/global_step": 100 * epoch + 100})
            trackio.log(
                {
                    "val": {"acc": accuracy(epoch, rate)},
                    "val_loss": loss(epoch, rate),
                    "epoch": epoch,
                    "train/global_step": 100 * epoch + 100,
                }
            )
        trackio.finish()
    runs = trackio.Api().runs("digits")
    write_json(
        HERE / "trackio.json", [{"id": run.id, "name": run.name, "logs": logs(run)} for run in runs]
    )
    dump(work / "digits.db", HERE / "trackio.sql")


def logs(run: Any) -> list[dict[str, Any]]:
    """The records of a run as Trackio reads them."""
    from trackio.sqlite_storage import SQLiteStorage

    return list(SQLiteStorage.get_logs("digits", run.name, run_id=run.id))


def train(config: dict[str, Any]) -> None:
    from ray import tune

    for epoch in range(EPOCHS):
        metrics = {
            "val_acc": accuracy(epoch, config["rate"]),
            "val": {"loss": float("nan") if epoch == 1 else loss(epoch, config["rate"])},
        }
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "weights.bin").write_bytes(b"w")
            # Without a checkpoint at the third iteration their numbers drift apart.
            checkpoint = tune.Checkpoint.from_directory(folder) if epoch != 2 else None
            tune.report(metrics, checkpoint=checkpoint)


def make_ray(work: Path) -> None:
    import ray
    from ray import tune

    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    tuner = tune.Tuner(
        train,
        param_space={"rate": tune.grid_search([0.5, 0.3])},
        run_config=tune.RunConfig(name="digits", storage_path=str(work)),
    )
    results = tuner.fit()
    shutil.rmtree(HERE / "ray", ignore_errors=True)
    tables = {}
    for result in results:
        folder = Path(result.path)
        tables[folder.name] = json.loads(result.metrics_dataframe.to_json(orient="records"))
        for file in sorted(folder.rglob("*")):
            if file.name in ("result.json", "progress.csv", "weights.bin"):
                target = HERE / "ray" / folder.name / file.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    write_json(HERE / "ray.json", tables)


def report(config: dict[str, Any]) -> None:
    from ray import train

    for epoch in range(EPOCHS):
        metrics = {"epoch": epoch, "val": {"acc": accuracy(epoch, 0.5), "loss": loss(epoch, 0.5)}}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "weights.bin").write_bytes(b"w")
            checkpoint = train.Checkpoint.from_directory(folder) if epoch != 2 else None
            train.report(metrics, checkpoint=checkpoint)


def make_ray_train(work: Path) -> None:
    import ray
    from ray.train import CheckpointConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    # A score puts the results into its own order.
    order = CheckpointConfig(checkpoint_score_attribute="val/loss", checkpoint_score_order="max")
    trainer = DataParallelTrainer(
        report,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="digits", storage_path=str(work), checkpoint_config=order),
    )
    result = trainer.fit()
    shutil.copyfile(
        work / "digits" / "checkpoint_manager_snapshot.json", HERE / "ray_train_snapshot.json"
    )
    write_json(
        HERE / "ray_train.json",
        {Path(at.path).name: metrics for at, metrics in result.best_checkpoints},
    )


def make_wandb(work: Path) -> None:
    import wandb

    run = wandb.init(project="digits", name="cnn", mode="offline", dir=str(work))
    for epoch in range(EPOCHS):
        run.log({"val_acc": accuracy(epoch, 0.5), "val_loss": loss(epoch, 0.5)})
    run.finish()
    (file,) = work.rglob("*.wandb")
    # The rest names the machine; the first bytes are what tells the format.
    (HERE / "offline.wandb").write_bytes(file.read_bytes()[:7])


def make_optuna(work: Path) -> None:
    import optuna

    study = optuna.create_study(storage=f"sqlite:///{work / 'study.db'}", direction="maximize")
    study.set_metric_names(["val_acc"])
    study.set_user_attr("data", {"split": "val"})
    for number in range(3):
        trial = study.ask({"rate": optuna.distributions.FloatDistribution(0.1, 0.9)})
        trial.set_user_attr("note", "text")
        for epoch in range(EPOCHS):
            value = accuracy(epoch, 0.3 + number / 10)
            trial.report(float("nan") if (number, epoch) == (1, 2) else value, epoch)
        study.tell(trial, value)
    dump(work / "study.db", HERE / "optuna.sql")


MAKERS = {
    "mlflow": make_mlflow,
    "mlflow-files": make_mlflow_files,
    "trackio": make_trackio,
    "ray": make_ray,
    "ray-train": make_ray_train,
    "wandb": make_wandb,
    "optuna": make_optuna,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        MAKERS[sys.argv[1]](Path(folder).resolve())
        os.chdir(HERE)
