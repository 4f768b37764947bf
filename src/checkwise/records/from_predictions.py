"""From the outputs of checkpoints to the arrays of a trajectory, one checkpoint at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import Report
from checkwise.metrics.inputs import Predictions, check_bins, read
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.records.checks import domains as domain_names
from checkwise.records.held_out import as_names, check_held_out, divide
from checkwise.text import shown

LARGEST_STEP = 2**53


@dataclass
class Recorder:
    """Measures checkpoints and collects the facts of a trajectory.

    Args:
        kind: what the outputs are, "logits" or "probs"; never guessed.
        bins, bandwidth: settings of the calibration errors.
        held_out: domains that are skipped unread, as are those whose names look held out.
        sources: domains that are validation although their names look held out.
    """

    kind: str = "logits"
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    held_out: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    steps: list[int] = field(default_factory=list)
    domains: tuple[str, ...] = ()
    _rows: list[list[dict[str, float]]] = field(default_factory=list)
    _correct: list[list[int]] = field(default_factory=list)
    diverged: list[bool] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _classes: dict[str, int] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.kind not in ("logits", "probs"):
            raise InputError(f"Expected kind 'logits' or 'probs', but got {self.kind!r}.")
        self.bins, self.bandwidth = check_bins(self.bins, self.bandwidth)

    def add(self, step: int, outputs: Mapping[str, Any]) -> None:
        """Measure one checkpoint: ``{domain: (outputs, labels)}``, or a ``Report`` each."""
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 0:
            raise InputError(
                f"Expected a whole number of 0 or more as step, but got {shown(step)}."
            )
        if step > LARGEST_STEP:
            raise InputError(f"Expected a step of at most {LARGEST_STEP}, but got {shown(step)}.")
        if not isinstance(outputs, Mapping):
            raise InputError(
                f"Expected {{domain: (outputs, labels)}} at step {step}, but got "
                f"{type(outputs).__name__}: name the validation set, even a single one."
            )
        if self.steps and step <= self.steps[-1]:
            raise InputError(
                f"Expected a step after {self.steps[-1]}, but got {step}: add checkpoints in order."
            )
        names = self._source_domains(step, outputs)
        measured = {name: self._measure(step, name, outputs[name]) for name in names}
        lost = [name for name, report in measured.items() if report is None]
        if lost:
            self._notes.append(f"step {step} diverged: outputs of {lost[0]!r} are not finite")
            blank = dict.fromkeys(metrics.METRICS, np.nan)
            self._rows.append([blank] * len(names))
            self._correct.append([0] * len(names))
        else:
            finite = [pair for pair in measured.values() if pair is not None]
            self._rows.append([values for values, _ in finite])
            self._correct.append([correct for _, correct in finite])
        self.diverged.append(bool(lost))
        self.domains = names
        self.steps.append(int(step))

    def facts(self) -> dict[str, Any]:
        """Arguments of ``Trajectory``."""
        if not self.steps:
            raise InputError("Expected outputs of at least one checkpoint, but got none.")
        measured = next(
            (row[0] for row, lost in zip(self._rows, self.diverged, strict=True) if not lost), {}
        )
        return {
            "steps": np.array(self.steps),
            "domains": self.domains,
            "values": {
                name: np.array([[domain.get(name, np.nan) for domain in row] for row in self._rows])
                for name in measured or ("accuracy",)
            },
            "counts": np.array([self._counts[name] for name in self.domains]),
            "correct": np.array(self._correct),
            "diverged": np.array(self.diverged),
            "bins": self.bins,
            "bandwidth": self.bandwidth,
            "notes": tuple(self._notes),
        }

    def _source_domains(self, step: int, outputs: Mapping[str, Any]) -> tuple[str, ...]:
        check_held_out(self.held_out, list(outputs), f"step {step}")
        sides = divide(
            set(domain_names(outputs)) - set(self.held_out),
            sources=self.sources,
            where=f"step {step}",
        )
        names = sides.sources
        if not self.steps:
            self._notes += sides.notes
        if not names:
            raise InputError(f"Expected at least one source domain at step {step}, but got none.")
        if self.domains and names != self.domains:
            odd = sorted(set(names).symmetric_difference(self.domains))
            raise InputError(
                f"Expected domains {', '.join(self.domains)} at every step, but step {step} "
                f"differs in {', '.join(odd)}: evaluate the same domains at every checkpoint."
            )
        return names

    def _measure(self, step: int, name: str, entry: Any) -> tuple[dict[str, float], int] | None:
        """Metrics and number correct, or None where the outputs are not finite."""
        where = f"step {step}, domain {name!r}"
        if isinstance(entry, Report):
            self._same(self._counts, name, entry.n, "examples", step)
            self._same(self._classes, name, entry.classes, "classes", step)
            return entry.values(), entry.correct
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise InputError(
                f"Expected (outputs, labels) at {where}, but got {type(entry).__name__}."
            )
        try:
            predictions = read(
                **{"logits": None, "probs": None, self.kind: entry[0]}, labels=entry[1]
            )
            self._same(self._counts, name, len(predictions.labels), "examples", step)
            self._same(
                self._labels,
                name,
                hashlib.sha256(predictions.labels.tobytes()).hexdigest(),
                "labels",
                step,
            )
            self._same(self._classes, name, predictions.classes, "classes", step)
            if self.kind == "logits" and _blown_up(predictions):
                return None
            accumulator = metrics.Accumulator(
                classes=predictions.classes, bins=self.bins, bandwidth=self.bandwidth
            )
            accumulator.add(predictions)
            own = metrics.evaluate_registered(
                **{self.kind: predictions.values}, labels=predictions.labels
            )
        except InputError as error:
            raise InputError(f"{error} ({where})") from None
        report = accumulator.result()
        return {**report.values(), **own}, report.correct

    def _same(self, known: dict[str, Any], name: str, value: Any, what: str, step: int) -> None:
        if known.setdefault(name, value) != value:
            raise InputError(
                f"The {what} of domain {name!r} at step {step} differ from those at step "
                f"{self.steps[0]}: evaluate every checkpoint on the same examples, in the same "
                "order."
            )


def _blown_up(predictions: Predictions) -> bool:
    """NaN or +inf somewhere; -inf is a class that was masked out."""
    return any(
        np.isnan(rows).any() or np.isposinf(rows).any() for _, rows, _ in predictions.blocks()
    )


def evaluate(
    saved: Mapping[int, Mapping[str, Any]],
    *,
    kind: str,
    bins: int,
    bandwidth: float,
    held_out: str | Iterable[str] | None,
    sources: str | Iterable[str] | None,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from ``{step: {domain: (outputs, labels)}}``."""
    recorder = Recorder(kind, bins, bandwidth, as_names(held_out), as_names(sources))
    for done, step in enumerate(sorted(saved), start=1):
        recorder.add(step, saved[step])
        if progress:
            progress(done)
    return recorder.facts()
