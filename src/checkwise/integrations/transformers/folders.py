"""The folders ``checkpoint-<step>`` of a Trainer: which are whole, and setting aside the rest."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from checkwise.store import Home, writing

CHECKPOINT: Final = re.compile(r"checkpoint-([0-9]{1,15})")
STATE: Final = "trainer_state.json"
SENTINEL: Final = "checkpoint-is-incomplete.txt"
ASIDE: Final = "incomplete-"
EARLIER: Final = "earlier-"

_log = logging.getLogger(__name__)


def folder_of(output_dir: str | Path, step: int) -> Path:
    """Where a Trainer saves the checkpoint of a step."""
    return Path(output_dir) / f"checkpoint-{step}"


def is_whole(folder: Path) -> bool:
    """Whether a checkpoint was saved to its end.

    A Trainer writes ``trainer_state.json`` last, so a folder without a readable one is the rest of
    a save that was interrupted. A save at the request of a scheduler marks itself besides.
    """
    if (folder / SENTINEL).exists():
        return False
    try:
        state = json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(state, dict) and "global_step" in state


def checkpoints(output_dir: str | Path) -> dict[int, Path]:
    """The whole checkpoints in a folder by step."""
    return {step: path for step, path in _candidates(output_dir).items() if is_whole(path)}


def set_aside_incomplete(output_dir: str | Path) -> list[Path]:
    """Rename half-written checkpoints, which ``resume_from_checkpoint=True`` would load.

    Nothing is deleted: ``checkpoint-30`` becomes ``incomplete-checkpoint-30``.
    """
    moved = []
    for path in _candidates(output_dir).values():
        if not is_whole(path):
            target = _set_aside(path, ASIDE)
            _log.warning("%s is half-written: renamed to %s", path, target.name)
            moved.append(target)
    return moved


def set_aside_later(output_dir: str | Path, paths: Mapping[int, Path], step: int) -> list[Path]:
    """Rename the checkpoints in a folder after a step from which training goes on another time.

    A save over an old checkpoint that is interrupted could not be told from a whole one. Nothing is
    deleted: ``checkpoint-30`` becomes ``earlier-checkpoint-30``.
    """
    home, moved = Home((Path(output_dir),)), []
    for later, path in paths.items():
        if later > step and path.is_dir() and not home.objection(path):
            target = _set_aside(path, EARLIER)
            _log.warning("%s is of an earlier training: renamed to %s", path, target.name)
            moved.append(target)
    return moved


def _candidates(output_dir: str | Path) -> dict[int, Path]:
    root = Path(output_dir)
    if not root.is_dir():
        return {}
    return {
        int(match[1]): path
        for path in sorted(root.iterdir())
        if (match := CHECKPOINT.fullmatch(path.name)) and path.is_dir() and not path.is_symlink()
    }


def _set_aside(path: Path, prefix: str) -> Path:
    number, free = 1, path.with_name(prefix + path.name)
    while free.exists():
        number += 1
        free = path.with_name(f"{prefix}{path.name}-{number}")
    with writing(path.parent, free.name, then="nothing was deleted"):
        path.rename(free)
    return free
