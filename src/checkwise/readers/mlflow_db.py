"""MLflow's sqlite store, ``mlflow.db``: the runs of all its experiments.

The package ``mlflow`` would bring more than eighty others, and it refuses stores of older versions
until they are migrated; what is needed are three tables, and two more for the models of MLflow 3.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from functools import partial
from math import inf, nan
from pathlib import Path
from sys import float_info
from typing import Any, Final

from checkwise.readers import stores
from checkwise.readers.log import Log, Points
from checkwise.readers.mlflow_folder import Run, local_folder, logs_of, points_of
from checkwise.readers.request import Request
from checkwise.store import is_plain_name
from checkwise.words import printable

OF_MLFLOW: Final = {
    "experiments": ("experiment_id",), "runs": ("run_uuid",), "metrics": ("run_uuid",),
}  # fmt: skip
_REQUIRED: Final = {
    "experiments": ("experiment_id", "name", "lifecycle_stage"),
    "runs": ("run_uuid", "name", "experiment_id", "lifecycle_stage", "artifact_uri"),
    "metrics": ("run_uuid", "key", "value", "timestamp", "step", "is_nan"),
}
# Since MLflow 3; without them no model is tied to a step.
_MODELS: Final = {
    "logged_models": (
        "model_id", "source_run_id", "experiment_id", "artifact_location", "lifecycle_stage",
        "creation_timestamp_ms",
    ),
    "inputs": ("source_type", "source_id", "destination_type", "destination_id", "step"),
}  # fmt: skip
# MLflow has no infinity: it stores the largest number instead.
_INFINITIES: Final = {float_info.max: inf, -float_info.max: -inf}


def recognises(path: Path) -> bool:
    """Whether a file is an sqlite database with MLflow's tables."""
    return path.is_file() and stores.has_tables(path, OF_MLFLOW)


def read(path: Path, request: Request) -> list[Log]:
    """A log for every run that has metrics."""
    stores.check_columns(path, _REQUIRED, "upgrade the store with `mlflow db upgrade sqlite:///…`")
    return logs_of(path, stores.read(path, partial(_runs, path)))


def _runs(path: Path, connection: sqlite3.Connection) -> list[Run]:
    keys: dict[Any, list[str]] = defaultdict(list)
    for run, key in stores.rows_of(
        connection, "SELECT run_uuid, key FROM metrics GROUP BY run_uuid, key ORDER BY MIN(rowid)"
    ):
        keys[run].append(str(key))
    models = _models(path, connection)
    runs = []
    for run, name, number, experiment, uri, is_deleted in stores.rows_of(
        connection,
        "SELECT run_uuid, runs.name, runs.experiment_id, experiments.name, artifact_uri, "
        "'deleted' IN (runs.lifecycle_stage, experiments.lifecycle_stage) FROM runs "
        "LEFT JOIN experiments ON experiments.experiment_id = runs.experiment_id "
        "ORDER BY runs.rowid",
    ):
        called = f"{experiment or number}/{name or run}"
        runs.append(
            Run(
                path=path,
                identifier=str(run),
                name=called,
                is_deleted=bool(is_deleted),
                keys=tuple(keys[run]),
                points=partial(_points, path, run, f"{path}, run {printable(called)}"),
                artifacts=local_folder(uri, *_usual(path, number, run)),
                models=models[run],
            )
        )
    return runs


def _models(
    path: Path, connection: sqlite3.Connection
) -> dict[Any, list[tuple[Path | None, int | None]]]:
    """Folder and step of the models that MLflow 3 logged, by run, in the order of their creation.

    A model without a step has 0.
    """
    models: dict[Any, list[tuple[Path | None, int | None]]] = defaultdict(list)
    if stores.lacking(connection, _MODELS):
        return models
    for run, model, number, location, step in stores.rows_of(
        connection,
        "SELECT source_run_id, model_id, experiment_id, artifact_location, step "
        "FROM logged_models JOIN inputs ON source_id = source_run_id "
        "AND destination_id = model_id AND source_type = 'RUN_OUTPUT' "
        "AND destination_type = 'MODEL_OUTPUT' "
        "WHERE lifecycle_stage IS NOT 'deleted' ORDER BY creation_timestamp_ms",
    ):
        folder = local_folder(location, *_usual(path, number, "models", model))
        models[run].append((folder, step if isinstance(step, int) else None))
    return models


def _usual(path: Path, *names: object) -> list[Path]:
    """Where a store with default settings keeps artifacts: in ``mlruns`` beside the database."""
    parts = [str(name) for name in names]
    if not all(map(is_plain_name, parts)):
        return []
    return [path.parent.joinpath("mlruns", *parts, "artifacts")]


def _points(path: Path, run: object, where: str, name: str) -> Points:
    history = stores.read(
        path,
        lambda connection: stores.rows_of(
            connection,
            "SELECT step, value, is_nan FROM metrics WHERE run_uuid = ? AND key = ? "
            "ORDER BY timestamp, rowid",
            run,
            name,
        ),
    )
    return points_of(
        [step if isinstance(step, int | float) else nan for step, _, _ in history],
        [nan if is_nan else _INFINITIES.get(value, value) for _, value, is_nan in history],
        name,
        where,
    )
