"""Held-out results of a cohort's runs: values at steps, logits, and who may see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators import TS_LIMIT, Fitted
from checkwise.errors import InputError
from checkwise.metrics import METRICS, Logits, PerExample, per_example, probabilities
from checkwise.store import read_run
from checkwise.study.baselines import heldout_file
from checkwise.study.folder import recorded_files, sealed_entry, sealed_logits, sealed_results
from checkwise.study.outcome import FloatArray, Outcome, RunColumns, entry_metrics, mean_of


class Targets:
    """The held-out results of one run, each read when first needed; journals are then kept."""

    def __init__(self, folder: Path, domains: tuple[str, ...]):
        self._folder = folder
        self._domains = domains
        self._read: dict[str, Mapping[str, NDArray[Any]]] = {}

    def on(self, outcome: Outcome, *, oracle: bool = False) -> Outcome:
        """The outcome with its target metrics, recalibrated as it says or by the target itself."""
        targets = {name: self._mean_at(name, outcome.steps) for name in self._domains}
        if oracle or outcome.calibration is not None:
            targets = {
                name: self._scaled(name, outcome.steps[0], outcome.calibration)
                if np.isfinite(values["nll"])
                else values
                for name, values in targets.items()
            }
        return replace(outcome, targets=targets)

    def at(self, steps: Sequence[int]) -> RunColumns:
        """Target metrics at some steps: means over the held-out domains; nan without a record."""
        domains = [values_at(journal, steps) for journal in self.journals().values()]
        shared = [name for name in domains[0] if all(name in other for other in domains)]
        return RunColumns(
            {name: np.mean([values[name] for values in domains], axis=0) for name in shared}
        )

    def logits(self, domain: str, step: int) -> Logits:
        what = f"logits on the held-out domain {domain!r} at step {step}"
        return sealed_logits(
            self._folder,
            domain,
            step,
            read=lambda folder, name: read_run(folder).held_out_logits(name, what),
        )

    def journals(self) -> dict[str, Mapping[str, NDArray[Any]]]:
        for domain in self._domains:
            if domain not in self._read:
                self._read[domain] = sealed_results(self._folder, domain)
        return dict(self._read)

    def _mean_at(self, domain: str, steps: tuple[int, ...]) -> dict[str, float]:
        journal = self.journals()[domain]
        absent = [step for step in steps if step not in journal["step"]]
        if absent:
            raise InputError(
                f"Expected held-out results of {domain} at step {absent[0]}, but "
                f"{self._folder / 'heldout'} has none for it: run "
                "`checkwise study status --verify` on the study.",
                code="damaged",
            )
        return {name: mean_of(values) for name, values in values_at(journal, steps).items()}

    def _scaled(self, domain: str, step: int, calibration: Fitted | None) -> dict[str, float]:
        logits = self.logits(domain, step)
        config = read_run(self._folder).config
        fitted = TS_LIMIT.fit(logits, force=True) if calibration is None else calibration
        scaled = fitted.metrics(logits, bins=config["bins"], bandwidth=config["bandwidth"])[domain]
        return {name: float(scaled[name]) for name in METRICS if name in scaled}


def values_at(journal: Mapping[str, NDArray[Any]], steps: Sequence[int]) -> dict[str, FloatArray]:
    """The metrics of one held-out domain at some steps, in their order; nan without a record."""
    rows = np.minimum(np.searchsorted(journal["step"], steps), len(journal["step"]) - 1)
    recorded = journal["step"][rows] == steps
    values = {name: journal[name][rows] for name in METRICS if name in journal}
    if recorded.all():
        return values
    return {name: np.where(recorded, column, np.nan) for name, column in values.items()}


def with_derived_targets(folder: Path, outcome: Outcome) -> Outcome:
    """The outcome of a recipe with the held-out results that it left in its folder."""
    files = recorded_files(folder)
    targets = {}
    for domain in outcome.key.held_out:
        name = heldout_file(domain)
        entry = sealed_entry(folder, name, files.get(name))
        targets[domain] = entry_metrics(entry, folder / name)
    return replace(outcome, targets=targets)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits [n, C] and labels [n] of one checkpoint on one domain."""

    step: int
    domain: str
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def probabilities(self) -> FloatArray:
        return probabilities(self.logits)

    @property
    def examples(self) -> PerExample:
        return per_example(logits=self.logits, labels=self.labels)


def read_heldout(folder: Path, domain: str, step: int) -> Predictions:
    logits, labels = Targets(folder, (domain,)).logits(domain, step)[domain]
    return Predictions(step, domain, logits, labels)
