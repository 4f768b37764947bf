"""MLflow's file store, ``mlruns``, and what its runs have in common with those of its database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import stores
from checkwise.readers.log import MLFLOW, Log, Points, each
from checkwise.readers.request import NoRecordsError, Request, first_bytes, names_in, read_bytes
from checkwise.words import counted, shown

META: Final = "meta.yaml"
LONGEST_META: Final = 1 << 20  # bytes


@dataclass(frozen=True)
class Run:
    """One run of a store: what tells it apart, its metrics, and where its checkpoints may be.

    Args:
        path: what its log is called after.
        identifier: differs from run to run, as its name need not.
        name: of its experiment and its own.
        is_deleted: whether MLflow calls it or its experiment so.
        keys: the names of its metrics.
        points: the history of a metric.
        artifacts: the folder of its artifacts; None where that is not on this machine.
        models: the folder of each model that it logged, None likewise, and the step of each.
    """

    path: Path
    identifier: str
    name: str
    is_deleted: bool
    keys: tuple[str, ...]
    points: Callable[[str], Points]
    artifacts: Path | None
    models: Sequence[tuple[Path | None, int | None]]


def logs_of(path: Path, every: Iterable[Run]) -> list[Log]:
    """A log for every run that has metrics; deleted runs are left out."""
    with_metrics = [run for run in every if run.keys]
    runs = [run for run in with_metrics if not run.is_deleted]
    deleted = len(with_metrics) - len(runs)
    if not runs:
        raise NoRecordsError(
            f"Expected a run with metrics, but the MLflow store {path} has none"
            f"{' that is not deleted' if deleted else ''}: log metrics with "
            "mlflow.log_metric(name, value, step=step), or restore a run in MLflow.",
            code="empty",
        )
    names = stores.unique_run_names({run.identifier: run.name for run in runs})
    left_out = (f"{counted(deleted, 'deleted run')} left out",) if deleted else ()
    return [
        Log(
            path=run.path,
            trainer=replace(MLFLOW, folders=_places(run)),
            header=run.keys,
            columns=each(run.points),
            run=names[run.identifier],
            files=_model_files(run.models),
            notes=left_out if run is runs[0] else (),
        )
        for run in runs
    ]


def _places(run: Run) -> tuple[str, ...]:
    """Where its checkpoints may be, as seen from the folder of its log."""
    if run.artifacts is None:
        return ()
    folder = run.path if run.path.is_dir() else run.path.parent
    away = run.artifacts.is_absolute()
    place = run.artifacts if away else Path(os.path.relpath(run.artifacts, folder))
    return str(place), str(place / "checkpoints")


def _model_files(models: Sequence[tuple[Path | None, int | None]]) -> dict[int, str]:
    """Folder of the model of each step; 0 also stands for none, unless another model has a step."""
    has_steps = any(step for _, step in models)
    return {step: str(f) for f, step in models if f is not None and step is not None and has_steps}


def points_of(steps: Sequence[float], cells: Sequence[Any], name: str, where: object) -> Points:
    """The cells of a metric in the order of their times.

    MLflow writes step 0 where none was given. Several values that all stand there have no step,
    and nothing tells which values of another metric belong to them.
    """
    if not any(steps) and len(set(map(repr, cells))) > 1:
        raise InputError(
            f"Expected the step of every value, but the {len(cells)} values of {shown(name)} in "
            f"{where} all stand at step 0, where MLflow puts them without one: log them with "
            "mlflow.log_metric(name, value, step=step).",
            code="missing",
        )
    return Points(np.array(steps, np.float64), np.full(len(steps), nan), cells)


def local_folder(uri: object, *usual: Path) -> Path | None:
    """The folder that a URI names, or else the first of the usual places that exists.

    A store that was moved names folders of the machine that wrote it.
    """
    named = _path(uri) if isinstance(uri, str) else None
    return next((place for place in (named, *usual) if place and _is_folder(place)), None)


def _path(uri: str) -> Path | None:
    """The absolute path in a ``file:`` URI or plain path; None for other stores and hosts."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme and not (parts.scheme == "file" and parts.netloc in ("", "localhost")):
        return None
    path = Path(unquote(parts.path) if parts.scheme else uri)
    return path if path.is_absolute() else None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a null byte, a name too long
        return False


