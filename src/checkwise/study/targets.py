"""Held-out results at given steps. The one place in checkwise that opens them."""

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
from checkwise.study.outcome import Outcome


class Targets:
    """The held-out journals of one run, each read when first needed and then kept."""

    def __init__(self, folder: Path, domains: tuple[str, ...]):
        self._folder = folder
        self._domains = domains
        self._read: dict[str, Mapping[str, NDArray[Any]]] = {}

    def on(self, outcome: Outcome) -> Outcome:
        """The outcome with the target metrics at its steps."""
        return replace(
            outcome, targets={name: self._at(name, outcome.steps) for name in self._domains}
        )

    def journals(self) -> dict[str, Mapping[str, NDArray[Any]]]:
        """Every record of every held-out domain."""
        for domain in self._domains:
            if domain not in self._read:
                self._read[domain] = heldout.read_heldout(self._folder, domain)
        return dict(self._read)

    def _at(self, domain: str, steps: tuple[int, ...]) -> dict[str, float]:
        journal = self.journals()[domain]
        row_of = {int(step): row for row, step in enumerate(journal["step"].tolist())}
        absent = [step for step in steps if step not in row_of]
        if absent:
            raise InputError(
                f"Expected held-out results of {domain} at step {absent[0]}, but "
                f"{self._folder / 'heldout'} has none for it: run `checkwise verify` on the cohort."
            )
        rows = np.array([row_of[step] for step in steps])
        names = [name for name in METRICS if name in journal]
        return {name: float(np.mean(journal[name][rows].astype(np.float64))) for name in names}
