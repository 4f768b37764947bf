"""Where the checkpoint of a logged step is.

Three things can say it: the log itself, a pattern of the user's, and what the trainer calls its
files. Folders are only listed; no checkpoint is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from checkwise.readers.checkpoints.by_pattern import by_pattern
from checkwise.readers.checkpoints.by_trainer import by_trainer
from checkwise.readers.checkpoints.folders import above, is_whole
from checkwise.readers.checkpoints.logged_steps import LoggedSteps
from checkwise.readers.checkpoints.names import Checkpoints, some
from checkwise.readers.checkpoints.patterns import parse
from checkwise.readers.logs.trainers import Trainer

__all__ = ["Checkpoints", "find_checkpoints"]
_CHECKPOINT_FOLDER: Final = re.compile(r"checkpoint-[0-9]+")


def find_checkpoints(
    log_path: Path,
    trainer: Trainer,
    steps: Sequence[int],
    epochs: Mapping[int, int],
    *,
    pattern: str | None,
    told: Mapping[int, str],
) -> Checkpoints:
    """Find the checkpoint of each logged step.

    Args:
        log_path: the file or folder that the log was read from.
        trainer: what wrote it.
        steps: the steps of the log.
        epochs: the epoch of a step, as the log counts it; without any, steps are epochs.
        pattern: what the user calls checkpoints, relative to the log's folder or to the current
            one.
        told: paths that the log itself names; they win where they exist.

    Raises:
        InputError: the pattern is none, matches nothing, or matches one step twice.
    """
    base = _run_folder(log_path)
    log = LoggedSteps(steps, epochs)
    named = _told(told, steps, base)
    if pattern is not None:
        by_name = by_pattern(parse(os.path.expanduser(pattern)), base, log)
        return replace(by_name, files={**by_name.files, **named})
    if named:
        return Checkpoints(named)
    if told:
        note = f"none of the {len(told)} checkpoints that the log names is there "
        return Checkpoints({}, (f"{note}({some(list(told.values()))})",))
    return by_trainer(trainer, log_path, base, log)


def _run_folder(log_path: Path) -> Path:
    """The folder of a log; around it for a log that is part of a checkpoint."""
    folder = log_path if log_path.is_dir() else log_path.parent
    return above(folder) if _CHECKPOINT_FOLDER.fullmatch(folder.resolve().name) else folder


def _told(told: Mapping[int, str], steps: Sequence[int], base: Path) -> dict[int, str]:
    files = {}
    for step in steps:
        name = told.get(step)
        for path in (os.path.join(base, name), name) if name else ():
            if is_whole(Path(path)):
                files[step] = path
                break
    return files
