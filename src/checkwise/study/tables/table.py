"""A table before it is typeset: numbers that each carry their n, scale, seed and role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from checkwise.errors import naming_extras
from checkwise.statistics import LEVEL, RESAMPLES

if TYPE_CHECKING:
    import pandas

NAN = float("nan")


@dataclass(frozen=True)
class Cell:
    """One number.

    Args:
        row: values of the table's label columns.
        measure: what is measured (``target_nll``, ``gap_pp``, ``whd`` …).
        value: on the reported scale.
        n: how many ``unit`` it is over.
        role: of the data.
        scale: factor from stored fractions to ``value`` (100 or 1).
        low, high: ends of its interval; nan where none was asked for.
        seed, resamples: of the draws behind it; None without draws.
        unit: what ``n`` counts.
        level: of the interval.
        over: what the interval counts, where that is something else than ``unit``.
    """

    row: tuple[str, ...]
    measure: str
    value: float
    n: int
    role: str
    scale: int = 1
    low: float = NAN
    high: float = NAN
    seed: int | None = None
    unit: str = "runs"
    resamples: int = RESAMPLES
    level: float = LEVEL
    over: str = ""

    @property
    def counted_by(self) -> str:
        """The unit of inference of its interval; "" without one."""
        return "" if isnan(self.low) else self.over or self.unit


@dataclass(frozen=True)
class Table:
    """Numbers with a title.

    Args:
        name: of its files.
        title: one line on what it shows.
        labels: names of the columns that say what a row is about.
        cells: in the order in which rows and columns are shown.
        note: what a reader should know before believing it.
        signed: whether the numbers are differences, so that a plus sign is shown.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    note: str = ""
    signed: bool = False

    def records(self) -> list[dict[str, Any]]:
        """One row per number."""
        return [
            {
                **dict(zip(self.labels, cell.row, strict=True)),
                "measure": cell.measure,
                "value": cell.value,
                "low": cell.low,
                "high": cell.high,
                "n": cell.n,
                "unit": cell.unit,
                "interval_over": cell.counted_by,
                "scale": cell.scale,
                "role": cell.role,
                "level": NAN if isnan(cell.low) else cell.level,
                "resamples": None if cell.seed is None else cell.resamples,
                "seed": cell.seed,
            }
            for cell in self.cells
        ]

    @naming_extras()
    def frame(self) -> pandas.DataFrame:
        """The same for computing."""
        import pandas

        frame = pandas.DataFrame(rows := self.records())
        return frame.astype({"resamples": "Int64", "seed": "Int64"}) if rows else frame

    def value(self, *row: str, measure: str, role: str | None = None) -> float:
        """One number by its labels, for callers that know what they look for."""
        return self.cell(*row, measure=measure, role=role).value

    def cell(self, *row: str, measure: str, role: str | None = None) -> Cell:
        """One cell by its labels."""
        return next(
            cell
            for cell in self.cells
            if cell.row == row and cell.measure == measure and role in (None, cell.role)
        )


def table(
    name: str,
    title: str,
    labels: tuple[str, ...],
    cells: Iterable[Cell],
    *,
    note: str = "",
    signed: bool = False,
) -> Table:
    """A table from cells in any iterable."""
    return Table(name, title, labels, tuple(cells), note, signed)
