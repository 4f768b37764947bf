"""``ts``: one temperature on the pooled examples, as Guo et al. (2017)."""

from __future__ import annotations

from checkwise.calibrators.calibrator import Calibrator, Optimum, Params
from checkwise.calibrators.examples import FloatArray, Logits, together
from checkwise.calibrators.temperature import REASONS, fit_temperature, scaled


def best(logits: Logits) -> Optimum:
    """T that minimises the NLL of softmax(z / T)."""
    fit = fit_temperature(*together(logits))
    return Optimum({"temperature": fit.value}, missing=REASONS.get(fit.state, ""))


def divide(logits: FloatArray, params: Params) -> FloatArray:
    """z / T."""
    return scaled(logits, params["temperature"])


TS = Calibrator(
    "ts",
    "one temperature on pooled source logits",
    "one number; a division",
    best,
    divide,
)
