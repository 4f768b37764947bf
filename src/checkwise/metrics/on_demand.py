"""Metrics that are computed only where they are asked for."""

from __future__ import annotations

from typing import Any

from checkwise.metrics.registry import METRICS


def smece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Smooth calibration error of the top label: an absolute gap, with no bins to choose.

    Błasiok and Nakkiran (2023), with the reflected Gaussian kernel; see `smooth_ece`.

    Example:
        >>> round(smece(probs=[[0.75, 0.25]], labels=[0]), 6)
        0.25
    """
    return METRICS["smece"](logits=logits, probs=probs, labels=labels)


def debiased_ece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Squared gap of the top label in 15 hard bins, less what chance explains; at least 0.

    Kumar, Liang and Ma (2019). A bin with fewer than two examples gives 0.

    Example:
        >>> p = [[0.9, 0.1]] * 4
        >>> round(debiased_ece(probs=p, labels=[1, 1, 1, 0]), 6)
        0.36
    """
    return METRICS["debiased_ece"](logits=logits, probs=probs, labels=labels)


def debiased_cwece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """The same for every class against the rest, with equal weight for every class.

    Example:
        >>> p = [[0.9, 0.1]] * 4
        >>> round(debiased_cwece(probs=p, labels=[1, 1, 1, 0]), 6)
        0.36
    """
    return METRICS["debiased_cwece"](logits=logits, probs=probs, labels=labels)
