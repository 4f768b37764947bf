"""A temperature per source domain: ``ts-max``, ``ts-multi`` and ``ts-weighted``.

- ``ts-max``: examples get the largest temperature that any domain asks for, at least 1. Where one
  source domain is far more overconfident than the others, an unseen domain may be so too.
- ``ts-multi``: examples get the plain mean of the domains' temperatures.
- ``ts-weighted``: every example gets the mean of the domains' temperatures, weighted by how much
  its logits look like those of each domain.

A domain without a finite optimum is left out of the mean, and counts as 1 in the weighted one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkwise.calibrators.calibrator import LEAST_ERRORS, Calibrator, Optimum, Params, numbers
from checkwise.calibrators.temperature import REASONS, Temperature, fit_temperature, scaled
from checkwise.calibrators.ts import divide, valid
from checkwise.metrics import FloatArray, Logits, probabilities
from checkwise.words import counted

_SHRINK = 0.1  # of the covariance towards a multiple of the identity


def best_max(logits: Logits) -> Optimum:
    """max(1, the optimum of each domain); a domain without a finite optimum is left out."""
    fits = _fits(logits)
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


def best_mean(logits: Logits) -> Optimum:
    """One temperature per domain, and their mean."""
    return _optimum(_fits(logits))


def best_weighted(logits: Logits) -> Optimum:
    """The same, and how domains are told apart by their logits."""
    fits = _fits(logits)
    likeness = Likeness.of(logits)
    return _optimum(
        fits,
        domains=list(likeness.domains),
        slopes=likeness.slopes.tolist(),
        offsets=likeness.offsets.tolist(),
    )


def divide_by_likeness(logits: FloatArray, params: Params) -> FloatArray:
    """z / T with a temperature for every example."""
    domains = tuple(params["domains"])
    likeness = Likeness(domains, np.array(params["slopes"]), np.array(params["offsets"]))
    by_domain = np.array([params["temperatures"][name] for name in domains])
    return scaled(logits, likeness.shares(logits) @ by_domain)


def valid_mean(params: Params, classes: int) -> bool:
    """A temperature, and those of domains."""
    by_domain = params.get("temperatures")
    return (
        valid(params, classes)
        and isinstance(by_domain, dict)
        and all(valid({"temperature": value}, classes) for value in by_domain.values())
    )


def valid_max(params: Params, classes: int) -> bool:
    """A temperature of at least 1, and those of domains."""
    return valid_mean(params, classes) and params["temperature"] >= 1


def valid_weighted(params: Params, classes: int) -> bool:
    """A temperature, those of domains, and a slope for every class and domain."""
    domains = params.get("domains")
    return (
        valid_mean(params, classes)
        and isinstance(domains, list)
        and all(isinstance(name, str) for name in domains)
        and set(domains) == set(params["temperatures"])
        and numbers(params.get("slopes"), classes, len(domains))
        and numbers(params.get("offsets"), len(domains))
    )


@dataclass(frozen=True, eq=False)
class Likeness:
    """How much an example's logits look like those of each source domain.

    A linear discriminant: log π_e(x) = x·a_e + b_e up to a constant, x the logits minus their mean.
    """

    domains: tuple[str, ...]
    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def of(cls, logits: Logits) -> Likeness:
        """Fit it to the validation logits of the source domains; every domain counts the same."""
        domains = tuple(sorted(logits))
        rows = [_centred(logits[name][0]) for name in domains]
        means = np.stack([part.mean(axis=0) for part in rows])
        within = np.mean([np.cov(part.T, bias=True) for part in rows], axis=0)
        size = float(np.trace(within)) / len(within)
        covariance = (1 - _SHRINK) * within + _SHRINK * max(size, 1e-12) * np.eye(len(within))
        slopes = np.linalg.solve(covariance, means.T)
        return cls(domains, slopes, -0.5 * (means.T * slopes).sum(axis=0))

    def shares(self, logits: Any) -> FloatArray:
        """π(x) for every example, [n, domains]."""
        evidence: FloatArray = _centred(logits) @ self.slopes + self.offsets
        return probabilities(evidence)


def _fits(logits: Logits) -> dict[str, Temperature]:
    return {name: fit_temperature(*logits[name]) for name in sorted(logits)}


def _optimum(fits: dict[str, Temperature], **further: Any) -> Optimum:
    lost = {name: REASONS[fit.state] for name, fit in fits.items() if not fit.finite}
    finite = [fit.value for fit in fits.values() if fit.finite]
    if not finite:
        return Optimum(missing="; ".join(f"{name}: {why}" for name, why in lost.items()))
    params = {
        "temperature": float(np.mean(finite)),
        "temperatures": {name: fit.value for name, fit in fits.items()},
        **further,
    }
    notes = tuple(f"{name} has no finite temperature: {why}" for name, why in lost.items())
    return Optimum(params, notes=notes)


def _centred(logits: Any) -> FloatArray:
    z = np.asarray(logits, dtype=np.float64)
    return np.asarray(z - z.mean(axis=1, keepdims=True))


TS_MAX = Calibrator(
    "ts-max",
    "the largest of a temperature per source domain, at least 1",
    best_max,
    divide,
    valid_max,
    sharpens=False,
)
TS_MULTI = Calibrator(
    "ts-multi",
    "the mean of a temperature per domain",
    best_mean,
    divide,
    valid_mean,
)
TS_WEIGHTED = Calibrator(
    "ts-weighted",
    "a temperature per domain, weighted for every example",
    best_weighted,
    divide_by_likeness,
    valid_weighted,
)
