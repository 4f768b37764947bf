"""Checkpoints that name weights otherwise than the model does: a Trainer loads them by name.

``save_pretrained`` renames the weights of some models, and ``from_pretrained`` renames them back. A
Trainer that resumes or loads the best model does not, and leaves the others as they are: a mixture
of two checkpoints. So the callback loads such a checkpoint itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError

WEIGHTS: Final = "model.safetensors"
INDEX: Final = f"{WEIGHTS}.index.json"


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
    """The weights of a checkpoint under the names that the model has for them.

    Raises:
        InputError: ``from_pretrained`` of the model's class does not read them all back.
    """
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
