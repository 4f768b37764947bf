"""The contract of metrics."""

from __future__ import annotations

import math

import numpy as np

from checkwise.metrics import Metric, get_metric


def check_metric(metric: str | Metric) -> None:
    """Assert that a metric keeps the contract every table and rule relies on.

    It is finite on ordinary, uniform, saturated and single-example predictions, returns a plain
    float, gives the same value again and in any order of examples, leaves its input alone, has a
    direction and a scale, and does not call hopeless predictions better than perfect ones.

    Raises:
        AssertionError: which promise is broken.

    Example:
        >>> check_metric("nll")
    """
    metric = get_metric(metric) if isinstance(metric, str) else metric
    name = f"metric {metric.name!r}"
    assert metric.direction in ("lower", "higher"), f"{name}: direction is {metric.direction!r}"
    assert metric.scale in (1, 100), f"{name}: scale is {metric.scale!r}"
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=60)
    y = rng.integers(0, 4, 60)
    sure = np.where(np.eye(4)[y] == 1, 1 - 3e-9, 1e-9)
    cases = {
        "ordinary": (p, y),
        "uniform": (np.full((60, 4), 0.25), y),
        "saturated and right": (sure, y),
        "saturated and wrong": (np.roll(sure, 1, axis=1), y),
        "single-example": (p[:1], y[:1]),
    }
    values = {}
    for case, (probs, labels) in cases.items():
        value = _value(metric, probs, labels)
        kind = type(value).__name__
        assert isinstance(value, float), f"{name}: {kind}, not float, on {case} input"
        assert math.isfinite(value), f"{name}: {value} is not finite on {case} input"
        values[case] = value
    order = rng.permutation(60)
    again, moved = _value(metric, p, y), _value(metric, p[order], y[order])
    assert again == values["ordinary"], f"{name}: two calls give {values['ordinary']} and {again}"
    assert math.isclose(moved, again, rel_tol=1e-9, abs_tol=1e-9), (
        f"{name}: the order of examples changes {again} to {moved}"
    )
    sign = 1 if metric.direction == "higher" else -1
    assert sign * (values["saturated and right"] - values["saturated and wrong"]) >= 0, (
        f"{name}: direction {metric.direction!r} prefers wrong predictions to right ones"
    )


def _value(metric: Metric, probs: np.ndarray, labels: np.ndarray) -> float:
    """The bare function's value, so that nothing tidies its result or protects its input."""
    if metric.function is None:
        return metric(probs=probs, labels=labels)
    given, truth = probs.copy(), labels.copy()
    value = metric.function(given, truth)
    assert np.array_equal(given, probs), f"metric {metric.name!r}: must not change its input"
    assert np.array_equal(truth, labels), f"metric {metric.name!r}: must not change its input"
    return value
