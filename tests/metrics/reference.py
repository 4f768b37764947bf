"""The definitions, written out literally in float64; slow and independent of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def softmax(z: Array) -> Array:
    z = z.astype(np.float64)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def nll_from_logits(z: Array, y: Array) -> float:
    z = z.astype(np.float64)
    rows = []
    for row, label in zip(z, y, strict=True):
        others = np.delete(row, label)
        # -log p[y] = log(1 + sum_{c != y} exp(z_c - z_y)), shifted where that would overflow.
        shift = max(0.0, float(np.max(others - row[label])))
        inner = np.sum(np.exp(others - row[label] - shift))
        rows.append(np.log1p(inner) if shift == 0 else shift + np.log(np.exp(-shift) + inner))
    return float(np.mean(rows))


def bars(weights: Array, values: Array) -> Array:
    """Weighted means over examples (axis 0), denominators clamped at 1e-8."""
    return np.asarray((weights * values).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-8))


def soft_ece(p: Array, a: Array, bins: int, h: float) -> float:
    u = p.max(axis=1)[:, None]
    centres = np.array([(b - 1) / (bins - 1) for b in range(1, bins + 1)])[None, :]
    w = np.exp(-((u - centres) ** 2) / (2 * h * h))
    w = w / np.maximum(w.sum(axis=1, keepdims=True), 1e-8)
    gaps = bars(w, a[:, None].astype(float)) - bars(w, u)
    return float(np.sum(w.sum(axis=0) / len(p) * gaps**2))


def soft_cwece(p: Array, y: Array, bins: int, h: float) -> float:
    centres = np.array([(b - 1) / (bins - 1) for b in range(1, bins + 1)])[None, :]
    parts = []
    for c in range(p.shape[1]):
        pc = p[:, c][:, None]
        v = pc * np.exp(-((pc - centres) ** 2) / (2 * h * h))
        gaps = bars(v, (y == c)[:, None].astype(float)) - bars(v, pc)
        parts.append(np.sum(v.sum(axis=0) / max(v.sum(), 1e-8) * gaps**2))
    return float(np.mean(parts))


def hard_gap(p: Array, a: Array, bins: int) -> float:
    """sum_b |B_b|/n |mean a - mean p| over ((b-1)/B, b/B], zero in the first."""
    error = 0.0
    for b in range(1, bins + 1):
        low, high = (b - 1) / bins, b / bins
        inside = (p > low) & (p <= high)
        if b == 1:
            inside |= p == 0
        if b == bins:
            inside |= p > 1  # given probabilities may exceed 1 by rounding
        if inside.any():
            error += inside.mean() * abs(a[inside].mean() - p[inside].mean())
    return float(error)


def evaluate(
    y: Array,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    bins: int,
    bandwidth: float,
) -> dict[str, float]:
    p = softmax(logits) if logits is not None else np.asarray(probs, dtype=np.float64)
    scores = p if logits is None else logits
    predicted = np.array([list(row).index(max(row)) for row in scores])
    a = predicted == y
    n, classes = p.shape
    onehot = np.eye(classes)[y]
    label = p[np.arange(n), y]
    return {
        "accuracy": float(a.mean()),
        "nll": nll_from_logits(logits, y) if logits is not None else float(-np.log(label).mean()),
        "brier": float(((p - onehot) ** 2).sum(axis=1).mean()),
        "ece": soft_ece(p, a, bins, bandwidth),
        "cwece": soft_cwece(p, y, bins, bandwidth),
        "hard_ece": hard_gap(p.max(axis=1), a, bins),
        "hard_cwece": sum(
            float((y == c).mean()) * hard_gap(p[:, c], y == c, bins) for c in range(classes)
        ),
        "worst_class_accuracy": float(min(a[y == c].mean() for c in np.unique(y))),
    }
