"""Training: networks, algorithms, hyperparameters and seeds.

Names are loaded when first used, so that reading hyperparameters does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from checkwise.extras import naming_extras

if TYPE_CHECKING:
    from checkwise.data.seeds import seed_hash, training_seed
    from checkwise.train.algorithms import Algorithm, algorithm, algorithm_names, build_algorithm
    from checkwise.train.hparams import Hyperparameter, default_hparams, draw_hparams, hparams_for

__all__ = [
    "Algorithm",
    "Hyperparameter",
    "algorithm",
    "algorithm_names",
    "build_algorithm",
    "default_hparams",
    "draw_hparams",
    "hparams_for",
    "seed_hash",
    "training_seed",
]

_HOME = {
    "Algorithm": "checkwise.train.algorithms",
    "Hyperparameter": "checkwise.train.hparams",
    "algorithm": "checkwise.train.algorithms",
    "algorithm_names": "checkwise.train.algorithms",
    "build_algorithm": "checkwise.train.algorithms",
    "default_hparams": "checkwise.train.hparams",
    "draw_hparams": "checkwise.train.hparams",
    "hparams_for": "checkwise.train.hparams",
    "seed_hash": "checkwise.data.seeds",
    "training_seed": "checkwise.data.seeds",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_extras():
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
