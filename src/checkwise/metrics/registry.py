"""Names, directions and scales of metrics; one decorator adds a user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Literal

import numpy as np

from checkwise.errors import InputError
from checkwise.plugins import Origin, register_offered
from checkwise.words import shown

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[[Array, Array], float]
Direction = Literal["lower", "higher"]


@dataclass(frozen=True)
class Metric:
    """What a table, a rule or a report needs to know about a metric.

    Attributes:
        name: the key under which values are stored.
        direction: "lower" where smaller is better, else "higher".
        scale: factor for display, 1 or 100.
        summary: one line.
        function: f(probs [n, C] float64, labels [n]) -> float, or None for a built-in metric.
        origin: the installed distribution that offered it, if one did.
        title: what sentences and column heads call it; the name where empty.
        decimals: how many are printed, on the scale of display.
        largest: the largest value that it can have, as a fraction.
        on_demand: whether it is computed only where it is asked for, and not of every checkpoint.
    """

    name: str
    direction: Direction
    scale: int
    summary: str
    function: Function | None = None
    origin: Origin | None = None
    title: str = ""
    decimals: int = 3
    largest: float = inf
    on_demand: bool = False

    @property
    def in_percent(self) -> bool:
        """Whether it is a share, so that differences are in points."""
        return self.direction == "higher" and self.scale == 100

    def __call__(self, *, logits: Any = None, probs: Any = None, labels: Any) -> float:
        """The metric's value on one set of predictions, as a fraction.

        Example:
            >>> METRICS["brier"](probs=[[0.75, 0.25]], labels=[0])
            0.125
        """
        if self.function is None:
            from checkwise.metrics.functions import evaluate

            return evaluate(logits=logits, probs=probs, labels=labels).values()[self.name]
        return evaluate_registered(logits=logits, probs=probs, labels=labels, only=self)[self.name]


def _smece(probs: Array, labels: Array) -> float:
    from checkwise.metrics.smooth_ece import smece

    return smece(probs, labels)


def _debiased_ece(probs: Array, labels: Array) -> float:
    from checkwise.metrics.debiased import debiased_ece

    return debiased_ece(probs, labels)


def _debiased_cwece(probs: Array, labels: Array) -> float:
    from checkwise.metrics.debiased import debiased_cwece

    return debiased_cwece(probs, labels)


_share = partial(Metric, scale=100, largest=1)
_recall = partial(_share, direction="higher", decimals=2)
_gap = partial(_share, direction="lower")
_loss = partial(Metric, direction="lower", scale=1)
_asked = partial(_gap, on_demand=True)
# A log needs the names alone, so formulas are imported where they are computed.
METRICS: dict[str, Metric] = {
    known.name: known
    for known in (
        _recall("accuracy", summary="Share of examples predicted correctly.", title="accuracy"),
        _loss("nll", summary="Mean negative log-likelihood.", title="NLL"),
        _loss("brier", summary="Mean squared error of the probabilities.", title="Brier score"),
        _gap("ece", summary="Soft-bin squared gap of the top label.", title="ECE"),
        _gap("cwece", summary="Soft-bin squared gap, class-wise.", title="CwECE"),
        _gap("hard_ece", summary="Hard-bin absolute gap of the top label.", title="hard ECE"),
        _gap("hard_cwece", summary="Hard-bin absolute gap, class-weighted.", title="hard CwECE"),
        _recall(
            "worst_class_accuracy",
            summary="Smallest recall of a class present.",
            title="worst-class accuracy",
        ),
        _asked(
            "smece",
            summary="Smooth absolute gap of the top label, without bins (smECE).",
            function=_smece,
            title="smECE",
        ),
        _asked(
            "debiased_ece",
            summary="Hard-bin squared gap of the top label, less chance.",
            function=_debiased_ece,
            title="debiased ECE",
        ),
        _asked(
            "debiased_cwece",
            summary="Hard-bin squared gap, class-wise, less chance.",
            function=_debiased_cwece,
            title="debiased CwECE",
        ),
    )
}
"""Every registered metric by its name."""
NAMES = tuple(name for name, known in METRICS.items() if known.function is None)
MAIN = ("accuracy", "nll", "cwece")  # what the default rule looks at


def metric(name: str, *, direction: Direction, scale: int = 1) -> Callable[[Function], Function]:
    """Register a metric of your own: f(probs [n, C] float64, labels [n]) -> float.

    Args:
        name: a new name, without spaces.
        direction: "lower" where smaller is better, else "higher"; then it is between 0 and 1.
        scale: 1 or 100, for display only.

    Example:
        >>> @metric("mean-confidence", direction="higher", scale=100)
        ... def mean_confidence(probs, labels):
        ...     '''Mean of the largest probability.'''
        ...     return probs.max(axis=1).mean()
        >>> round(METRICS["mean-confidence"](probs=[[0.75, 0.25]], labels=[0]), 6)
        0.75
        >>> del METRICS["mean-confidence"]
    """
    if not isinstance(name, str) or not name or name.split() != [name]:
        raise InputError(f"Expected a metric name without spaces, but got {name!r}.")
    if name in METRICS:
        raise InputError(
            f"Expected a new metric name, but {name!r} exists. Choose another.", code="exists"
        )
    if direction not in ("lower", "higher"):
        raise InputError(f"Expected direction 'lower' or 'higher', but got {direction!r}.")
    if isinstance(scale, bool) or scale not in (1, 100):
        raise InputError(f"Expected scale 1 or 100, but got {scale!r}.")

    def register(function: Function) -> Function:
        summary = (function.__doc__ or "").strip().split("\n")[0]
        largest = 1 if direction == "higher" else inf
        METRICS[name] = Metric(name, direction, scale, summary, function, largest=largest)
        return function

    return register


def get_metric(name: str) -> Metric:
    """The metric of that name, from an installed distribution where none is registered.

    Example:
        >>> get_metric("nll").direction
        'lower'
    """
    if not is_metric(name):
        raise InputError(f"Expected one of {', '.join(METRICS)}, but got {name!r}.", code="unknown")
    return METRICS[name]


def is_metric(name: str) -> bool:
    """Whether a metric of that name is registered or can be had from an installed distribution."""
    return name in METRICS or register_offered("metrics", name, METRICS)


def evaluate_registered(
    *, logits: Any = None, probs: Any = None, labels: Any, only: Metric | None = None
) -> dict[str, float]:
    """Values of the users' metrics (or of `only` one), each given the same probabilities."""
    usual = [m for m in METRICS.values() if m.function and not m.on_demand]
    wanted = usual if only is None else [only]
    if not wanted:
        return {}
    from checkwise.metrics import inputs
    from checkwise.metrics.examples import per_example
    from checkwise.metrics.logits import probabilities

    predictions = inputs.read(logits=logits, probs=probs, labels=labels)
    per_example(**{predictions.kind: predictions.values}, labels=predictions.labels)
    blocks = [rows.astype(np.float64) for _, rows, _ in predictions.blocks()]
    p = np.concatenate([probabilities(b) if predictions.kind == "logits" else b for b in blocks])
    values = {}
    for known in wanted:
        assert known.function is not None
        value: Any = known.function(p.copy(), predictions.labels.copy())
        plain = isinstance(value, int | float | np.integer | np.floating)
        if not plain or not np.isfinite(value):
            raise InputError(
                f"Expected metric {known.name!r} to return a finite number, but got {shown(value)}."
            )
        values[known.name] = float(value)
    return values


def metric_title(name: str) -> str:
    """What a metric is called: ``nll`` → ``NLL``."""
    known = METRICS.get(name)
    return known.title if known and known.title else name
