"""What the intervals of a table count, in sentences: for which columns, and in which rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from checkwise.tables.table import Cell
from checkwise.tables.titles_and_decimals import (
    BESIDE,
    NEW_PLACE,
    OVER_RUNS,
    base_and_ending,
    title,
)
from checkwise.text import listed

Row = tuple[str, ...]
Counted = dict[str, list[Row]]  # what intervals count → the rows where they do

ELSEWHERE = "a new place, "
FEW_NAMES = 3  # rows that are still named one by one where most rows are meant


def interval_sentences(cells: Iterable[tuple[Row, Cell]]) -> list[str]:
    """A sentence for all columns whose intervals count the same in the same rows.

    Columns over runs say so in their heads and have none.

    Args:
        cells: every cell with the names of its row, as they are shown.
    """
    by_measure: dict[str, Counted] = {}
    for row, cell in cells:
        if cell.counted_by:
            rows = by_measure.setdefault(cell.measure, {}).setdefault(cell.counted_by, [])
            rows.append(row)
    groups: list[tuple[str, Counted, list[str]]] = []
    for measure, counted in by_measure.items():
        _, end = base_and_ending(measure)
        alike = next((group for group in groups if group[:2] == (end, counted)), None)
        if alike is None:
            groups.append((end, counted, [measure]))
        else:
            alike[2].append(measure)
    told = [group for group in groups if group[0] != OVER_RUNS]
    return [
        f"Intervals{_of(end, measures, groups)} are {_units(end, counted)}."
        for end, counted, measures in told
    ]


def _of(end: str, measures: Sequence[str], groups: Sequence[tuple[str, Counted, list[str]]]) -> str:
    """Which columns are meant; nothing where these are all."""
    if len(groups) == 1:
        return ""
    if end and [group[0] for group in groups].count(end) == 1:
        return f" {BESIDE[end]}"
    return f" of {listed([title(measure) for measure in measures])}"


def _units(end: str, counted: Counted) -> str:
    """``over 9 blocks × 4 domains (evaluation) and 8 places (development)``."""
    every = [row for rows in counted.values() for row in rows]
    names = {
        over: _names(rows, [row for row in every if row not in rows])
        for over, rows in counted.items()
    }
    most = max(counted, key=lambda over: len(counted[over]))
    if len(names[most]) > FEW_NAMES:
        names = {**{over: names[over] for over in names if over != most}, most: ["the other rows"]}
    said = [
        over.removeprefix(ELSEWHERE) + (f" ({'; '.join(where)})" if where else "")
        for over, where in names.items()
    ]
    return f"{'' if end == NEW_PLACE else 'over '}{listed(said)}"


def _names(rows: Sequence[Row], others: Sequence[Row]) -> list[str]:
    """What tells some rows of a table from the others: as few labels as do."""
    if not others:
        return []
    positions = range(len(rows[0]))
    for size in range(1, len(positions) + 1):
        found = []
        for chosen in combinations(positions, size):
            mine, theirs = (
                dict.fromkeys(tuple(row[i] for i in chosen) for row in side)
                for side in (rows, others)
            )
            if not mine.keys() & theirs.keys():
                found.append([", ".join(filter(None, names)) for names in mine])
        if found:
            return min(found, key=len)
    return []
