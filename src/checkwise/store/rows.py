"""Journal lines turned into arrays: every metric at every step, or a line that says what lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError

NOT_METRICS = ("n", "correct", "split")


def steps_of(lines: Sequence[Mapping[str, Any]], path: Path) -> NDArray[np.int64]:
    """The steps of a journal, increasing."""
    steps: list[int] = []
    for number, line in enumerate(lines, start=1):
        step = line.get("step")
        if type(step) is not int or (steps and step <= steps[-1]):
            raise InputError(
                f"Expected increasing steps, but got {step!r} in line {number} of {path}: the file "
                "is damaged; `checkwise verify` says what to do."
            )
        steps.append(step)
    return np.array(steps, dtype=np.int64)


def diverged_of(lines: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
    """Which checkpoints had outputs that were not finite."""
    return np.array([bool(line.get("diverged")) for line in lines], dtype=bool)


def metric_columns(
    entries: Sequence[Mapping[str, Any]],
    diverged: NDArray[np.bool_],
    steps: NDArray[np.int64],
    where: str,
) -> dict[str, NDArray[Any]]:
    """Columns ``n``, ``correct`` and every metric; nan (0 correct) where a checkpoint diverged."""
    kept = [entry for entry, lost in zip(entries, diverged.tolist(), strict=True) if not lost]
    source = kept or list(entries)
    names = [name for name in source[0] if name not in (*NOT_METRICS, "step", "diverged")]
    columns: dict[str, NDArray[Any]] = {
        "n": np.array([_number(e, "n", s, where) for e, s in zip(entries, steps, strict=True)]),
    }
    columns["n"] = columns["n"].astype(np.int64)
    for name in ("correct", *names):
        empty = 0 if name == "correct" else np.nan
        values = [
            empty if lost else _number(entry, name, step, where)
            for entry, lost, step in zip(entries, diverged.tolist(), steps.tolist(), strict=True)
        ]
        columns[name] = np.array(values, dtype=np.int64 if name == "correct" else np.float64)
    return columns


def _number(entry: Mapping[str, Any], name: str, step: int, where: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(
            f"Expected a number for {name}, but got {value!r} at step {step} in {where}: the file "
            "is damaged; `checkwise verify` says what to do."
        )
    return value
