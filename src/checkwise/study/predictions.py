"""Saved logits of a run: source validation for cross-fitting, held-out for curves and diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics.examples import PerExample, per_example
from checkwise.store import layout

FloatArray = NDArray[np.float64]
Pair = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits [n, C] and labels [n] of one checkpoint on one domain."""

    step: int
    domain: str
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def probabilities(self) -> FloatArray:
        """Softmax of the logits."""
        z = self.logits.astype(np.float64)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @property
    def examples(self) -> PerExample:
        """Confidence, correctness and NLL of every example."""
        return per_example(logits=self.logits, labels=self.labels)


def has_heldout(folder: Path, domain: str, step: int) -> bool:
    """Whether the held-out logits of a step were saved."""
    return (folder / layout.heldout_predictions_file(domain, step)).is_file()


def read_heldout(folder: Path, domain: str, step: int) -> Predictions:
    """Held-out logits of one step."""
    path = folder / layout.heldout_predictions_file(domain, step)
    logits, labels = _read(path)[domain]
    return Predictions(step, domain, logits, labels)


def has_source(folder: Path, step: int) -> bool:
    """Whether the source-validation logits of a step were saved."""
    return (folder / layout.source_predictions_file(step)).is_file()


def read_source(folder: Path, step: int) -> dict[str, Pair]:
    """Source-validation logits and labels of one step, by domain."""
    return _read(folder / layout.source_predictions_file(step))


def _read(path: Path) -> dict[str, Pair]:
    try:
        with np.load(path, allow_pickle=False) as saved:
            names = [name.removesuffix(".logits") for name in saved if name.endswith(".logits")]
            return {name: (saved[f"{name}.logits"], saved[f"{name}.labels"]) for name in names}
    except FileNotFoundError:
        raise InputError(
            f'Expected saved logits in {path}, but there are none: train with `logits = "all"` '
            "in the study to keep them."
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"Expected logits and labels by domain, but got: {error} in {path}: `checkwise verify` "
            "says what to do."
        ) from None
