"""One temperature on the pooled examples: ``ts``, as Guo et al. (2017), and ``ts-soften``.

``ts-soften`` never sharpens: its temperature is max(1, T).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from checkwise.calibrators.calibrator import FARTHEST, Calibrator, Optimum, Params, numbers
from checkwise.calibrators.temperature import LARGEST, REASONS, fit_temperature, scaled
from checkwise.metrics import FloatArray, Logits, nll_of, together


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


def best_from_one(logits: Logits) -> Optimum:
    """T ≥ 1 that minimises the NLL of softmax(z / T): the NLL is convex in 1 / T."""
    z, y = together(logits)
    fit = fit_temperature(z, y)
    if fit.state in ("uniform", "flat"):
        return Optimum(missing=REASONS[fit.state])
    if fit.state == "separable":
        edge = "every example is predicted correctly, which says nothing against any confidence"
        return Optimum({"temperature": 1.0}, edge=f"{edge}; T stays 1")
    if fit.value < 1:
        edge = f"the examples would have the predictions sharper (T = {fit.value:.4g}); T stays 1"
        return Optimum({"temperature": 1.0}, edge=edge)
    # T just above 1 can raise the NLL in its last bit.
    helps = nll_of(scaled(z, fit.value), y).mean() <= nll_of(z, y).mean()
    return Optimum({"temperature": fit.value if helps else 1.0})


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
TS_SOFTEN = Calibrator(
    "ts-soften",
    "one temperature on pooled source logits, at least 1",
    best_from_one,
    divide,
    partial(valid, least=1),
    sharpens=False,
)
