"""The folders ``checkpoint-<step>`` of a Trainer: which are whole, and what loads from them.

``save_pretrained`` renames the weights of some models, and ``from_pretrained`` renames them back. A
Trainer that resumes or loads the best model does not, and leaves the others as they are: a mixture
of two checkpoints. So the callback loads such a checkpoint itself.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.store import Home, writing

CHECKPOINT: Final = re.compile(r"checkpoint-([0-9]{1,15})")
STATE: Final = "trainer_state.json"
SENTINEL: Final = "checkpoint-is-incomplete.txt"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = f"{WEIGHTS}.index.json"

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


def whole_checkpoints(output_dir: str | Path) -> dict[int, Path]:
    """The whole checkpoints in a folder by step."""
    return {step: path for step, path in _candidates(output_dir).items() if is_whole(path)}


def set_aside_incomplete(output_dir: str | Path) -> None:
    """Rename half-written checkpoints, which ``resume_from_checkpoint=True`` would load.

    Nothing is deleted: ``checkpoint-30`` becomes ``incomplete-checkpoint-30``.
    """
    for path in _candidates(output_dir).values():
        if not is_whole(path):
            _set_aside(path, "incomplete-", "half-written")


def set_aside_later(output_dir: str | Path, paths: Mapping[int, Path], step: int) -> None:
    """Rename the checkpoints in a folder after a step from which training goes on another time.

    A save over an old checkpoint that is interrupted could not be told from a whole one. Nothing is
    deleted: ``checkpoint-30`` becomes ``earlier-checkpoint-30``.
    """
    home = Home((Path(output_dir),))
    for later, path in paths.items():
        if later > step and path.is_dir() and not home.objection(path):
            _set_aside(path, "earlier-", "of an earlier training")


def _candidates(output_dir: str | Path) -> dict[int, Path]:
    root = Path(output_dir)
    if not root.is_dir():
        return {}
    return {
        int(match[1]): path
        for path in sorted(root.iterdir())
        if (match := CHECKPOINT.fullmatch(path.name)) and path.is_dir() and not path.is_symlink()
    }


def _set_aside(path: Path, prefix: str, why: str) -> None:
    number, free = 1, path.with_name(prefix + path.name)
    while free.exists():
        number += 1
        free = path.with_name(f"{prefix}{path.name}-{number}")
    with writing(path.parent, free.name, then="nothing was deleted"):
        path.rename(free)
    _log.warning("%s is %s: renamed to %s", path, why, free.name)


def difference(folder: Path, model: Any) -> str | None:
    """What a Trainer would not load from a checkpoint, in words; None where all is as it should be.

    Weights that share their memory with one that was saved are not missing: they are tied.
    """
    saved = _names(folder)
    if saved is None:
        return None
    weights = model.state_dict()
    there = {weights[name].data_ptr() for name in saved & weights.keys()}
    missing = [
        name
        for name, weight in weights.items()
        if name not in saved and weight.data_ptr() not in there
    ]
    if not missing:
        return None
    other = sorted(saved - weights.keys())
    return (
        f"{len(missing)} of the model's {len(weights)} weights are not in {folder} under their "
        f"names, as {missing[0]}" + (f"; other names are there, as {other[0]}" if other else "")
    )


def weights_of(folder: Path, model: Any) -> dict[str, Any]:
    """The weights of a checkpoint under the names that the model has for them."""
    lost: object = None
    try:
        saved, said = type(model).from_pretrained(folder, output_loading_info=True)
        lost = sorted(said["missing_keys"]) or model.state_dict().keys() ^ saved.state_dict().keys()
    except Exception as error:  # of anybody's class
        lost = error
    if lost:
        raise InputError(
            f"Expected a checkpoint that a Trainer can load, but {difference(folder, model)}, and "
            f"{type(model).__name__}.from_pretrained does not read them back ({lost!s:.200}): "
            "let it, or train without load_best_model_at_end and load the chosen checkpoint "
            "yourself.",
            code="unsupported",
        )
    return dict(saved.state_dict())


def _names(folder: Path) -> set[str] | None:
    """The names in a checkpoint; None where it holds no whole model, as with adapters."""
    if (folder / WEIGHTS).is_file():
        from safetensors import safe_open

        with safe_open(folder / WEIGHTS, framework="np") as file:
            return set(file.keys())
    if (folder / INDEX).is_file():
        return set(json.loads((folder / INDEX).read_bytes())["weight_map"])
    return None
