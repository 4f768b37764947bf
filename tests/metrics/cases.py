"""Random and adversarial predictions, named so that a failing test says which."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Case = tuple[Array, Array, int, float]


def random_cases() -> dict[str, Case]:
    """Sizes, scales, types and bins drawn at random."""
    found: dict[str, Case] = {}
    for seed in range(320):
        rng = np.random.default_rng(seed)
        classes = int(rng.choice([2, 3, 7, 8, 10, 31, 33, 65, 129, 345]))
        n = int(rng.choice([1, 2, 3, 5, 17, 64, 65, 150])) if classes < 129 else 9
        z = rng.standard_normal((n, classes)) * rng.choice([1e-3, 1, 4, 20])
        z = z.astype(rng.choice(["float32", "float64"]))
        y = rng.integers(0, classes, n)
        if rng.random() < 0.3:
            y = z.argmax(1)
        bins = int(rng.choice([2, 5, 10, 15, 15, 15, 40, 100]))
        bandwidth = float(rng.choice([0.01, 0.02, 0.05, 0.1, 0.1, 0.1, 0.3, 1.0]))
        found[f"random-{seed}"] = (z, y, bins, bandwidth)
    return found


def adversarial_cases() -> dict[str, Case]:
    """Each shape of trouble at each of several settings of the bins."""
    shapes = _shapes()
    settings = [(15, 0.1), (15, 0.01), (100, 0.1), (5, 0.01), (2, 0.03), (400, 0.013), (15, 2.0)]
    return {
        f"{name}-{bins}-{bandwidth}": (*shape, bins, bandwidth)
        for name, shape in shapes.items()
        for bins, bandwidth in settings
    }


def many_classes() -> Case:
    """As many classes as promised; the literal version takes seconds."""
    rng = np.random.default_rng(7)
    z = (rng.standard_normal((3, 10_000)) * 3).astype(np.float32)
    return z, rng.integers(0, 10_000, 3), 15, 0.1


def _shapes() -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(20260101)

    def labels(n: int, classes: int) -> Array:
        return rng.integers(0, classes, n)

    def logits(n: int, classes: int, scale: float = 1.0) -> Array:
        return rng.standard_normal((n, classes)) * scale

    one_sided = np.log(np.array([[1 - 1e-7, 1e-7]] * 6))
    masked = logits(20, 6)
    masked[::2, 3] = -np.inf
    masked[::3, 5] = -np.inf
    # Nearer than this, the rounding of exp and log decides on which side a probability lies.
    beside = (np.arange(1, 15)[:, None] / 15 * (1 + 1e-12 * np.array([-1, 1]))).ravel()
    return {
        "saturated": (logits(40, 12, 1000.0), labels(40, 12)),
        "saturated-right": ((z := logits(40, 12, 40.0)), z.argmax(1)),
        "saturated-float32": (logits(40, 140, 60.0).astype(np.float32), labels(40, 140)),
        "uniform": (np.zeros((30, 15)), labels(30, 15)),
        "uniform-float32": (np.full((30, 200), 7.5, dtype=np.float32), labels(30, 200)),
        "uniform-on-edges": (np.zeros((9, 100)), labels(9, 100)),
        "one-class-absent": (logits(50, 5), labels(50, 4)),
        "one-class-only": (logits(50, 5), np.full(50, 2)),
        "one-example": (logits(1, 4), labels(1, 4)),
        "one-example-two-classes": (np.array([[0.3, -0.2]]), np.array([1])),
        "two-classes": (logits(64, 2, 3.0), labels(64, 2)),
        "huge-logits": (logits(30, 9) + 1e8, labels(30, 9)),
        "huge-float32": ((logits(30, 300) * 1e4 + 1e6).astype(np.float32), labels(30, 300)),
        "huge-negative": (logits(30, 9) - 1e12, labels(30, 9)),
        "tiny-logits": (logits(30, 9, 1e-30), labels(30, 9)),
        "label-near-1e-7": (one_sided, np.array([1, 1, 0, 0, 1, 0])),
        "label-near-1e-7-float32": (
            np.array([[0.0, -16.118, -30.0]] * 5, dtype=np.float32),
            np.array([1, 0, 0, 1, 2]),
        ),
        "rare-class": (np.array([[0.0, -9.0], [0.0, -14.0], [0.0, -20.0]]), np.array([1, 1, 0])),
        "masked": (masked, np.tile([0, 1, 2, 4], 5)),
        "ties": (np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]]), np.array([1, 1])),
        "near-edges": (np.stack([np.log(beside), np.log1p(-beside)], axis=1), labels(28, 2)),
    }
