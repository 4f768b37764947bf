"""Which source examples were correct at a checkpoint, and their NLL, as a run saved them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store.saved_logits import read_arrays

# Domain → correct [n], NLL [n], labels [n].
SavedOutcomes: TypeAlias = dict[
    str, tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]
]


def read_outcomes(folder: Path, name_at: Callable[[int], str], step: int) -> SavedOutcomes:
    """The outcomes of one step by domain."""
    name = name_at(step)
    arrays = read_arrays(
        folder,
        name,
        (".correct", ".nll", ".labels"),
        what=f"outcomes of step {step}",
        advice=lambda: "`checkwise study status --verify` says what happened to it",
    )
    domains = sorted(n.removesuffix(".correct") for n in arrays if n.endswith(".correct"))
    found: SavedOutcomes = {}
    for domain in domains:
        labels, nll = arrays.get(f"{domain}.labels"), arrays.get(f"{domain}.nll")
        bits = arrays[f"{domain}.correct"]
        if (
            labels is None
            or nll is None
            or labels.ndim != 1
            or nll.shape != labels.shape
            or bits.dtype != np.uint8
            or bits.shape != ((len(labels) + 7) // 8,)
        ):
            raise InputError(
                f"Expected a bit, an NLL and a label per example of {domain!r}, but got other "
                f"arrays in {folder / name}: `checkwise study status --verify` says what "
                "happened to it.",
                code="damaged",
            )
        correct = np.unpackbits(bits, count=len(labels)).astype(np.bool_)
        found[domain] = (correct, nll.astype(np.float64), labels.astype(np.int64))
    return found
