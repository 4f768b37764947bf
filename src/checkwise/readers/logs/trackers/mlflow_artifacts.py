"""Where MLflow keeps the checkpoints of a run, as far as that is a folder of this machine."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Folders of artifacts with a step in their names: MLflow's own checkpoint callback (by step, or by
# epoch where epochs are the steps of its metrics) and transformers' MLflowCallback.
CHECKPOINT = re.compile(r"(?:checkpoint-|global_step_|epoch_)(\d{1,15})")
CHECKPOINT_FOLDERS = (".", "checkpoints")
MOST_ENTRIES = 100_000


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
        step = _step(model, with_steps=with_steps)
        if step is not None and model.folder is not None:
            files[step] = str(model.folder)
    return files


def _step(model: LoggedModel, *, with_steps: bool) -> int | None:
    if model.output_step:
        return model.output_step
    if len(model.metric_steps) == 1:
        (step,) = model.metric_steps
        return step
    return model.output_step if with_steps else None


def checkpoint_files(artifacts: Path | None) -> dict[int, str]:
    """Checkpoints among a run's artifacts whose names tell their step.

    Where two names tell the same step, neither is taken.
    """
    by_step: dict[int, list[str]] = defaultdict(list)
    if artifacts is None:
        return {}
    for folder in CHECKPOINT_FOLDERS:
        for name in _names(artifacts / folder):
            match = CHECKPOINT.fullmatch(name)
            if match:
                by_step[int(match[1])].append(str(artifacts / folder / name))
    return {step: paths[0] for step, paths in by_step.items() if len(paths) == 1}


def local_folder(uri: object, *usual: Path) -> Path | None:
    """The folder that a URI names, or else the first of the usual places that exists.

    A store that was moved names folders of the machine that wrote it.
    """
    named = _path(uri) if isinstance(uri, str) else None
    for place in (named, *usual):
        if place is not None and _is_folder(place):
            return place
    return None


def _path(uri: str) -> Path | None:
    """The absolute path in a ``file:`` URI or plain path; None for other stores and hosts."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if not parts.scheme:
        path = Path(uri)
    elif parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
    else:
        return None
    return path if path.is_absolute() else None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a null byte, a name too long
        return False


def _names(folder: Path) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(names) == MOST_ENTRIES:
                    break
                names.append(entry.name)
    except OSError:
        return []
    return sorted(names)
