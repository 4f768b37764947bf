"""What is drawn with rich, which takes longer to import than a log takes to read."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from checkwise.words import printable


class Screen(Console):
    """A console on which a name out of someone's file is text and nothing else."""

    def print(self, *objects: Any, **options: Any) -> None:
        safe = (printable(o, keep="\n") if isinstance(o, str) else o for o in objects)
        super().print(*safe, **options)


class Uncut(Table):
    """A table that is drawn at least as wide as the narrowest columns it can have."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrowest = sum(column.min_width or 0 for column in self.columns)
        wide = options.update(max_width=max(options.max_width, narrowest))
        yield from super().__rich_console__(console, wide)


def longest_line(cell: str) -> int:
    """How many columns of a terminal a cell takes where it is not folded."""
    return max(map(cell_len, cell.split("\n")))


def longest_word(cell: str) -> int:
    """How many it takes where it is folded between words."""
    return max(map(cell_len, cell.split()), default=0)
