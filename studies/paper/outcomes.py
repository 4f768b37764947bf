"""What every recipe gave on every run of a cohort: small files beside the packed journals.

``keep_outcomes.py`` writes them. The pages and their tests start from these numbers.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.records import RunKey
from checkwise.study import Differences
from studies.page import DATA

FOLDER = DATA / "outcomes"
METRICS = ("target_accuracy", "target_nll", "target_ece", "target_cwece")
HARD = ("target_hard_ece", "target_hard_cwece")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The kept numbers of one cohort: recipe → name → a value for every run, as fractions."""

    cohort: str
    role: str
    journals: str
    keys: tuple[RunKey, ...]
    values: Mapping[str, Mapping[str, np.ndarray]]

    def differences(
        self,
        recipe: str,
        reference: str,
        metrics: Sequence[str] = METRICS,
        keep: np.ndarray | None = None,
    ) -> Differences:
        """A recipe against another, on the runs that both have."""
        sides = [np.stack([self.values[r][m] for m in metrics], 1) for r in (recipe, reference)]
        have = np.isfinite(sides[0][:, 0]) & np.isfinite(sides[1][:, 0])
        have = have if keep is None else have & keep
        keys = tuple(key for key, kept in zip(self.keys, have.tolist(), strict=True) if kept)
        first, second = (side[have] for side in sides)
        return Differences(recipe, reference, keys, tuple(metrics), first, second)

    def of_dataset(self, dataset: str) -> Outcomes:
        """The runs on one data set alone."""
        keep = np.array([key.dataset == dataset for key in self.keys])
        values = {
            recipe: {name: column[keep] for name, column in columns.items()}
            for recipe, columns in self.values.items()
        }
        keys = tuple(key for key in self.keys if key.dataset == dataset)
        return replace(self, keys=keys, values=values)

    def temperature(self, recipe: str) -> np.ndarray:
        """The fitted temperature of every run; nan where nothing was fitted."""
        return self.values[recipe]["temperature"]


def file_of(cohort: str) -> Path:
    """Where the numbers of a cohort are kept."""
    return FOLDER / f"{cohort}.json.xz"


def record_of(cohort: str) -> dict[str, Any]:
    """The kept numbers as plain values."""
    record: dict[str, Any] = json.loads(lzma.decompress(file_of(cohort).read_bytes()))
    return record


def keep(record: dict[str, Any]) -> None:
    """Write the numbers of a cohort."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(record, separators=(",", ":"))
    file_of(record["cohort"]).write_bytes(lzma.compress(text.encode()))


@cache
def read(cohort: str) -> Outcomes:
    """The kept numbers of one cohort."""
    record = record_of(cohort)
    values = {
        recipe: {name: np.array(column, dtype=float) for name, column in columns.items()}
        for recipe, columns in record["values"].items()
    }
    keys = tuple(RunKey.from_dict(run) for run in record["runs"])
    return Outcomes(record["cohort"], record["role"], record["journals"], keys, values)
