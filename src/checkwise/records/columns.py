"""A tidy table, one row per step and domain, turned into the arrays of a trajectory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS, to_numpy
from checkwise.metrics.arrays import is_number, to_floats
from checkwise.records.checks import whole_numbers
from checkwise.text import shown

ONLY_DOMAIN = "validation"
SOURCE_ROLES = ("source", "")
TARGET_ROLES = ("target", "held-out", "held_out")


def read(
    table: Any, *, held_out: str | Iterable[str] | None = None, metrics: Iterable[str] = ()
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from a data frame or a mapping of columns.

    Rows of held-out domains are dropped before any value in them is looked at.
    """
    try:
        names = [name for name in _names(table) if isinstance(name, str)]
    except Exception:  # someone else's iterator may raise anything
        raise InputError(
            f"Expected a table or a mapping of columns, but got {type(table).__name__}."
        ) from None
    for required in ("step", "accuracy"):
        if required not in names:
            raise InputError(
                f"Expected a column {required!r}, but the table has {', '.join(names) or 'none'}: "
                "give one row per step and domain with step, accuracy and the metrics you have."
            )
    wanted = [name for name in dict.fromkeys([*METRICS, *metrics]) if name in names]
    extra = [n for n in ("n", "correct", "diverged", "path") if n in names]
    raw = {name: _column(table, name) for name in ["step", *wanted, *extra]}
    rows = len(raw["step"])
    for name, column in raw.items():
        if len(column) != rows:
            raise InputError(
                f"Expected {rows} values in every column, as in 'step', but {name!r} has "
                f"{len(column)}: fill in the missing ones."
            )
    domain = texts(table, "domain", names, rows, ONLY_DOMAIN)
    keep = source_rows(domain, texts(table, "role", names, rows, "source"), held_out)
    raw = {name: column[keep] for name, column in raw.items()}
    domain = domain[keep]

    step = whole_numbers(raw["step"], "step")
    steps, t = np.unique(step, return_inverse=True)
    domains, e = np.unique(domain, return_inverse=True)
    _check_grid(steps, t, domains, e)
    grid = np.empty((len(steps), len(domains)), np.int64)
    grid[t, e] = np.arange(len(step))

    facts: dict[str, Any] = {"steps": steps, "domains": tuple(domains.tolist())}
    if "diverged" in raw:
        facts["diverged"] = _booleans(raw["diverged"])[grid].any(axis=1)
    facts["values"] = {name: _numbers(raw[name], name, step, domain)[grid] for name in wanted}
    if "n" in raw:
        facts["counts"] = _constant_counts(raw["n"], grid, steps, domains)
    if "correct" in raw and "n" in raw:
        facts["correct"] = whole_numbers(raw["correct"], "number correct")[grid]
    if "path" in raw:
        facts["paths"] = [_text_or_none(raw["path"][row]) for row in grid[:, 0].tolist()]
    return facts


def _names(table: Any) -> Iterable[Any]:
    """Column names of a mapping, or of a pandas, polars or Arrow table."""
    if hasattr(table, "column_names"):
        return list(table.column_names)
    return list(table.columns if hasattr(table, "columns") else table)


def _column(table: Any, name: str) -> NDArray[Any]:
    array = to_numpy(table[name], f"column {name!r}")
    if array.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got {array.shape}.")
    return array


def texts(table: Any, name: str, names: list[str], rows: int, default: str) -> NDArray[np.object_]:
    """A column as text, ``default`` where it is absent or a cell is empty."""
    if name not in names:
        return np.full(rows, default, dtype=object)
    texts = [_text_or_none(value) for value in _column(table, name).tolist()]
    if len(texts) != rows:
        raise InputError(
            f"Expected {rows} values in every column, as in 'step', but {name!r} has "
            f"{len(texts)}: fill in the missing ones."
        )
    return np.array([default if text is None else text for text in texts], dtype=object)


def _text_or_none(value: Any) -> str | None:
    if value is None or type(value).__name__ == "NAType":
        return None
    try:
        return None if value != value else str(value)
    except (TypeError, ValueError):  # such as an integer of thousands of digits
        raise InputError(f"Expected text, but got {shown(value)}: fix that cell.") from None


def left_out(held_out: str | Iterable[str] | None) -> tuple[str, ...]:
    """``held_out`` as a tuple of names."""
    if held_out is None:
        return ()
    return (held_out,) if isinstance(held_out, str) else tuple(str(name) for name in held_out)


def source_rows(
    domain: NDArray[np.object_], role: NDArray[np.object_], held_out: str | Iterable[str] | None
) -> NDArray[np.bool_]:
    """Which rows are neither of a target by role nor of a domain to leave out."""
    known = sorted(set(domain.tolist()))
    for name in left_out(held_out):
        if name not in known:
            raise InputError(
                f"Expected the held-out domain {name!r} in the table, which has "
                f"{', '.join(known)}: check the name."
            )
    for row, name in enumerate(role.tolist()):
        if name not in SOURCE_ROLES + TARGET_ROLES:
            raise InputError(f"Expected role 'source' or 'target', but got {name!r} in row {row}.")
    keep = np.isin(role, SOURCE_ROLES) & ~np.isin(domain, left_out(held_out))
    if not keep.any():
        raise InputError("No source rows are left after the held-out ones: nothing to select on.")
    return keep


def _check_grid(
    steps: NDArray[np.int64], t: NDArray[Any], domains: NDArray[Any], e: NDArray[Any]
) -> None:
    seen = np.zeros((len(steps), len(domains)), np.int64)
    np.add.at(seen, (t, e), 1)
    if (seen == 1).all():
        return
    i, j = (int(k) for k in np.argwhere(seen != 1)[0])
    where = f"step {steps[i]}, domain {domains[j]!r}"
    if seen[i, j] > 1:
        raise InputError(
            f"Expected one row per step and domain, but got {seen[i, j]} for {where}: keep one "
            "(or add the run's columns, if the table holds several runs)."
        )
    raise InputError(
        f"Expected every domain at every step, but there is no row for {where}: "
        "add it, or remove that step."
    )


def _booleans(column: NDArray[Any]) -> NDArray[np.bool_]:
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    try:
        return np.array([words[(_text_or_none(value) or "").lower()] for value in column.tolist()])
    except KeyError as error:
        raise InputError(
            f"Expected true or false in column 'diverged', but got {error.args[0]!r}."
        ) from None


def _numbers(
    column: NDArray[Any], name: str, step: NDArray[np.int64], domain: NDArray[np.object_]
) -> NDArray[np.float64]:
    if column.dtype.kind not in "iuf":
        for row, value in enumerate(column.tolist()):
            if not is_number(value):
                raise InputError(
                    f"Expected a number for {name}, but got {shown(value)} at step {step[row]}, "
                    f"domain {domain[row]!r}: fix that cell."
                )
    return to_floats(column, name)


def _constant_counts(
    column: NDArray[Any],
    grid: NDArray[np.int64],
    steps: NDArray[np.int64],
    domains: NDArray[Any],
) -> NDArray[np.int64]:
    n = whole_numbers(column, "n")[grid]
    changed = n != n[0]
    if changed.any():
        t, e = (int(k) for k in np.argwhere(changed)[0])
        raise InputError(
            f"Expected the same n at every step, but domain {domains[e]!r} has n = {n[0, e]} at "
            f"step {steps[0]} and {n[t, e]} at step {steps[t]}: evaluate all checkpoints on the "
            "same examples."
        )
    constant: NDArray[np.int64] = n[0]
    return constant
