"""MLflow's file store, ``mlruns``, and where MLflow keeps checkpoints on this machine."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import stores
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.log import MLFLOW, Log, Points, each
from checkwise.readers.request import Request, first_bytes, names_in, opened, read_bytes
from checkwise.words import counted, listed, printable, shown

META = "meta.yaml"
LONGEST_META = 1 << 20  # bytes
MOST_KEYS = 100_000
# Folders of artifacts with a step in their names: MLflow's own checkpoint callback (by step, or by
# epoch where epochs are the steps of its metrics) and transformers' MLflowCallback.
CHECKPOINT = re.compile(r"(?:checkpoint-|global_step_|epoch_)(\d{1,15})")
CHECKPOINT_FOLDERS = (".", "checkpoints")


@dataclass(frozen=True)
class Run:
    """One run's folder and what its ``meta.yaml`` says."""

    folder: Path
    facts: dict[str, str]
    experiment: str

    @property
    def name(self) -> str:
        own = self.facts.get("run_name") or _tag(self.folder, "mlflow.runName")
        return f"{self.experiment}/{own or self.folder.name}"

    @property
    def identifier(self) -> str:
        """The run's id, and its experiment for copies of one run."""
        return f"{self.folder.name}/{self.folder.parent.name}"


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
    """A log for every run that has metrics; deleted runs are left out."""
    with_metrics = [run for run in _runs(path) if _keys(run.folder / "metrics")]
    runs = [run for run in with_metrics if run.facts.get("lifecycle_stage") != "deleted"]
    deleted = len(with_metrics) - len(runs)
    if not runs:
        raise NoRecordsError(
            f"Expected a run with metrics, but the MLflow folder {path} has none"
            f"{' that is not deleted' if deleted else ''}: name the folder that holds "
            "<experiment>/<run>/metrics, or restore a run in MLflow.",
            code="empty",
        )
    names = stores.unique_run_names({run.identifier: run.name for run in runs})
    left_out = (f"{counted(deleted, 'deleted run')} left out",) if deleted else ()
    return [_log(run, names[run.identifier], left_out if run is runs[0] else ()) for run in runs]


def _runs(path: Path) -> Iterator[Run]:
    facts = meta(path)
    if _is_run(facts):
        yield Run(path, facts, meta(path.parent).get("name") or path.parent.name)
    elif _is_experiment(facts):
        # A deleted experiment takes its runs with it, whatever they say themselves.
        stage = {"lifecycle_stage": "deleted"} if facts.get("lifecycle_stage") == "deleted" else {}
        for folder in _folders(path):
            if _is_run(run := meta(folder)):
                yield Run(folder, run | stage, facts.get("name") or path.name)
    else:
        for folder in _folders(path):
            if _is_experiment(meta(folder)):
                yield from _runs(folder)


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
    if text in ("null", "~"):
        return ""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    return text


def _log(run: Run, name: str, notes: tuple[str, ...]) -> Log:
    metrics = run.folder / "metrics"
    keys = _keys(metrics)
    torn = [printable(key) for key in keys if _is_torn(metrics / key)]
    if torn:
        notes += (f"the last line of {listed(torn)} was cut off and is not read",)
    return Log(
        path=run.folder,
        trainer=MLFLOW,
        header=keys,
        columns=each(partial(_points, metrics)),
        run=name,
        files=_files(run),
        axes={"step": "step"},
        notes=notes,
    )


def _keys(metrics: Path) -> tuple[str, ...]:
    """Names of a run's metrics, in the order of the alphabet."""
    keys: list[str] = []
    for folder, _, files in os.walk(metrics):
        paths = [Path(folder, name) for name in files]
        keys += [path.relative_to(metrics).as_posix() for path in paths if path.is_file()]
        if len(keys) > MOST_KEYS:
            raise InputError(
                f"Expected at most {MOST_KEYS:,} metrics in a run, but {metrics} holds more: name "
                "the folder of another run.",
                code="unsupported",
            )
    return tuple(sorted(keys))


def _is_torn(path: Path) -> bool:
    """Whether a killed process left half a line: MLflow ends every line with a newline."""
    try:
        with opened(path) as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except InputError:  # which is of another metric than those that are read, or said when it is
        return False


