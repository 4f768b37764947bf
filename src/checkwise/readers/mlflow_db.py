"""MLflow's sqlite store, ``mlflow.db``: the runs of all its experiments.

It is read with the standard library. The package ``mlflow`` would bring more than eighty others,
and it refuses stores of older versions until they are migrated; what is needed are three tables,
and three more for the models of MLflow 3.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from pathlib import Path
from sys import float_info
from typing import Any

from checkwise.readers import mlflow_folder, stores
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.log import MLFLOW, Log, Points, each
from checkwise.readers.mlflow_folder import LoggedModel, points_of
from checkwise.readers.request import Request
from checkwise.store import is_plain_name
from checkwise.words import counted, printable

OF_MLFLOW = {"experiments": ("experiment_id",), "runs": ("run_uuid",), "metrics": ("run_uuid",)}
REQUIRED = {
    "experiments": ("experiment_id", "name", "lifecycle_stage"),
    "runs": ("run_uuid", "name", "experiment_id", "lifecycle_stage", "artifact_uri"),
    "metrics": ("run_uuid", "key", "value", "timestamp", "step", "is_nan"),
}
# Since MLflow 3; without them no model is tied to a step.
MODELS = {
    "logged_models": (
        "model_id", "source_run_id", "experiment_id", "artifact_location", "lifecycle_stage",
        "creation_timestamp_ms",
    ),
    "logged_model_metrics": ("model_id", "run_id", "metric_step"),
    "inputs": ("source_type", "source_id", "destination_type", "destination_id", "step"),
}  # fmt: skip
# MLflow has no infinity: it stores the largest number instead.
INFINITIES = {float_info.max: inf, -float_info.max: -inf}


@dataclass(frozen=True)
class Run:
    """One run of the store."""

    run_id: str
    name: str
    experiment_id: str
    artifact_uri: str | None
    keys: tuple[str, ...]


def recognises(path: Path) -> bool:
    """Whether a file is an sqlite database with MLflow's tables."""
    return path.is_file() and stores.has_tables(path, OF_MLFLOW)


def read(path: Path, request: Request) -> list[Log]:
    """A log for every run that has metrics; deleted runs are left out."""
    stores.check_columns(path, REQUIRED, "upgrade the store with `mlflow db upgrade sqlite:///…`")
    runs, deleted = stores.read(path, _runs)
    if not runs:
        raise NoRecordsError(
            f"Expected a run with metrics, but the MLflow store {path} has none"
            f"{' that is not deleted' if deleted else ''}: log metrics with "
            "mlflow.log_metric(name, value, step=step), or restore a run in MLflow.",
            code="empty",
        )
    models = stores.read(path, partial(_models, path.parent))
    names = stores.unique_run_names({run.run_id: run.name for run in runs})
    left_out = (f"{counted(deleted, 'deleted run')} left out",) if deleted else ()
    return [
        Log(
            path=path,
            trainer=MLFLOW,
            header=run.keys,
            columns=each(partial(_points, path, run)),
            run=names[run.run_id],
            files=mlflow_folder.checkpoint_files(
                mlflow_folder.local_folder(
                    run.artifact_uri, *_usual(path.parent, run.experiment_id, run.run_id)
                )
            )
            | mlflow_folder.model_files(models.get(run.run_id, ())),
            axes={"step": "step"},
            notes=left_out if run is runs[0] else (),
        )
        for run in runs
    ]


def _runs(connection: sqlite3.Connection) -> tuple[list[Run], int]:
    """Runs with metrics, and the number of deleted ones among them."""
    keys: dict[str, list[str]] = defaultdict(list)
    for run_id, key in stores.rows_of(
        connection,
        "SELECT run_uuid, key FROM metrics GROUP BY run_uuid, key ORDER BY MIN(rowid)",
    ):
        keys[str(run_id)].append(str(key))
    rows = stores.rows_of(
        connection,
        "SELECT run_uuid, runs.name, experiments.name, runs.experiment_id, artifact_uri, "
        "'deleted' IN (runs.lifecycle_stage, experiments.lifecycle_stage) FROM runs "
        "LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id "
        "ORDER BY runs.rowid",
    )
    with_metrics = [row for row in rows if str(row[0]) in keys]
    runs = [
        Run(
            run_id=str(run_id),
            name=f"{experiment or experiment_id}/{name or run_id}",
            experiment_id=str(experiment_id),
            artifact_uri=uri,
            keys=tuple(keys[str(run_id)]),
        )
        for run_id, name, experiment, experiment_id, uri, is_deleted in with_metrics
        if not is_deleted
    ]
    return runs, len(with_metrics) - len(runs)


def _points(path: Path, run: Run, name: str) -> Points:
    def rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return stores.rows_of(
            connection,
            "SELECT step, value, is_nan FROM metrics WHERE run_uuid = ? AND key = ? "
            "ORDER BY timestamp, rowid",
            run.run_id,
            name,
        )

    history = stores.read(path, rows)
    return points_of(
        [step if isinstance(step, int | float) else nan for step, _, _ in history],
        [nan if is_nan else INFINITIES.get(value, value) for _, value, is_nan in history],
        name,
        f"{path}, run {printable(run.name)}",
    )


def _models(beside: Path, connection: sqlite3.Connection) -> dict[str, list[LoggedModel]]:
    """Models that MLflow 3 logged, by run, in the order in which they were created."""
    if stores.lacking(connection, MODELS):
        return {}
    output_steps = {
        (run_id, model_id): step
        for run_id, model_id, step in stores.rows_of(
            connection,
            "SELECT source_id, destination_id, step FROM inputs WHERE source_type = 'RUN_OUTPUT' "
            "AND destination_type = 'MODEL_OUTPUT' AND typeof(step) = 'integer'",
        )
    }
    metric_steps: dict[tuple[Any, Any], set[int]] = defaultdict(set)
    for run_id, model_id, step in stores.rows_of(
        connection,
        "SELECT DISTINCT run_id, model_id, metric_step FROM logged_model_metrics "
        "WHERE typeof(metric_step) = 'integer'",
    ):
        metric_steps[run_id, model_id].add(step)
    models: dict[str, list[LoggedModel]] = defaultdict(list)
    for run_id, model_id, experiment_id, location in stores.rows_of(
        connection,
        "SELECT source_run_id, model_id, experiment_id, artifact_location FROM logged_models "
        "WHERE lifecycle_stage IS NOT 'deleted' ORDER BY creation_timestamp_ms, rowid",
    ):
        usual = _usual(beside, str(experiment_id), "models", str(model_id))
        models[str(run_id)].append(
            LoggedModel(
                folder=mlflow_folder.local_folder(location, *usual),
                output_step=output_steps.get((run_id, model_id)),
                metric_steps=frozenset(metric_steps[run_id, model_id]),
            )
        )
    return models


def _usual(beside: Path, *names: str) -> list[Path]:
    """Where a store with default settings keeps artifacts: in ``mlruns`` beside the database."""
    if not all(is_plain_name(name) for name in names):
        return []
    return [beside.joinpath("mlruns", *names, "artifacts")]
