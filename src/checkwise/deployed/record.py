"""What is known of a model that is deployed, and the plain values that ``deployed.json`` keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from math import fsum
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from checkwise import __version__
from checkwise.calibrators import (
    LEAST_ERRORS,
    REASONS,
    SCHEMA,
    Change,
    Fitted,
    Temperature,
    change_of,
    fit,
    fit_temperature,
)
from checkwise.deployed.models import Format, Logits, StoredModel
from checkwise.metrics import Groups, evaluate, per_example, together, units_together
from checkwise.records import groups_of
from checkwise.selection import Selection
from checkwise.statistics import LEVEL, SEED, resampled_group_means, resampled_means
from checkwise.words import counted, number, printable

Kind: TypeAlias = Literal["single", "weights-mean", "ensemble"]
SLIGHT: Final = 0.8  # a temperature from here to 1 is called slight
RESAMPLES: Final = 2_000
PER_EXAMPLE: Final = ("accuracy", "nll", "brier")
BINNED: Final = ("ece", "cwece")
PREDICT: Final = (
    "`checkwise predict CHECKPOINTS --function FILE.py:FUNCTION --domains NAMES -o PREDICTIONS` "
    "writes a folder with them, which `checkwise deploy PREDICTIONS` takes"
)
MEAN_UNMEASURED: Final = (
    "nobody has evaluated this mean of weights: evaluate it on validation data and fit a "
    "calibrator with `checkwise.calibrators.fit`, or average probabilities instead"
)


@dataclass(frozen=True)
class Measured:
    """An equal mean over source domains, and its percentile interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class DeployedModel:
    """A model and where it comes from: one checkpoint, one mean of weights, or several members.

    For an average the selection has the checkpoints near the best. Logits are on validation; None
    where nobody evaluated it. Groups are the independent units of their examples, where known.
    """

    kind: Kind
    selection: Selection
    steps: tuple[int, ...]
    stored: tuple[StoredModel, ...]
    format: Format
    logits: Logits | None
    notes: tuple[str, ...] = ()
    groups: Groups | None = None


@dataclass(frozen=True, eq=False)
class Calibration:
    """How a model is calibrated, and what is known of it on source validation.

    ``plain`` and ``after`` are metrics before and after; ``change`` is the cross-fitted change of
    the NLL. Without a calibrator ``reason`` says why. ``groups`` is the number of groups that
    intervals resample; None where they resample examples. ``free`` is the temperature that fits
    best, whatever the calibrator allows.
    """

    fitted: Fitted | None
    plain: Mapping[str, Measured]
    after: Mapping[str, Measured]
    change: Change | None = None
    reason: str = ""
    groups: int | None = None
    free: Temperature | None = None

    @property
    def done(self) -> str:
        """What calibration did, in a sentence."""
        fitted, free = self.fitted, self.free
        if fitted is None:
            return f"No calibrator: {self.reason}."
        if not self._changed:
            return self._unchanged(fitted, free)
        if fitted.temperature is None:
            return f"Calibrated with {fitted.name} on {counted(fitted.n, 'validation example')}."
        was, now = ("over", "less") if fitted.temperature > 1 else ("under", "more")
        return (
            f"Calibrated: on validation the model is {was}confident, so its predictions become "
            f"{now} confident (T = {fitted.temperature:.3g})."
        )

    @property
    def _changed(self) -> bool:
        fitted = self.fitted
        return fitted is not None and fitted.params is not None and fitted.temperature != 1

    @staticmethod
    def _unchanged(fitted: Fitted, free: Temperature | None) -> str:
        head = "Calibration changed nothing:"
        few = fitted.errors < LEAST_ERRORS
        if few and (fitted.params is None or free is None or not free.finite):
            few_errors = f"{counted(fitted.errors, 'error')} in {fitted.n} validation examples"
            return f"{head} {few_errors} say too little about confidence."
        if free is None or not free.finite:
            why = REASONS[free.state] if free is not None else f"{fitted.name} had nothing to fit"
            return f"{head} {why}."
        if fitted.calibrator.sharpens or free.value >= 1:
            return f"{head} on validation the model is as confident as it should be (T = 1)."
        much = "slightly " if free.value >= SLIGHT else ""
        said = (
            f"{head} on validation the model is {much}underconfident (T would be "
            f"{free.value:.2g}), and for new places checkwise does not sharpen."
        )
        return said if few else f"{said} --for same does."

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know first."""
        if self.fitted is None:
            return (f"no calibrator: {self.reason}",)
        return self.fitted.conditions if self._changed else ()

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """What it changes on other examples than it was fitted on, in a sentence."""
        change = self.change
        if change is None:
            return ()
        values = (change.mean, change.low, change.high)
        mean, low, high = (number(value, 4, signed=True) for value in values)
        folds = "five folds" if change.groups is None else "five folds of whole groups"
        return (
            f"On examples that it was not fitted on the NLL changes by {mean} [{low}, {high}] "
            f"({folds}).",
        )

    def as_dict(self) -> dict[str, Any]:
        """The content of ``calibration.json``."""
        if self.fitted is None:
            return {"schema": SCHEMA, "calibrator": None, "reason": self.reason}
        change = None if self.change is None else self.change.as_dict()
        return {**self.fitted.to_dict(), "cross_fitted_change_of_nll": change}


def calibrated(model: DeployedModel, calibrator: str | None) -> Calibration:
    """Fit the calibrator to the model's logits on source validation, if there are any."""
    settings = model.selection.trajectory.metric_settings
    if model.logits is None:
        known = recorded(model.selection, model.steps[0]) if model.kind == "single" else {}
        averaged = model.kind == "weights-mean"
        reason = MEAN_UNMEASURED if averaged else f"there are no logits of validation: {PREDICT}"
        count = _count(groups_of(model.selection.trajectory))
        return Calibration(None, known, {}, reason=reason, groups=count)
    how: dict[str, Any] = {**settings, "groups": model.groups}
    plain, count = measure(model.logits, **how), _count(model.groups)
    if calibrator is None:
        return Calibration(None, plain, {}, reason="none was asked for", groups=count)
    logits = dict(model.logits)
    fitted = fit(logits, calibrator)
    after = measure({d: (fitted.apply(z), y) for d, (z, y) in logits.items()}, **how)
    change, free = change_of(logits, fitted, model.groups), fit_temperature(*together(logits))
    return Calibration(fitted, plain, after, change, groups=count, free=free)


