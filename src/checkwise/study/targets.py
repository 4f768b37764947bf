"""Held-out results at given steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.store import heldout
from checkwise.store.run import read_run
from checkwise.study.outcome import Outcome, mean_at
from checkwise.weights.calibration import Calibration, calibrate
from checkwise.weights.logits import Logits, read_logits, remedy


class Targets:
    """The held-out results of one run, each read when first needed; journals are then kept."""

    def __init__(self, folder: Path, domains: tuple[str, ...]):
        self._folder = folder
        self._domains = domains
        self._read: dict[str, Mapping[str, NDArray[Any]]] = {}

    def on(self, outcome: Outcome, *, oracle: bool = False) -> Outcome:
        """The outcome with the target metrics at its steps, after its recalibration if it has one.

        With ``oracle`` the temperature is fitted on each target itself: a limit, not a method.
        """
        targets = {name: self._at(name, outcome.steps) for name in self._domains}
        if oracle or outcome.calibration is not None:
            targets = {
                name: self._scaled(name, outcome.steps[0], outcome.calibration)
                if np.isfinite(values["nll"])
                else values
                for name, values in targets.items()
            }
        return replace(outcome, targets=targets)

    def logits(self, domain: str, step: int) -> Logits:
        """Saved logits and labels of one held-out domain, by its name."""
        what = f"logits on the held-out domain {domain!r} at step {step}"
        return heldout.read_logits(
            self._folder,
            domain,
            step,
            read=lambda folder, name: read_logits(
                folder, name, what=what, advice=lambda: remedy(folder, heldout=True)
            ),
        )

    def journals(self) -> dict[str, Mapping[str, NDArray[Any]]]:
        """Every record of every held-out domain."""
        for domain in self._domains:
            if domain not in self._read:
                self._read[domain] = heldout.read_heldout(self._folder, domain)
        return dict(self._read)

    def _at(self, domain: str, steps: tuple[int, ...]) -> dict[str, float]:
        journal = self.journals()[domain]
        rows = np.searchsorted(journal["step"], steps)
        found = journal["step"][np.minimum(rows, len(journal["step"]) - 1)] == steps
        if not found.all():
            raise InputError(
                f"Expected held-out results of {domain} at step {steps[int(found.argmin())]}, but "
                f"{self._folder / 'heldout'} has none for it: run `checkwise verify` on the cohort."
            )
        names = [name for name in METRICS if name in journal]
        return {name: mean_at(journal[name], rows) for name in names}

    def _scaled(self, domain: str, step: int, calibration: Calibration | None) -> dict[str, float]:
        logits = self.logits(domain, step)
        config = read_run(self._folder).config
        fitted = calibrate(logits) if calibration is None else calibration
        found = fitted.metrics(logits, bins=config["bins"], bandwidth=config["bandwidth"])[domain]
        return {name: float(found[name]) for name in METRICS if name in found}