def own_folders(path: Path) -> set[str]:
    """All folders in one that is recognised: experiments, runs, their models and artifacts."""
    return set(names_in(path))


def recognises(path: Path) -> bool:
    """Whether a folder is a run, an experiment, or holds experiments."""
    facts = meta(path)
    if facts:
        return _is_run(facts) or _is_experiment(facts)
    return any(_is_experiment(meta(folder)) for folder in _folders(path))


def read(path: Path, request: Request) -> list[Log]:
    """A log for every run that has metrics."""
    return logs_of(path, _runs(path))


def _runs(path: Path) -> Iterator[Run]:
    facts = meta(path)
    if _is_run(facts):
        yield _run(path, facts, meta(path.parent))
    elif _is_experiment(facts):
        runs = ((folder, meta(folder)) for folder in _folders(path))
        yield from (_run(folder, run, facts) for folder, run in runs if _is_run(run))
    else:
        for folder in _folders(path):
            if _is_experiment(meta(folder)):
                yield from _runs(folder)


def _run(folder: Path, facts: dict[str, str], experiment: dict[str, str]) -> Run:
    metrics = folder / "metrics"
    found = sorted(path for path in metrics.rglob("*") if path.is_file())
    models = []
    for output in _folders(folder / "outputs"):
        model, step = folder.parent / "models" / output.name, meta(output).get("step", "")
        named = local_folder(meta(model).get("artifact_location"), model / "artifacts")
        models.append((named, int(step) if step.isdecimal() and len(step) < 16 else None))
    return Run(
        path=folder,
        identifier=f"{folder.name}/{folder.parent.name}",  # there may be copies of one run
        name=f"{experiment.get('name') or folder.parent.name}"
        f"/{facts.get('run_name') or folder.name}",
        # A deleted experiment takes its runs with it, whatever they say themselves.
        is_deleted="deleted" in (facts.get("lifecycle_stage"), experiment.get("lifecycle_stage")),
        keys=tuple(path.relative_to(metrics).as_posix() for path in found),
        points=partial(_points, metrics),
        artifacts=local_folder(facts.get("artifact_uri"), folder / "artifacts"),
        models=models,
    )


def _points(metrics: Path, name: str) -> Points:
    path = metrics / name
    # MLflow ends every line: what stands behind the last end was cut off.
    lines = read_bytes(path).decode("utf-8", "replace").split("\n")[:-1]
    rows = [_row(line, number, path) for number, line in enumerate(lines, 1) if line.strip()]
    rows.sort(key=lambda row: row[0])  # stable: values of one instant stay in order
    return points_of([row[1] for row in rows], [row[2] for row in rows], name, metrics.parent)


def _row(line: str, number: int, path: Path) -> tuple[int, float, str]:
    """Time, step and value of a line; fields after the step name a data set."""
    try:
        time, value, step, *_ = line.split()
        return int(time), float(int(step)), value
    except (ValueError, OverflowError):
        raise InputError(
            f"Expected a line `timestamp value step`, but {path} line {number} is "
            f"{shown(line)}: remove that line.",
            code="format",
        ) from None


def _is_run(facts: dict[str, str]) -> bool:
    return ("run_id" in facts or "run_uuid" in facts) and "artifact_uri" in facts


def _is_experiment(facts: dict[str, str]) -> bool:
    return "experiment_id" in facts and "artifact_location" in facts and "model_id" not in facts


def meta(folder: Path) -> dict[str, str]:
    """The top-level ``key: value`` lines of a folder's ``meta.yaml``; empty where there is none."""
    facts: dict[str, str] = {}
    for line in first_bytes(folder / META, LONGEST_META).decode("utf-8", "replace").split("\n"):
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace():
            facts[key.strip()] = _scalar(value.strip())
    return facts


def _scalar(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    return "" if text == "null" else text


def _folders(path: Path) -> list[Path]:
    """The folders in a folder, in the order of their names; none where it cannot be listed."""
    return [path / name for name in names_in(path) if _is_folder(path / name)]
