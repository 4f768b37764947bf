"""Logits with known faults, for tests of calibrators."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkwise.metrics import Logits


def drawn(seed: int, n: int = 400, classes: int = 4, heat: float = 1.7) -> tuple[Any, Any]:
    """Logits, and labels drawn from their softmax at a temperature: the best T is near it."""
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.normal(size=(n, classes))
    return z, (z / heat + rng.gumbel(size=z.shape)).argmax(axis=1)


def domains(seed: int = 0) -> Logits:
    """Three source domains of different sizes that ask for different temperatures."""
    return {
        "art": drawn(seed, 200, heat=1.2),
        "cartoon": drawn(seed + 1, 150, heat=2.5),
        "photo": drawn(seed + 2, 250, heat=1.6),
    }


def nearly_perfect(errors: int, n: int = 258, classes: int = 5) -> Logits:
    """Validation that is nearly saturated: confident, and wrong in a few examples."""
    rng = np.random.default_rng(errors)
    y = rng.integers(0, classes, n)
    z = 3 * np.eye(classes)[y] + 0.3 * rng.normal(size=(n, classes))
    z[:errors] = np.roll(z[:errors], 1, axis=1)
    assert (z.argmax(axis=1) != y).sum() == errors
    return {"validation": (z.astype(np.float32), y)}
