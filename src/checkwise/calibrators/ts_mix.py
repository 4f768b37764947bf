"""``ts-mix``: a temperature, then a mixture with the uniform distribution.

p = (1 − ε) softmax(z / T) + ε / C with ε = 1 / (n + 1): Laplace's rule, so that the NLL stays
finite where all n examples are predicted correctly and T falls to its smallest value. This is
``ts-mix`` of the library ``probmetrics`` (Berta et al. 2025), with its bounds of T.
"""

from __future__ import annotations

import numpy as np

from checkwise.calibrators.calibrator import FARTHEST, Calibrator, Optimum, Params, numbers
from checkwise.calibrators.examples import FloatArray, Logits, log_probabilities, together
from checkwise.calibrators.temperature import REASONS, fit_temperature, scaled
from checkwise.calibrators.ts import valid as valid_temperature

SMALLEST, LARGEST = float(np.exp(-16)), float(np.exp(16))


def best(logits: Logits) -> Optimum:
    """T between e⁻¹⁶ and e¹⁶, and ε."""
    z, y = together(logits)
    fit = fit_temperature(z, y)
    uniform = 1 / (len(y) + 1)
    if fit.finite:
        return Optimum({"temperature": fit.value, "uniform": uniform})
    if fit.state == "flat":
        return Optimum(missing=REASONS["flat"])
    edge = SMALLEST if fit.state == "separable" else LARGEST
    return Optimum({"temperature": edge, "uniform": uniform}, edge=REASONS[fit.state])


def mix(logits: FloatArray, params: Params) -> FloatArray:
    """log of the mixture."""
    log_p = log_probabilities(scaled(logits, params["temperature"]))
    return mixed(log_p, params["uniform"])


def mixed(log_p: FloatArray, uniform: float) -> FloatArray:
    """log((1 − ε) p + ε / C)."""
    if uniform == 0:
        return log_p
    share = np.log(uniform / log_p.shape[1])
    return np.asarray(np.logaddexp(np.log1p(-uniform) + log_p, share))


def valid(params: Params, classes: int) -> bool:
    """A temperature and ε."""
    return valid_temperature(params, classes) and valid_share(params.get("uniform"))


def valid_share(uniform: object) -> bool:
    """ε = 1 / (n + 1)."""
    return numbers(uniform, least=1 / FARTHEST, most=0.5)


TS_MIX = Calibrator(
    "ts-mix",
    "one temperature, then a mixture with the uniform distribution of weight 1 / (n + 1)",
    "one number; a softmax",
    best,
    mix,
    valid,
)
