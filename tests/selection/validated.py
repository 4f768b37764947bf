"""Runs with predictions for every validation example, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

import checkwise as cw

Saved = dict[int, dict[str, tuple[Any, Any]]]


def predictions(
    checkpoints: int = 8,
    domains: int = 2,
    examples: int = 40,
    classes: int = 4,
    *,
    seed: int = 0,
    noise: float = 0.6,
) -> Saved:
    """Logits that improve, with noise that neighbouring checkpoints share."""
    random = np.random.default_rng(seed)
    names = [f"domain {e}" for e in range(domains)]
    labels = {name: random.integers(0, classes, examples) for name in names}
    fixed = {name: random.normal(size=(examples, classes)) for name in names}
    moving = {name: random.normal(size=(examples, classes)) for name in names}
    saved: Saved = {}
    for t in range(checkpoints):
        learnt = 1 - np.exp(-4 * (t + 1) / checkpoints)
        saved[100 * t] = {}
        for name in names:
            moving[name] = 0.9 * moving[name] + 0.44 * random.normal(size=fixed[name].shape)
            logits = 1.2 * fixed[name] + noise * moving[name]
            logits[np.arange(examples), labels[name]] += 3 * learnt
            saved[100 * t][name] = ((0.6 + 1.2 * learnt) * logits, labels[name])
    return saved


def validated_run(*, groups: dict[str, Any] | None = None, **shape: Any) -> cw.Trajectory:
    """A run made of :func:`predictions`."""
    facts: dict[str, Any] = {} if groups is None else {"groups": groups}
    return cw.Trajectory.from_predictions(predictions(**shape), **facts)
