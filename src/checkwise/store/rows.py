"""Journal lines turned into arrays: every metric at every step, or a line that says what lacks."""

from __future__ import annotations

import reprlib
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
        if type(step) is not int or step < 0 or (steps and step <= steps[-1]):
            raise InputError(
                f"Expected increasing steps, but got {reprlib.repr(step)} in line {number} of "
                f"{path}: the file is damaged; `checkwise verify` says what to do."
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
    columns: dict[str, NDArray[Any]] = {}
    for name in ("n", "correct", *names):
        count = name in ("n", "correct")
        empty = 0 if count else np.nan
        values = [
            empty if lost and name != "n" else _number(entry, name, step, where, whole=count)
            for entry, lost, step in zip(entries, diverged.tolist(), steps.tolist(), strict=True)
        ]
        columns[name] = np.array(values, dtype=np.int64 if count else np.float64)
    return columns


def _number(
    entry: Mapping[str, Any], name: str, step: int, where: str, *, whole: bool = False
) -> float:
    value = entry.get(name)
    if type(value) is float and not whole:
        return value
    kind = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InputError(
            f"Expected a {'whole ' * whole}number for {name}, but got {reprlib.repr(value)} at "
            f"step {step} in {where}: the file is damaged; `checkwise verify` says what to do."
        )
    return value
