"""What every recipe gives on every run of a cohort: computed once where the weights and logits
lie, kept as small files beside the packed journals.

    python docs/build/outcomes.py COHORT... [--data NAME=PATH]

Averages are made first if they are missing. Held-out results are opened: register before.
The pages and their tests start from the kept numbers.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from logit_tables import fingerprint
from recipes import of_cohort

from checkwise.calibrators import fit
from checkwise.errors import MissingMetricError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select
from checkwise.store.cohort import open_cohort
from checkwise.study import Cohort
from checkwise.study.compare import Differences
from checkwise.study.heldout import Targets
from checkwise.study.methods import Method
from checkwise.study.outcome import Outcome
from checkwise.weights.derive import derive

FOLDER = Path(__file__).parents[1] / "study" / "data" / "outcomes"
METRICS = ("target_accuracy", "target_nll", "target_ece", "target_cwece")
BESIDE = ("source_accuracy", "source_nll", "step")
DECIMALS = 7
ORACLE = "source-acc+ts-oracle"


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

    def temperature(self, recipe: str) -> np.ndarray:
        """The fitted temperature of every run; nan where nothing was fitted."""
        return self.values[recipe]["temperature"]


def compute(folder: Path, roots: Mapping[str, str]) -> dict[str, Any]:
    """Every recipe on every run that has it."""
    cohort = Cohort.open(folder)
    rows = of_cohort(folder.name)
    for row in rows.values():
        if row.recipe is not None:
            derive(folder, row.name, row.recipe, roots=roots)
    keys = sorted(cohort.usable)
    values = {}
    for name, row in rows.items():
        outcomes = {each.key: each for each in _outcomes(cohort, row)}
        values[name] = {
            column: [_value(outcomes.get(key), column) for key in keys]
            for column in (*METRICS, *BESIDE, "temperature")
        }
        values[name] = {k: v for k, v in values[name].items() if any(x is not None for x in v)}
        print(f"{folder.name}: {name}", flush=True)
    values[ORACLE]["temperature"] = [_best_temperature(folder, cohort, key) for key in keys]
    values["source-acc"]["errors"] = [_errors(cohort.usable[key]) for key in keys]
    return {
        "cohort": folder.name,
        "role": cohort.role,
        "journals": fingerprint(folder),
        "runs": [key.as_dict() for key in keys],
        "values": values,
    }


def _best_temperature(folder: Path, cohort: Cohort, key: RunKey) -> float | None:
    """What is best on the target itself, for the choice of source-acc."""
    targets = Targets(open_cohort(folder).runs[key], key.held_out)
    step = select(cohort.usable[key], "source-acc").step
    logits = {k: v for name in key.held_out for k, v in targets.logits(name, step).items()}
    fitted = fit(logits, "ts", force=True)
    return None if fitted.temperature is None else round(fitted.temperature, DECIMALS)


def _errors(run: Trajectory) -> int | None:
    """Validation errors at the best checkpoint."""
    state = select(run, "source-acc").saturation
    return None if state is None else state.errors


def _outcomes(cohort: Cohort, row: Method) -> Iterable[Outcome]:
    try:
        return cohort.outcomes(row, held_out=True)
    except MissingMetricError:  # pair- rows have nothing to read where an algorithm has no penalty
        return ()


def _value(outcome: Outcome | None, column: str) -> float | None:
    if outcome is None:
        return None
    if column == "temperature":
        value = None if outcome.calibration is None else outcome.calibration.temperature
    else:
        value = outcome.row.get(column)
    return round(float(value), DECIMALS) if value is not None and np.isfinite(value) else None


def write(folder: Path, roots: Mapping[str, str]) -> None:
    """Keep the numbers of one cohort."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(compute(folder, roots), separators=(",", ":"))
    (FOLDER / f"{folder.name}.json.xz").write_bytes(lzma.compress(text.encode()))


@cache
def read(cohort: str) -> Outcomes:
    """The kept numbers of one cohort."""
    record = json.loads(lzma.decompress((FOLDER / f"{cohort}.json.xz").read_bytes()))
    values = {
        recipe: {name: np.array(column, dtype=float) for name, column in columns.items()}
        for recipe, columns in record["values"].items()
    }
    keys = tuple(RunKey.from_dict(run) for run in record["runs"])
    return Outcomes(record["cohort"], record["role"], record["journals"], keys, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohorts", nargs="+", type=Path)
    parser.add_argument("--data", action="append", default=[])
    asked = parser.parse_args()
    roots = dict(item.split("=", 1) for item in asked.data)
    for cohort in asked.cohorts:
        write(cohort, roots)


if __name__ == "__main__":
    main()
