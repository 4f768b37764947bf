"""``vector``: a factor and an offset per class, Guo et al. (2017).

The NLL of softmax(v ⊙ z + b) is convex in v and b. Offsets are fixed up to a constant: their sum
is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import Calibrator, Optimum, Params, numbers
from checkwise.calibrators.examples import (
    FloatArray,
    IntArray,
    Logits,
    log_probabilities,
    together,
)
from checkwise.calibrators.isotonic import absent_classes
from checkwise.calibrators.temperature import REASONS, fit_temperature
from checkwise.extras import naming_extras

_ROUNDS = 500
_GRADIENT = 1e-10  # of the mean NLL, for logits that were divided by T
_STEEPEST = 1e-7  # a larger one means that the search has not ended
_FARTHEST = 1e4  # a factor or offset beyond this means that there is no finite optimum
_DOUBT = 1e-4  # so does a class of which fewer errors than this are expected in all


def best(logits: Logits) -> Optimum:
    """v and b, from the temperature as the start."""
    z, y = together(logits)
    missing = absent_classes(y, z.shape[1])
    fit = fit_temperature(z, y)
    if missing or not fit.finite:
        return Optimum(missing=missing or REASONS[fit.state])
    solution = _minimum(z / fit.value, y)
    if solution is None:
        reason = "some class can be told apart from the others without an error"
        return Optimum(missing=reason)
    factor, offset = solution
    return Optimum({"scale": (factor / fit.value).tolist(), "bias": offset.tolist()})


def stretch(logits: FloatArray, params: Params) -> FloatArray:
    """v ⊙ z + b."""
    return np.asarray(logits * np.asarray(params["scale"]) + np.asarray(params["bias"]))


@naming_extras()
def _minimum(z: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Factors and offsets, or None where they grow without end."""
    from scipy.optimize import minimize

    n, classes = z.shape
    hit = np.zeros_like(z)
    hit[np.arange(n), y] = 1

    def loss(theta: FloatArray) -> tuple[float, Any]:
        log_p = log_probabilities(z * theta[:classes] + theta[classes:])
        rest = np.exp(log_p) - hit
        slope = np.concatenate([(rest * z).sum(axis=0), rest.sum(axis=0)]) / n
        return -float(log_p[np.arange(n), y].mean()), slope

    def curvature(theta: FloatArray, d: FloatArray) -> Any:
        p = np.exp(log_probabilities(z * theta[:classes] + theta[classes:]))
        change = z * d[:classes] + d[classes:]
        weighted = p * (change - (p * change).sum(axis=1, keepdims=True))
        return np.concatenate([(weighted * z).sum(axis=0), weighted.sum(axis=0)]) / n

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    answer = minimize(
        loss,
        start,
        jac=True,
        hessp=curvature,
        method="trust-ncg",
        options={"gtol": _GRADIENT, "maxiter": _ROUNDS, "max_trust_radius": _FARTHEST},
    )
    p = np.exp(log_probabilities(z * answer.x[:classes] + answer.x[classes:]))
    doubt = float((p * (1 - p)).sum(axis=0).min())
    steep = float(np.abs(loss(answer.x)[1]).max())
    if np.abs(answer.x).max() > _FARTHEST or steep > _STEEPEST or doubt < _DOUBT:
        return None
    offset = answer.x[classes:]
    return answer.x[:classes], offset - offset.mean()


def valid(params: Params, classes: int) -> bool:
    """A factor and an offset per class."""
    return all(numbers(params.get(name), classes) for name in ("scale", "bias"))


VECTOR = Calibrator(
    "vector",
    "vector scaling: a factor and an offset per class",
    "two numbers per class; a multiplication and an addition; fitting needs scipy",
    best,
    stretch,
    valid,
    keeps_predictions=False,
)
