"""What every calibrator is, what fitting one gives, and when that is not to be trusted.

A calibrator maps logits to logits whose softmax are the calibrated probabilities. It is fitted to
the source-validation logits of one checkpoint. A fitted one says how far to trust it as a *state*:

- ``saturated``: fewer than 20 validation errors. There is too little to fit to. A calibrator that
  could sharpen then leaves the logits as they are, unless it is forced.
- ``no-optimum``: no finite parameters are best; the logits stay as they are.
- ``edge``: the best parameters lie at an edge of what is allowed.
- ``fitted``: none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from checkwise.calibrators.temperature import check_examples
from checkwise.errors import InputError
from checkwise.metrics import (
    FloatArray,
    Logits,
    count_errors,
    entries,
    nll_of,
    probabilities,
    to_floats,
    together,
    two_columns,
)
from checkwise.words import counted

State: TypeAlias = Literal["fitted", "edge", "saturated", "no-optimum"]
Params: TypeAlias = Mapping[str, Any]

SCHEMA = 2
FARTHEST = 1e100  # of a parameter from 0; products with logits stay finite
LEAST_ERRORS = 20  # with fewer wrong predictions a fit is not to be trusted
# A calibrator that keeps predictions cannot change these.
FROM_PREDICTIONS = ("correct", "accuracy", "worst_class_accuracy")


@dataclass(frozen=True)
class Optimum:
    """The best parameters, as plain values, or why there are none.

    ``edge`` and ``missing`` are sentences without a full stop: why the optimum lies at an edge,
    and why there is none. ``notes`` are further conditions.
    """

    params: Params = field(default_factory=dict)
    edge: str = ""
    missing: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Calibrator:
    """One way to calibrate.

    Args:
        name: what users type.
        summary: one line.
        best: finds the parameters on the logits of one checkpoint by domain.
        transform: logits [n, C] and the parameters give calibrated logits.
        valid: whether parameters that were read from a file are of the kind and shape that
            ``best`` gives for that many classes.
        sharpens: whether it may make predictions more confident. One that may is not applied
            where there are too few errors, unless forced.
        keeps_predictions: whether the most probable class always stays the same.
    """

    name: str
    summary: str
    best: Callable[[Logits], Optimum]
    transform: Callable[[FloatArray, Params], FloatArray]
    valid: Callable[[Params, int], bool]
    sharpens: bool = True
    keeps_predictions: bool = True

    def fit(self, logits: Logits, *, force: bool = False) -> Fitted:
        """Fit to the source-validation logits of one checkpoint: domain → (logits, labels).

        ``force`` applies it whatever the number of errors; the state says ``saturated`` even so.
        """
        examples: Any = {name: check_examples(z, y)[:2] for name, (z, y) in logits.items()}
        z, y = together(examples)
        errors = count_errors(z, y)
        few = errors < LEAST_ERRORS
        refused = few and self.sharpens and not force
        optimum = Optimum() if refused else self.best(examples)
        params = None if refused or optimum.missing else dict(optimum.params)
        before = float(nll_of(z, y).mean())
        after = before if params is None else float(nll_of(self.transform(z, params), y).mean())
        return Fitted(
            calibrator=self,
            params=params,
            state=_state(few, optimum),
            conditions=_conditions(self, optimum, errors, len(y), refused=refused),
            classes=z.shape[1],
            n=len(y),
            errors=errors,
            before=before,
            after=after,
            forced=force,
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted calibrator: how logits are transformed, and how far to trust it.

    Attributes:
        calibrator: what was fitted.
        params: the fitted parameters as plain values; None leaves logits as they are.
        state: "fitted", "edge", "saturated" or "no-optimum".
        conditions: why not to trust it, in sentences; empty where there is nothing to say.
        classes: how many classes the logits have.
        n, errors: the examples it was fitted on, and how many were predicted incorrectly.
        before, after: mean NLL of all these examples together.
        forced: whether it was to be applied whatever the number of errors.
    """

    calibrator: Calibrator
    params: Params | None
    state: State
    conditions: tuple[str, ...]
    classes: int
    n: int
    errors: int
    before: float
    after: float
    forced: bool = False

    @property
    def name(self) -> str:
        """The name of the calibrator."""
        return self.calibrator.name

    @property
    def temperature(self) -> float | None:
        """T, where that is what it fits (several: their mean); None for other calibrators."""
        if self.params is None:
            return 1.0 if self.calibrator.keeps_predictions else None
        return self.params.get("temperature")

    def apply(self, logits: Any) -> FloatArray:
        """Calibrated logits: their softmax are the calibrated probabilities."""
        z = to_floats(logits, "logits")
        z = two_columns(z, "logits") if self.classes == 2 else z
        if z.ndim != 2 or z.shape[1] != self.classes:
            raise InputError(
                f"Expected logits of shape [n, {self.classes}], as {self.name} was fitted on, but "
                f"got {[*z.shape]}: pass one row per example."
            )
        return z if self.params is None else self.calibrator.transform(z, self.params)

    def probabilities(self, logits: Any) -> FloatArray:
        """Calibrated probabilities [n, C]."""
        return probabilities(self.apply(logits))

    def metrics(self, logits: Logits, *, bins: int, bandwidth: float) -> dict[str, dict[str, Any]]:
        """Metrics of every domain after calibration.

        Where predictions are kept, those that depend on them alone are of the logits as they were.
        """
        calibrated: Any = {domain: (self.apply(z), y) for domain, (z, y) in logits.items()}
        return entries_after(logits, calibrated, self.calibrator, bins=bins, bandwidth=bandwidth)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; ``checkwise.calibrators.from_dict`` reads them back."""
        return {
            "schema": SCHEMA,
            "calibrator": self.name,
            "params": None if self.params is None else dict(self.params),
            "state": self.state,
            "conditions": list(self.conditions),
            "classes": self.classes,
            "n": self.n,
            "errors": self.errors,
            "nll_before": self.before,
            "nll_after": self.after,
            "forced": self.forced,
        }


def numbers(value: object, *shape: int, least: float = -FARTHEST, most: float = FARTHEST) -> bool:
    """Whether something read from a file is numbers within bounds, in lists of that shape.

    Example:
        >>> [numbers(value, 2) for value in ([1, 2.5], [1], [1, True], ["1", 2], None)]
        [True, False, False, False, False]
    """
    if not shape:
        return type(value) in (int, float) and least <= value <= most  # type: ignore[operator]
    return (
        isinstance(value, list)
        and len(value) == shape[0]
        and all(numbers(inner, *shape[1:], least=least, most=most) for inner in value)
    )


def entries_after(
    logits: Logits, calibrated: Logits, calibrator: Calibrator, *, bins: int, bandwidth: float
) -> dict[str, dict[str, Any]]:
    """The metrics of calibrated logits; predictions are those of the logits as they were."""
    by_domain = entries(calibrated, bins=bins, bandwidth=bandwidth)
    if calibrator.keeps_predictions:
        plain = entries(logits, bins=bins, bandwidth=bandwidth)
        for domain, entry in by_domain.items():
            entry.update({name: plain[domain][name] for name in FROM_PREDICTIONS})
    return by_domain


def _state(few: bool, optimum: Optimum) -> State:
    if few:
        return "saturated"
    if optimum.missing:
        return "no-optimum"
    return "edge" if optimum.edge else "fitted"


def _conditions(
    calibrator: Calibrator, optimum: Optimum, errors: int, n: int, *, refused: bool
) -> tuple[str, ...]:
    sentences = []
    if errors < LEAST_ERRORS:
        much = "too few to fit" if refused else "too few to trust"
        sentences.append(
            f"{counted(errors, 'error')} among {counted(n, 'validation example')} "
            f"{'is' if errors == 1 else 'are'} {much} {calibrator.name} (at least "
            f"{LEAST_ERRORS}): collect more validation examples."
        )
    if refused:
        sentences.append("The probabilities stay as they are.")
    if optimum.missing:
        sentences.append(
            f"No finite optimum: {optimum.missing}. The probabilities stay as they are."
        )
    if optimum.edge:
        sentences.append(f"The optimum is at an edge: {optimum.edge}.")
    return (*sentences, *(f"{note}." for note in optimum.notes))
