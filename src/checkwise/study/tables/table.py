"""A table before it is typeset: numbers that each carry their n, scale, seed and role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from checkwise.errors import naming_extras
from checkwise.statistics import LEVEL, RESAMPLES
from checkwise.study import Pool

if TYPE_CHECKING:
    import pandas

NAN = float("nan")


@dataclass(frozen=True)
class Cell:
    """One number with what it is of, over how many, and its interval where it has one."""

    row: tuple[str, ...]  # values of the table's label columns
    measure: str  # ``target_nll``, ``gap_pp``, ``whd`` …
    value: float  # on the reported scale
    n: int  # how many ``unit`` it is over
    role: str  # of the data
    scale: int = 1  # factor from stored fractions to ``value``, 100 or 1
    low: float = NAN
    high: float = NAN
    seed: int | None = None  # of the draws behind it; None without draws
    unit: str = "runs"
    resamples: int = RESAMPLES
    level: float = LEVEL
    over: str = ""  # what the interval counts, where that is something else than ``unit``

    @property
    def counted_by(self) -> str:
        """The unit of inference of its interval; "" without one."""
        return "" if isnan(self.low) else self.over or self.unit


def plain_cells(
    row: tuple[str, ...], values: Mapping[str, float], n: int, role: str, scale: int = 1
) -> list[Cell]:
    return [Cell(row, name, float(value), n, role, scale) for name, value in values.items()]


@dataclass(frozen=True)
class Table:
    """Numbers with a title, in the order in which rows and columns are shown."""

    name: str  # of its files
    title: str
    labels: tuple[str, ...]  # names of the columns that say what a row is about
    cells: tuple[Cell, ...]
    note: str = ""  # what a reader should know before believing it
    signed: bool = False  # whether the numbers are differences, shown with a plus sign

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


@dataclass(frozen=True)
class Declared:
    """A table of any pool; ``{pool.contrast}`` and the like in its title are filled in."""

    name: str
    title: str
    labels: tuple[str, ...]
    cells: Callable[[Pool], Iterable[Cell]]
    note: str | Callable[[Pool], str] = ""
    signed: bool = False

    def __call__(self, pool: Pool) -> Table:
        note = self.note if isinstance(self.note, str) else self.note(pool)
        cells, title = tuple(self.cells(pool)), self.title.format(pool=pool)
        return Table(self.name, title, self.labels, cells, note, self.signed)