def _count(groups: Groups | None) -> int | None:
    """How many groups there are."""
    return None if groups is None else int(units_together(groups).max()) + 1


def record_of(
    model: DeployedModel, calibration: Calibration, *, facts: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """The content of ``deployed.json`` but for the digests."""
    selection = model.selection
    chosen = selection.as_dict(paired=model.kind == "single")
    fitted = calibration.fitted
    return {
        "kind": model.kind,
        "name": printable(name),
        **{key: chosen[key] for key in ("rule", "rule_reason", "params", "weights")},
        "worst_domain": chosen["worst_domain"],
        "steps": list(model.steps),
        **{key: chosen[key] for key in ("feasible_steps", "checkpoints", "domains")},
        "format": model.format,
        "members": [stored.place for stored in model.stored],
        "calibrator": None if fitted is None else fitted.name,
        "state": None if fitted is None else fitted.state,
        "calibration": printable(calibration.done),
        "metrics": {
            "plain": {name: asdict(value) for name, value in calibration.plain.items()},
            "calibrated": {name: asdict(value) for name, value in calibration.after.items()},
        },
        "guard": chosen["guard"],
        "guarantee": chosen["guarantee"] if model.kind == "single" else None,
        "notes": [printable(note) for note in (*model.notes, *calibration.notes)],
        "digest": chosen["digest"],
        **facts,
        "versions": {
            "checkwise": __version__,
            **{name: metadata.version(name) for name in ("torch", "safetensors", "numpy")},
        },
    }


def measure(
    logits: Mapping[str, tuple[Any, Any]],
    *,
    bins: int,
    bandwidth: float,
    groups: Groups | None = None,
) -> dict[str, Measured]:
    """Accuracy, NLL, Brier score and calibration errors of some logits.

    Examples are resampled within their domain, or whole groups of them where these are known.
    Calibration errors are no means over examples and have no interval here.
    """
    reports = [
        evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth).values()
        for z, y in logits.values()
    ]
    means = {
        name: fsum(report[name] for report in reports) / len(reports)
        for name in (*PER_EXAMPLE, *BINNED)
    }
    rows = [per_example(logits=z, labels=y) for z, y in logits.values()]
    low, high = _interval(
        [np.stack([r.correct, r.nll, r.brier], axis=1) for r in rows],
        None if groups is None else [groups[domain] for domain in logits],
    )
    ends = dict(zip(PER_EXAMPLE, zip(low, high, strict=True), strict=True))
    return {name: Measured(value, *ends.get(name, ())) for name, value in means.items()}


def recorded(selection: Selection, step: int) -> dict[str, Measured]:
    """What the log says of a checkpoint; accuracy has an interval where counts are known.

    Used where no logits are.
    """
    run = selection.trajectory
    columns = selection.columns
    row = int(np.flatnonzero(run.steps == step)[0])
    names = [name for name in (*PER_EXAMPLE, *BINNED) if name in columns]
    values = {name: Measured(float(columns[name][row])) for name in names}
    if run.correct is not None and run.counts is not None and not selection.choice.worst_domain:
        right, groups = run.correct[row], run.examples.groups if run.examples else None
        answers = [
            (np.arange(n) < c)[:, None].astype(np.float64)
            for c, n in zip(right.tolist(), run.counts.tolist(), strict=True)
        ]
        if run.examples is not None and groups is not None:
            answers = [one[row][:, None].astype(np.float64) for one in run.examples.correct]
        low, high = _interval(answers, groups)
        mean = fsum(part.mean() for part in answers) / len(answers)
        values["accuracy"] = Measured(mean, low[0], high[0])
    return values


def _interval(domains: list[Any], groups: Sequence[Any] | None) -> tuple[list[float], list[float]]:
    """Ends of the interval of the equal mean over domains, for every column."""
    drawn = []
    for place, rows in enumerate(domains):
        values = np.asarray(rows, dtype=np.float64)
        how = {"resamples": RESAMPLES, "seed": SEED + place}
        drawn.append(
            resampled_means(values, **how)
            if groups is None
            else resampled_group_means(values, groups[place], **how)
        )
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.mean(drawn, axis=0), [tail, 100 - tail], axis=0)
    return low.tolist(), high.tolist()
