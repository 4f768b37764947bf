"""``ets``: ensemble temperature scaling, Zhang et al. (2020).

p = w₁ softmax(z / T) + w₂ softmax(z) + w₃ / C with T from ``ts`` and weights on the simplex that
minimise the NLL, which is convex in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import Calibrator, Optimum, Params, numbers
from checkwise.calibrators.examples import FloatArray, Logits, together
from checkwise.calibrators.temperature import REASONS, fit_temperature, scaled
from checkwise.calibrators.ts import valid as valid_temperature
from checkwise.extras import naming_extras
from checkwise.metrics.probabilities import probabilities

_LEAST = float(np.finfo(np.float64).tiny)
_ROUNDING = 1e-9


def best(logits: Logits) -> Optimum:
    """T first, then the weights."""
    z, y = together(logits)
    fit = fit_temperature(z, y)
    if not fit.finite:
        return Optimum(missing=REASONS[fit.state])
    own = np.stack([p[np.arange(len(y)), y] for p in _parts(z, fit.value)], axis=1)
    return Optimum({"temperature": fit.value, "weights": _weights(own).tolist()})


def mix(logits: FloatArray, params: Params) -> FloatArray:
    """log of the mixture."""
    parts = _parts(logits, params["temperature"])
    with np.errstate(divide="ignore"):  # without a uniform part a probability can underflow to 0
        log_p = np.log(sum(w * p for w, p in zip(params["weights"], parts, strict=True)))
    return np.asarray(np.maximum(log_p, np.log(_LEAST)))


def _parts(z: FloatArray, temperature: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (
        probabilities(scaled(z, temperature)),
        probabilities(z),
        np.full_like(z, 1 / z.shape[1]),
    )


@naming_extras()
def _weights(own: FloatArray) -> FloatArray:
    """Weights [3] on the simplex that minimise −mean log(own · w)."""
    from scipy.optimize import minimize

    def loss(w: FloatArray) -> tuple[float, Any]:
        p = np.maximum(own @ w, _LEAST)
        return -float(np.log(p).mean()), -(own / p[:, None]).mean(axis=0)

    answer = minimize(
        loss,
        np.array([0.8, 0.1, 0.1]),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)},
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    w = np.clip(answer.x, 0, 1)
    return np.asarray(w / w.sum())


def valid(params: Params, classes: int) -> bool:
    """A temperature, and weights that sum to 1."""
    weights: Any = params.get("weights")
    return (
        valid_temperature(params, classes)
        and numbers(weights, 3, least=0, most=1)
        and abs(sum(weights) - 1) < _ROUNDING
    )


ENSEMBLE_TEMPERATURE = Calibrator(
    "ets",
    "ensemble temperature: softmax(z / T), softmax(z) and uniform, mixed",
    "four numbers; two softmaxes; fitting needs scipy",
    best,
    mix,
    valid,
)
