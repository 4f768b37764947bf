"""Which rows of a table selection may read; of the others only domain and role are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS, is_number, to_floats, to_numpy
from checkwise.records import column_names
from checkwise.records.checks import whole_numbers
from checkwise.records.held_out import (
    as_names,
    check_held_out,
    check_sources,
    divide,
    looks_held_out,
)
from checkwise.records.held_out_cells import (
    CellColumns,
    Columns,
    check_cells,
    objects,
    targets_of,
    text_or_none,
    texts,
    without_rows,
)
from checkwise.words import shown

ONLY_DOMAIN = "validation"
SOURCE = "source"


@dataclass(frozen=True)
class SourceRows:
    """The rows to keep, and what was held out.

    ``targets`` has the held-out domains that the table names for each kept row; ``domains`` every
    domain of the table, held out or not.
    """

    keep: NDArray[np.bool_]
    targets: tuple[tuple[str, ...], ...]
    domains: frozenset[str]
    notes: tuple[str, ...]


def source_rows(
    columns: CellColumns,
    rows: int,
    where: str,
    *,
    held_out: str | Iterable[str] | None,
    sources: str | Iterable[str] | None,
    beside: Callable[[NDArray[np.int64]], Columns],
    labels: Iterable[str] = (),
    paths: Iterable[str] = (),
) -> SourceRows:
    """Leave out targets: by role, then as the caller says, by name, and by the run's own column.

    In this order, so that a row that is held out cannot decide about another. What the other
    columns say of the rows that are left is checked last.

    Args:
        columns: ``domain``, ``role`` and ``held_out`` as far as the table has them.
        sources: domains, or cells of other columns, that the caller calls validation.
        beside: the columns that are not read, in some rows.
        labels, paths: those of them that name runs, and that name checkpoints.
    """
    domain = texts(columns, "domain", ONLY_DOMAIN, rows)
    role = texts(columns, "role", "", rows)
    known = frozenset(domain.tolist())
    unwanted, validation = as_names(held_out), as_names(sources)
    check_held_out(unwanted, sorted(known), where)
    keep = ~_target_roles(role, where) & ~_among(domain, unwanted)
    declared = set(domain[keep & (role == SOURCE)].tolist())
    left = domain[keep].tolist()
    named = known.intersection(validation)
    sides = divide(left, sources=named, declared=declared, where=where)
    keep &= _among(domain, sides.sources)
    targets = _targets(columns, keep, known if "domain" in columns else frozenset(), where)
    for row, names in targets.items():
        keep[row] = domain[row] not in names
    if not keep.any():
        raise InputError(
            f"Expected rows of a source domain, but every row of {where} belongs to a held-out "
            "domain.",
            code="empty",
        )
    rows_left = np.flatnonzero(keep)
    told = check_cells(
        beside(rows_left), where, sources=validation, labels=tuple(labels), paths=tuple(paths)
    )
    check_sources(validation, told.union(domain[keep].tolist()), where)
    row_targets = tuple(targets.get(row, ()) for row in rows_left.tolist())
    return SourceRows(keep, row_targets, known, sides.notes)


def _among(cells: NDArray[Any], names: Iterable[str]) -> NDArray[np.bool_]:
    wanted = frozenset(names)  # np.isin compares every text with every other
    return np.fromiter((cell in wanted for cell in cells.tolist()), bool, len(cells))


def _target_roles(role: NDArray[np.object_], where: str) -> NDArray[np.bool_]:
    for row, name in enumerate(role.tolist()):
        if name not in (SOURCE, "") and not looks_held_out(name):
            raise InputError(
                f"Expected role 'source' or 'target', but got {name!r} in row {row} of {where}.",
                code="format",
            )
    return np.array([name not in (SOURCE, "") for name in role.tolist()], dtype=bool)


def _targets(
    columns: CellColumns, keep: NDArray[np.bool_], domains: frozenset[str], where: str
) -> dict[int, tuple[str, ...]]:
    """Row → the held-out domains of its run, for the rows still in."""
    if "held_out" not in columns:
        return {}
    known: dict[str, tuple[str, ...]] = {}
    targets = {}
    for row in np.flatnonzero(keep).tolist():
        cell = columns["held_out"][row]
        names = known.get(cell) if isinstance(cell, str) else None
        targets[row] = targets_of(cell, domains, where) if names is None else names
        if isinstance(cell, str):
            known[cell] = targets[row]
    cells = columns["held_out"]
    empty = [row for row in targets if not targets[row] and text_or_none(cells[row]) in (None, "")]
    if empty and len(empty) < len(targets):
        raise InputError(
            f"Expected `held_out` in every row, but it is empty in row {empty[0]} of {where} and "
            "not in others: fill it in, so that no run reads its target there.",
            code="held-out",
        )
    return targets


REQUIRED = ("step", "accuracy")
REQUIRED_WITHOUT_ACCURACY = ("step",)
FACTS = ("step", "domain", "role", "held_out", "n", "correct", "diverged", "path")


def read(
    table: Any,
    *,
    held_out: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    metrics: Iterable[str] = (),
) -> dict[str, Any]:
    """Arguments of ``Trajectory`` from a data frame or a mapping of columns.

    Rows of held-out domains are dropped before any value in them is looked at.
    """
    try:
        header = [name for name in _names(table) if isinstance(name, str)]
    except Exception:  # someone else's iterator may raise anything
        raise InputError(
            f"Expected a table or a mapping of columns, but got {type(table).__name__}."
        ) from None
    columns = columns or {}
    metrics = tuple(metrics)
    reading = column_names.resolve(header, [*FACTS, *METRICS, *metrics], columns, "the table")
    for name in required(metrics):
        if name not in reading:
            raise InputError(
                f"Expected a column {name!r}, but the table has {', '.join(header) or 'none'}: "
                "give one row per step and domain with step, accuracy and the metrics you have "
                f"({column_names.missing([name], header)}).",
                code="missing",
            )
    for name in metrics:
        if name not in reading and "accuracy" not in reading:
            raise InputError(
                f"Expected a column {name!r}, but the table has {', '.join(header) or 'none'}: "
                "check the name.",
                code="missing",
            )
    column_names.check_rivals(header, reading, columns, "the table")
    column_names.check_sorting(header, reading, "the table", told=bool(as_names(held_out)))
    taken = {name: _column(table, column, name) for name, column in reading.items()}
    rows = len(taken["step"])
    for name, column in taken.items():
        if len(column) != rows:
            raise InputError(
                f"Expected {rows} values in every column, as in 'step', but {reading[name]!r} has "
                f"{len(column)}: fill in the missing ones.",
                code="differs",
            )
    read = [column for name, column in reading.items() if name != "path"]
    chosen = source_rows(
        taken,
        rows,
        "the table",
        held_out=held_out,
        sources=sources,
        beside=lambda left: _beside(table, read, rows, left),
        paths={reading[name] for name in ("path",) if name in reading},
    )
    raw = {name: column[chosen.keep] for name, column in taken.items()}
    notes = [*chosen.notes, *column_names.notes(header, reading)]
    if "domain" in taken:
        notes += without_rows((name for names in chosen.targets for name in names), chosen.domains)
    return {**_arrays(raw, [name for name in reading if name not in FACTS]), "notes": notes}


def required(metrics: Iterable[str]) -> tuple[str, ...]:
    """The columns that a table needs: accuracy too, unless the caller names other scores alone."""
    named = tuple(metrics)
    return REQUIRED if not named or "accuracy" in named else REQUIRED_WITHOUT_ACCURACY


def _arrays(raw: Mapping[str, NDArray[Any]], wanted: Iterable[str]) -> dict[str, Any]:
    domain = texts(raw, "domain", ONLY_DOMAIN, len(raw["step"]))
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
        facts["paths"] = [text_or_none(raw["path"][row]) for row in grid[:, 0].tolist()]
    return facts


def _names(table: Any) -> Iterable[Any]:
    """Column names of a mapping, or of a pandas, polars or Arrow table."""
    if hasattr(table, "column_names"):
        return list(table.column_names)
    return list(table.columns if hasattr(table, "columns") else table)


def _column(table: Any, column: str, name: str) -> NDArray[Any]:
    if name == "held_out":  # its cells may be lists
        return objects(_cells(table[column]))
    array = to_numpy(table[column], f"column {column!r}")
    if array.ndim != 1:
        raise InputError(
            f"Expected column {column!r} to be one-dimensional, but got {array.shape}."
        )
    return array


def _beside(table: Any, read: list[str], rows: int, left: NDArray[np.int64]) -> Columns:
    """The columns that are not read and the index of a data frame, in the rows that are left."""
    columns = [(str(name), table[name]) for name in _names(table) if name not in read]
    index: Any = getattr(table, "index", None)
    if hasattr(index, "get_level_values"):
        names = [str(name) if name is not None else "index" for name in index.names]
        columns += [(name, index.get_level_values(i)) for i, name in enumerate(names)]
    for name, column in columns:
        cells = objects(_cells(column))
        yield name, cells[left] if len(cells) == rows else cells


def _cells(column: Any) -> Iterable[Any]:
    """The cells of a column as Python has them; a single value as one."""
    for method in ("to_pylist", "to_list", "tolist", "to_numpy"):
        if hasattr(column, method):
            column = getattr(column, method)()
            break
    return column if isinstance(column, Iterable) and not isinstance(column, str) else (column,)


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
            "(or add the run's columns, if the table holds several runs).",
            code="ambiguous",
        )
    raise InputError(
        f"Expected every domain at every step, but there is no row for {where}: "
        "add it, or remove that step.",
        code="differs",
    )


def _booleans(column: NDArray[Any]) -> NDArray[np.bool_]:
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    try:
        return np.array([words[(text_or_none(value) or "").lower()] for value in column.tolist()])
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
            "same examples.",
            code="differs",
        )
    constant: NDArray[np.int64] = n[0]
    return constant
