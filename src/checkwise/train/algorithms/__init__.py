"""Training algorithms by name; a new one is a file, a line in `ALGORITHMS` and a test."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from torch import nn

from checkwise.errors import InputError
from checkwise.train.algorithms.base import Algorithm, Forward, Minibatch
from checkwise.train.algorithms.registry import ALGORITHMS, algorithm
from checkwise.train.hparams import known_names, table, unknown_name

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Forward",
    "Minibatch",
    "algorithm",
    "algorithm_names",
    "build_algorithm",
]


def algorithm_names() -> tuple[str, ...]:
    """The names `build_algorithm` knows."""
    return tuple(ALGORITHMS)


def check_algorithm(name: str) -> None:
    """Refuse a name that `build_algorithm` does not know."""
    if name not in ALGORITHMS:
        raise InputError(
            f"Expected an algorithm among {', '.join(ALGORITHMS)}, but got {name!r}: choose one "
            "of these names, or add --plugin with the file that defines it.",
            code="unknown",
        )


def build_algorithm(
    name: str, featurizer: nn.Module, classifier: nn.Module, hparams: Mapping[str, float]
) -> Algorithm:
    """The algorithm `name` on `classifier ∘ featurizer`, hyperparameters under DomainBed's names.

    `lr` is required, since its default depends on the data; the others have defaults. Names that
    this library does not use (`resnet18`, `data_augmentation`, …) are ignored, unless they look
    like a misspelling.

    Example:
        >>> from torch import nn
        >>> alg = build_algorithm("VREx", nn.Linear(8, 4), nn.Linear(4, 3), {"lr": 1e-3})
        >>> alg.hparams["vrex_lambda"]
        10.0
    """
    check_algorithm(name)
    known = known_names()
    for hparam in hparams:
        if hparam not in known and difflib.get_close_matches(hparam, known, n=1, cutoff=0.85):
            raise InputError(unknown_name(hparam), code="unknown")
    if "lr" not in hparams:
        raise InputError(
            f"Expected a learning rate among the hyperparameters, but got {sorted(hparams)}: "
            "add `lr`, for example 5e-5 for images and 1e-3 for features.",
            code="missing",
        )
    kind = ALGORITHMS[name]
    rows = {row.name: row for row in table() if row.name in ("lr", "weight_decay", *kind.reads)}
    read = {key: row.checked(hparams.get(key, row.default)) for key, row in rows.items()}
    return kind(featurizer, classifier, read)
