"""Which algorithms there are, and how to add one's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from checkwise.errors import InputError
from checkwise.train.algorithms.base import Algorithm
from checkwise.train.algorithms.coral import CORAL
from checkwise.train.algorithms.erm import ERM
from checkwise.train.algorithms.groupdro import GroupDRO
from checkwise.train.algorithms.irm import IRM
from checkwise.train.algorithms.vrex import VREx
from checkwise.train.hparams import Hyperparameter, forget_hparams, register_hparams

Kind = TypeVar("Kind", bound=type[Algorithm])

ALGORITHMS: Final[dict[str, type[Algorithm]]] = {
    "ERM": ERM,
    "CORAL": CORAL,
    "GroupDRO": GroupDRO,
    "IRM": IRM,
    "VREx": VREx,
}


def algorithm(name: str, *, hparams: Sequence[Hyperparameter] = ()) -> Callable[[Kind], Kind]:
    """Register a training algorithm of your own: a subclass of ``Algorithm`` with an ``objective``.

    Args:
        name: what study files call it; letters, digits and underscores.
        hparams: hyperparameters that it alone reads, from ``self.hparams``.

    Example:
        >>> from torch.nn.functional import cross_entropy
        >>> strength = Hyperparameter("smoothing", 0.1, lambda random: random.uniform(0, 0.3))
        >>> @algorithm("Smoothed", hparams=[strength])
        ... class Smoothed(Algorithm):
        ...     def objective(self, forward):
        ...         by = self.hparams["smoothing"]
        ...         loss = cross_entropy(forward.logits, forward.labels, label_smoothing=by)
        ...         return loss, {"loss": loss}
        >>> unregister("Smoothed")
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise InputError(
            "Expected an algorithm's name of letters, digits and underscores, but got "
            f"{name!r}: choose such a name."
        )
    if name in ALGORITHMS:
        raise InputError(
            f"An algorithm named {name!r} exists already: choose another name.", code="exists"
        )

    def register(kind: Kind) -> Kind:
        if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
            raise InputError(
                f"Expected a subclass of cw.study.train.Algorithm for {name!r}, but got "
                f"{kind!r:.60}."
            )
        register_hparams([replace(row, algorithms=(name,)) for row in hparams])
        kind.reads = tuple(dict.fromkeys((*kind.reads, *(row.name for row in hparams))))
        ALGORITHMS[name] = kind
        return kind

    return register


def unregister(name: str) -> None:
    """Forget an algorithm and its hyperparameters (for notebooks that define one again)."""
    ALGORITHMS.pop(name, None)
    forget_hparams(name)
