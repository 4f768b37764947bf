"""Source-validation logits by domain: what a calibrator is fitted on, and what that leaves.

``examples`` means pairs of logits [n, C] and labels [n]; all arithmetic is in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Logits: TypeAlias = dict[str, tuple[NDArray[np.floating[Any]], NDArray[np.int64]]]
# Domain → the independent unit (site, patient, burst) of every example.
Groups: TypeAlias = Mapping[str, NDArray[np.int64]]


def together(logits: Logits) -> tuple[FloatArray, IntArray]:
    """The examples of all domains, in the order of the domains' names."""
    if not logits:
        raise InputError("Expected the logits of at least one domain, but got none.", code="empty")
    classes = {np.shape(z)[1:] for z, _ in logits.values()}
    if len(classes) > 1:
        raise InputError(
            f"Expected the same classes in every domain, but got logits of shapes "
            f"{', '.join(str([*np.shape(z)]) for z, _ in logits.values())}: they are of different "
            "models.",
            code="differs",
        )
    names = sorted(logits)
    z = np.concatenate([np.asarray(logits[name][0], dtype=np.float64) for name in names])
    return z, np.concatenate([np.asarray(logits[name][1], dtype=np.int64) for name in names])


def units_together(groups: Groups) -> IntArray:
    """The groups of the examples of all domains, in the order of :func:`together`.

    A group lies in one domain: equal numbers of two domains are two groups.
    """
    names = sorted(groups)
    pairs = [np.stack([np.full(len(groups[d]), k), groups[d]]) for k, d in enumerate(names)]
    return np.unique(np.concatenate(pairs, axis=1), axis=1, return_inverse=True)[1].reshape(-1)


def count_errors(logits: Any, labels: Any) -> int:
    """How many examples are predicted incorrectly."""
    return int((np.asarray(logits).argmax(axis=1) != np.asarray(labels)).sum())


def log_probabilities(logits: FloatArray) -> FloatArray:
    """The logarithm of the softmax of every row."""
    z = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def nll_of(logits: FloatArray, labels: IntArray) -> FloatArray:
    """−log p of the label, for every example."""
    rows = np.take_along_axis(log_probabilities(logits), labels[:, None], axis=1)
    return np.asarray(-rows[:, 0])


def entries(logits: Logits, *, bins: int, bandwidth: float) -> dict[str, dict[str, Any]]:
    """Every metric of every domain, as a journal holds them."""
    by_domain: dict[str, dict[str, Any]] = {}
    for domain, (z, y) in logits.items():
        report = metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth)
        by_domain[domain] = {"n": report.n, "correct": report.correct, **report.values()}
    return by_domain


def probabilities(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Softmax of every row of ``logits`` [n, C], in double precision.

    Example:
        >>> probabilities(np.log([[0.75, 0.25]])).round(6)
        array([[0.75, 0.25]])
    """
    z = np.asarray(logits, dtype=np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
