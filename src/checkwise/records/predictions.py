"""Outputs of checkpoints turned into the arrays of a trajectory, one checkpoint at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import Report
from checkwise.records.columns import left_out


@dataclass
class Recorder:
    """Measures checkpoints and remembers what a trajectory is made of.

    Args:
        kind: what the outputs are, "logits" or "probs"; never guessed.
        bins, bandwidth: settings of the calibration errors.
        held_out: domains that are passed over unread.
    """

    kind: str = "logits"
    bins: int = 15
    bandwidth: float = 0.1
    held_out: tuple[str, ...] = ()
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

    def add(self, step: int, outputs: Mapping[str, Any]) -> None:
        """Measure one checkpoint: ``{domain: (outputs, labels)}``, or a ``Report`` each."""
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 0:
            raise InputError(f"Expected a whole number of 0 or more as step, but got {step!r}.")
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
            found = [pair for pair in measured.values() if pair is not None]
            self._rows.append([values for values, _ in found])
            self._correct.append([correct for _, correct in found])
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
        for name in self.held_out:
            if name not in outputs:
                raise InputError(
                    f"Expected the held-out domain {name!r} among {', '.join(outputs)} "
                    f"(step {step}): check the name."
                )
        names = tuple(sorted(set(outputs) - set(self.held_out)))
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
        try:
            z, y = (metrics.to_numpy(part) for part in entry)
        except (TypeError, ValueError):
            raise InputError(
                f"Expected (outputs, labels) at {where}, but got {type(entry).__name__}."
            ) from None
        self._same(self._counts, name, len(y), "examples", step)
        labels = hashlib.sha256(np.ascontiguousarray(y).tobytes())
        self._same(self._labels, name, labels.hexdigest(), "labels", step)
        if z.ndim == 2:
            self._same(self._classes, name, z.shape[1], "classes", step)
        if self.kind == "logits" and z.dtype.kind == "f" and _blown_up(z):
            return None
        try:
            outputs: dict[str, Any] = {self.kind: z, "labels": y}
            report = metrics.evaluate(**outputs, bins=self.bins, bandwidth=self.bandwidth)
            registered = metrics.evaluate_registered(**outputs)
        except InputError as error:
            raise InputError(f"{error} ({where})") from None
        return {**report.values(), **registered}, report.correct

    def _same(self, known: dict[str, Any], name: str, value: Any, what: str, step: int) -> None:
        if known.setdefault(name, value) != value:
            raise InputError(
                f"The {what} of domain {name!r} at step {step} differ from those at step "
                f"{self.steps[0]}: evaluate every checkpoint on the same examples in one order."
            )


def _blown_up(z: Any) -> bool:
    """NaN or +inf somewhere; -inf is a class that was masked out."""
    return bool(np.isnan(z).any() or np.isposinf(z).any())


def evaluate(
    saved: Mapping[int, Mapping[str, Any]],
    *,
    kind: str,
    bins: int,
    bandwidth: float,
    held_out: str | Iterable[str] | None,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from ``{step: {domain: (outputs, labels)}}``."""
    recorder = Recorder(kind, bins, bandwidth, left_out(held_out))
    for done, step in enumerate(sorted(saved), start=1):
        recorder.add(step, saved[step])
        if progress:
            progress(done)
    return recorder.facts()
