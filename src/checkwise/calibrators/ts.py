"""``ts``: one temperature on the pooled examples, as Guo et al. (2017)."""

from __future__ import annotations

from dataclasses import replace

from checkwise.calibrators.calibrator import FARTHEST, Calibrator, Optimum, Params, numbers
from checkwise.calibrators.temperature import LARGEST, REASONS, fit_temperature, scaled
from checkwise.metrics import FloatArray, Logits, together


def best(logits: Logits) -> Optimum:
    """T that minimises the NLL of softmax(z / T)."""
    fit = fit_temperature(*together(logits))
    return Optimum({"temperature": fit.value}, missing=REASONS.get(fit.state, ""))


def at_best(logits: Logits) -> Optimum:
    """The same, where no finite T is best at the edge: no T at all has a lower NLL."""
    fit = fit_temperature(*together(logits))
    edges = {"uniform": LARGEST, "separable": 1 / LARGEST}
    value = edges.get(fit.state, fit.value)
    return Optimum({"temperature": value}, edge=REASONS.get(fit.state, ""))


def divide(logits: FloatArray, params: Params) -> FloatArray:
    """z / T."""
    return scaled(logits, params["temperature"])


def valid(params: Params, classes: int, *, least: float = 1 / FARTHEST) -> bool:
    """A temperature."""
    return numbers(params.get("temperature"), least=least)


TS = Calibrator(
    "ts",
    "one temperature on pooled source logits",
    best,
    divide,
    valid,
)
# What a temperature could do at best, fitted on the very examples that it is judged on.
TS_LIMIT = replace(TS, best=at_best)
