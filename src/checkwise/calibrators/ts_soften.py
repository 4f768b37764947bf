"""``ts-soften``: one temperature on the pooled examples that never sharpens, max(1, T)."""

from __future__ import annotations

from functools import partial

from checkwise.calibrators.calibrator import Calibrator, Optimum
from checkwise.calibrators.temperature import REASONS, fit_temperature, scaled
from checkwise.calibrators.ts import divide, valid
from checkwise.metrics import Logits, nll_of, together


def best(logits: Logits) -> Optimum:
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


TS_SOFTEN = Calibrator(
    "ts-soften",
    "one temperature on pooled source logits, at least 1",
    best,
    divide,
    partial(valid, least=1),
    sharpens=False,
)
