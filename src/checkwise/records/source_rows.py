"""Which rows of a table selection may read; of the others only domain and role are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records.cells import CellColumns, text_or_none, texts
from checkwise.records.held_out import (
    as_names,
    check_held_out,
    check_sources,
    divide,
    looks_held_out,
)
from checkwise.records.held_out_cells import Columns, check_cells
from checkwise.records.held_out_column import targets_of

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
) -> SourceRows:
    """Leave out targets: by role, then as the caller says, by name, and by the run's own column.

    In this order, so that a row that is held out cannot decide about another. What the other
    columns say of the rows that are left is checked last.

    Args:
        columns: ``domain``, ``role`` and ``held_out`` as far as the table has them.
        rows: how many rows the table has.
        where: the table, for messages.
        held_out: domains that the caller leaves out.
        sources: domains, or cells of other columns, that the caller calls validation, whatever
            their names look like.
        beside: the columns that are not read, in some rows.
        labels: those of them that name runs.
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
    if not keep.any():
        raise InputError(
            f"Expected rows of a source domain, but {where} has none beside the held-out ones: "
            "hold out fewer.",
            code="empty",
        )
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
    told = check_cells(beside(rows_left), where, sources=validation, labels=tuple(labels))
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
    empty = [row for row in targets if text_or_none(columns["held_out"][row]) in (None, "")]
    if empty and len(empty) < len(targets):
        raise InputError(
            f"Expected `held_out` in every row, but it is empty in row {empty[0]} of {where} and "
            "not in others: fill it in, so that no run reads its target there.",
            code="held-out",
        )
    return targets