def _points(metrics: Path, name: str) -> Points:
    path = metrics / name
    rows: list[tuple[int, float, str]] = []
    lines = read_bytes(path).decode("utf-8", "replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rows.append(_row(line.split(), number, path))
    rows.sort(key=lambda row: row[0])  # stable: values of one instant stay in order
    return points_of([row[1] for row in rows], [row[2] for row in rows], name, str(metrics.parent))


def _row(fields: list[str], number: int, path: Path) -> tuple[int, float, str]:
    """Time, step and value of a line; fields after the step name a data set."""
    try:
        time, value, *rest = fields
        return int(time), float(int(rest[0])) if rest else nan, value
    except (ValueError, OverflowError):
        raise InputError(
            f"Expected a line `timestamp value step`, but {path} line {number} is "
            f"{shown(' '.join(fields))}: remove that line.",
            code="format",
        ) from None


def points_of(steps: Sequence[float], cells: Sequence[Any], name: str, where: str) -> Points:
    """The cells of a metric in the order of their times.

    MLflow writes step 0 where none was given. Several values that all stand there have no step,
    and nothing tells which values of another metric belong to them.

    Raises:
        InputError: unlike values, all at step 0.
    """
    if not any(steps) and len(set(map(repr, cells))) > 1:
        raise InputError(
            f"Expected the step of every value, but the {len(cells)} values of {shown(name)} in "
            f"{where} all stand at step 0, where MLflow puts them without one: log them with "
            "mlflow.log_metric(name, value, step=step).",
            code="missing",
        )
    return Points(np.array(steps, np.float64), np.full(len(steps), nan), cells)


def _files(run: Run) -> dict[int, str]:
    models = []
    for output in _folders(run.folder / "outputs"):
        folder = run.folder.parent / "models" / output.name
        step = meta(output).get("step", "")
        models.append(
            LoggedModel(
                local_folder(meta(folder).get("artifact_location"), folder / "artifacts"),
                int(step) if step.isdecimal() and len(step) < 16 else None,
            )
        )
    artifacts = local_folder(run.facts.get("artifact_uri"), run.folder / "artifacts")
    return checkpoint_files(artifacts) | model_files(models)


@dataclass(frozen=True)
class LoggedModel:
    """A model that a run logged.

    Args:
        folder: where its files are; None where that is not on this machine.
        output_step: the step that it was logged with; MLflow writes 0 where none was given.
        metric_steps: steps of the run's metrics that name this model.
    """

    folder: Path | None
    output_step: int | None = None
    metric_steps: frozenset[int] = frozenset()


def model_files(models: Iterable[LoggedModel]) -> dict[int, str]:
    """Folder of the model of each step.

    Step 0 stands for "no step" too. It is believed where a metric at step 0 names the model, or
    where another model of the run has a step.
    """
    models = list(models)
    with_steps = any(model.output_step for model in models)
    files: dict[int, str] = {}
    for model in models:
        step = model.output_step if model.output_step or with_steps else None
        if not model.output_step and len(model.metric_steps) == 1:
            (step,) = model.metric_steps
        if step is not None and model.folder is not None:
            files[step] = str(model.folder)
    return files


def checkpoint_files(artifacts: Path | None) -> dict[int, str]:
    """Checkpoints among a run's artifacts whose names tell their step.

    Where two names tell the same step, neither is taken.
    """
    by_step: dict[int, list[str]] = defaultdict(list)
    for folder in (artifacts / name for name in CHECKPOINT_FOLDERS) if artifacts else ():
        for name in names_in(folder):
            if match := CHECKPOINT.fullmatch(name):
                by_step[int(match[1])].append(str(folder / name))
    return {step: paths[0] for step, paths in by_step.items() if len(paths) == 1}


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


def _tag(folder: Path, name: str) -> str:
    return first_bytes(folder / "tags" / name, 1000).decode("utf-8", "replace").strip()


def _folders(path: Path) -> list[Path]:
    """The folders in a folder, in the order of their names; none where it cannot be listed."""
    return [path / name for name in names_in(path) if _is_folder(path / name)]
