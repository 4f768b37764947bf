"""``ts-max``: the largest temperature that any source domain asks for, at least 1.

Where one source domain is far more overconfident than the others, an unseen domain may be so too.
"""

from __future__ import annotations

from checkwise.calibrators.calibrator import LEAST_ERRORS, Calibrator, Optimum, Params
from checkwise.calibrators.temperature import REASONS, fit_temperature
from checkwise.calibrators.ts import divide
from checkwise.calibrators.ts_domains import valid_mean
from checkwise.metrics import Logits
from checkwise.words import counted


def best(logits: Logits) -> Optimum:
    """max(1, the optimum of each domain); a domain without a finite optimum is left out."""
    fits = {name: fit_temperature(*logits[name]) for name in sorted(logits)}
    lost = [name for name, fit in fits.items() if fit.state in ("uniform", "flat")]
    notes = [f"{name} is left out: {REASONS[fits[name].state]}" for name in lost]
    finite = {name: fit for name, fit in fits.items() if fit.finite}
    if not finite and lost:
        return Optimum(missing=f"{lost[0]}: {REASONS[fits[lost[0]].state]}")
    by_domain = {name: fit.value for name, fit in finite.items()}
    largest = max(by_domain, key=by_domain.__getitem__, default=None)
    if largest is None or by_domain[largest] < 1:
        edge = "no source domain asks for softer predictions; T stays 1"
        return Optimum({"temperature": 1.0, "temperatures": by_domain}, edge=edge, notes=(*notes,))
    if finite[largest].errors < LEAST_ERRORS:
        notes.append(f"It rests on {counted(finite[largest].errors, 'error')} in {largest}")
    params = {"temperature": by_domain[largest], "temperatures": by_domain}
    return Optimum(params, notes=(*notes,))


def valid(params: Params, classes: int) -> bool:
    """A temperature of at least 1, and those of domains."""
    return valid_mean(params, classes) and params["temperature"] >= 1


TS_MAX = Calibrator(
    "ts-max",
    "the largest of a temperature per source domain, at least 1",
    best,
    divide,
    valid,
    sharpens=False,
)
