"""Whether a checkpoint names its weights as the model does: a Trainer loads them by name.

``save_pretrained`` renames the weights of some models, and ``from_pretrained`` renames them back. A
Trainer that resumes or loads the best model does not, and leaves the others as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

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


def _names(folder: Path) -> set[str] | None:
    """The names in a checkpoint; None where it holds no whole model, as with adapters."""
    if (folder / WEIGHTS).is_file():
        from safetensors import safe_open

        with safe_open(folder / WEIGHTS, framework="np") as file:
            return set(file.keys())
    if (folder / INDEX).is_file():
        return set(json.loads((folder / INDEX).read_bytes())["weight_map"])
    return None
