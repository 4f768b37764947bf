"""Temperatures for several source domains: one for all, one for each, or a mixture by likeness.

- ``pooled``: one temperature, fitted to the validation logits of all source domains together.
- ``per-domain``: one temperature per source domain; other examples get the mean of them.
- ``weighted``: every example gets the mean of the domains' temperatures, weighted by how much its
  logits look like those of each domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.calibrators.temperature import Temperature, fit_temperature, scaled
from checkwise.errors import InputError
from checkwise.metrics.probabilities import probabilities

FloatArray = NDArray[np.float64]
Logits: TypeAlias = dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]
Variant: TypeAlias = Literal["pooled", "per-domain", "weighted"]
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)
FEW_ERRORS = 20  # with fewer wrong predictions a temperature is not to be trusted
_SHRINK = 0.1  # of the covariance towards a multiple of the identity
# Scaling cannot change these; they are taken from the unscaled logits.
FROM_PREDICTIONS = ("correct", "accuracy", "worst_class_accuracy")


def calibrate(logits: Logits, variant: str = "pooled") -> Calibration:
    """Fit temperatures to the source-validation logits of one checkpoint."""
    if variant not in VARIANTS:
        raise InputError(
            f"Expected a variant among {', '.join(VARIANTS)}, but got {variant!r}: choose one."
        )
    if variant == "pooled":
        z = np.concatenate([z for z, _ in logits.values()])
        y = np.concatenate([y for _, y in logits.values()])
        fit = fit_temperature(z, y)
        return Calibration("pooled", {"pooled": fit}, fit.value)
    fits = {name: fit_temperature(*logits[name]) for name in sorted(logits)}
    # A domain without a finite optimum keeps T = 1 for its own examples; the mean leaves it out.
    finite = [fit.value for fit in fits.values() if fit.finite]
    mean = float(np.mean(finite)) if finite else 1.0
    if variant == "per-domain":
        return Calibration("per-domain", fits, mean)
    return Calibration("weighted", fits, mean, Likeness.of(logits))


@dataclass(frozen=True, eq=False)
class Calibration:
    """How to rescale logits, and what that was fitted on.

    ``fits`` holds the fitted temperatures: one under "pooled", or one per source domain.
    ``mean`` is the temperature where all examples share one, else the plain mean over domains.
    """

    variant: Variant
    fits: Mapping[str, Temperature]
    mean: float
    likeness: Likeness | None = None

    @property
    def state(self) -> str:
        """ "fitted", "few-errors" (do not trust it), or why there is no finite optimum."""
        unfitted = [fit.state for fit in self.fits.values() if not fit.finite]
        if unfitted:
            return unfitted[0]
        return "few-errors" if self.errors < FEW_ERRORS else "fitted"

    @property
    def n(self) -> int:
        """Examples it was fitted on."""
        return sum(fit.n for fit in self.fits.values())

    @property
    def errors(self) -> int:
        """Wrong predictions among them: what a temperature is fitted to."""
        return sum(fit.errors for fit in self.fits.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings: no finite temperature exists, or too few errors to fit one."""
        notes = [f"{name}: {fit.note}" for name, fit in self.fits.items() if fit.note]
        if self.state == "few-errors":
            notes.append(
                f"{self.errors} errors among {self.n} examples are too few to trust a temperature: "
                f"collect more validation examples (at least {FEW_ERRORS} errors)"
            )
        return tuple(notes)

    def temperature(self, logits: Any) -> Any:
        """T for every example: a number, or an array [n]."""
        if self.likeness is None:
            return self.mean
        by_domain = np.array([self.fits[name].value for name in self.likeness.domains])
        return self.likeness.shares(logits) @ by_domain

    def metrics(self, logits: Logits, *, bins: int, bandwidth: float) -> dict[str, dict[str, Any]]:
        """Metrics of every domain after scaling; predictions are those of the unscaled logits."""
        plain = entries(logits, bins=bins, bandwidth=bandwidth)
        rescaled: Any = {d: (scaled(z, self.temperature(z)), y) for d, (z, y) in logits.items()}
        by_domain = entries(rescaled, bins=bins, bandwidth=bandwidth)
        for domain, entry in by_domain.items():
            entry.update({name: plain[domain][name] for name in FROM_PREDICTIONS})
        return by_domain


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


def entries(logits: Logits, *, bins: int, bandwidth: float) -> dict[str, dict[str, Any]]:
    """Every metric of every domain, as a journal holds them."""
    by_domain: dict[str, dict[str, Any]] = {}
    for domain, (z, y) in logits.items():
        report = metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth)
        by_domain[domain] = {"n": report.n, "correct": report.correct, **report.values()}
    return by_domain


def _centred(logits: Any) -> FloatArray:
    z = np.asarray(logits, dtype=np.float64)
    return np.asarray(z - z.mean(axis=1, keepdims=True))
