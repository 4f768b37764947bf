"""What ``--json`` prints: one line of strict JSON, of the form that the command's schema states.

``schemas/COMMAND.json`` beside this file are JSON Schemas (draft 2020-12). Every answer begins with
the number of the form, ``{"schema": 2, …}``.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from checkwise.metrics import is_number
from checkwise.words import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA: Final = 2
_SCHEMAS: Final = Path(__file__).with_name("schemas")


def print_json(command: str, content: Mapping[str, Any]) -> None:
    """Print the answer of a command for machines."""
    print(line(command, content), flush=True)


def line(command: str, content: Mapping[str, Any]) -> str:
    """The answer of a command as it is printed; tests compare it with the command's schema."""
    return json.dumps({"schema": SCHEMA, **content}, allow_nan=False)


def json_text(content: Mapping[str, Any], **settings: Any) -> str:
    """The same for a file that people open too."""
    return json.dumps({"schema": SCHEMA, **content}, indent=2, allow_nan=False, **settings) + "\n"


def or_null(value: Any) -> Any:
    """The value with null for every number that does not exist."""
    if isinstance(value, dict):
        return {name: or_null(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [or_null(one) for one in value]
    return None if isinstance(value, float) and value != value else value


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    found: dict[str, Any] = json.loads((_SCHEMAS / f"{command}.json").read_text("utf-8"))
    return found


def commands_with_schema() -> list[str]:
    """The commands that print JSON."""
    return sorted(file.stem for file in _SCHEMAS.glob("*.json"))


WIDE = 200
USUAL = 80
GAP = "  "  # between columns


# Where one of these is set, rich may take a pipe for a terminal.
LIKE_A_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@dataclass(frozen=True)
class Pipe:
    """A file or pipe as a console: lines go there as they are, and rich draws only tables."""

    stderr: bool
    is_terminal: ClassVar = False

    @property
    def width(self) -> int:
        """How many columns there are."""
        return WIDE

    @property
    def encoding(self) -> str:
        """How text is written."""
        return (sys.stderr if self.stderr else sys.stdout).encoding or "utf-8"

    def print(self, line: Any = "", *, style: str | None = None) -> None:
        """Write a line or a table; a style is for terminals."""
        if isinstance(line, str):
            print(_safe(line), file=sys.stderr if self.stderr else sys.stdout)
        else:
            _screen(self.stderr).print(line, style=style)


def console(*, stderr: bool = False) -> Any:
    """A console of rich, or what neither colours nor folds: a :class:`Pipe`."""
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty() or any(name in os.environ for name in LIKE_A_TERMINAL):
        return _screen(stderr)
    return Pipe(stderr)


def _screen(stderr: bool) -> Console:
    from checkwise.cli.drawing import Screen

    screen = Screen(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not screen.is_terminal:
        screen.width = WIDE
    elif screen.width < 1:  # COLUMNS=0, which some shells set where they do not know
        screen.width = USUAL
    return screen


def say(*lines: Any, stderr: bool = False) -> None:
    """Print lines, or tables."""
    screen = console(stderr=stderr)
    for line in lines:
        screen.print(line)


def _safe(text: str) -> str:
    return printable(text, keep="\n")


def open_page(page: Path) -> None:
    """Open a page; where there is no browser, say where it is."""
    import webbrowser

    opened = webbrowser.open(page.resolve().as_uri())
    said = "The page is" if opened else "There is no browser here. Open this page elsewhere:"
    console(stderr=True).print(f"{said} {page.resolve()}")


def width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """How many columns a terminal needs for a table whose cells are not folded."""
    from checkwise.cli.drawing import longest_line

    columns = zip(header, *rows, strict=True)
    return sum(max(map(longest_line, column)) + len(GAP) for column in columns) - len(GAP)


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[str] = (),
    whole: Sequence[str] = (),
    bold: int | None = None,
) -> Table:
    """A plain table; columns named in ``left`` are aligned left, row ``bold`` stands out.

    Columns in ``left`` are folded between words where the terminal is narrow, unless they are in
    ``whole`` too. Nothing is ever cut: what does not fit runs over the terminal's edge.
    """
    from rich.text import Text

    from checkwise.cli.drawing import Uncut, longest_line, longest_word

    header = [_safe(name) for name in header]
    body = [[_safe(cell) for cell in row] for row in rows]
    # Gaps are columns: rich before 14.3 widens padded columns at the edges.
    drawn = Uncut(box=None, pad_edge=False, padding=0, header_style="bold")
    for index, name in enumerate(header):
        if index:
            drawn.add_column(GAP, min_width=len(GAP), no_wrap=True)
        folds = name in left and name not in whole
        cells = [name, *(row[index] for row in body)]
        drawn.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=not folds,
            min_width=max(map(longest_word if folds else longest_line, cells)),
        )
    for index, row in enumerate(body):
        cells = [part for cell in row for part in (GAP, cell)][1:]
        drawn.add_row(*map(Text, cells), style="bold green" if index == bold else None)
    return drawn


# What makes a spreadsheet read a cell as a formula (OWASP, "CSV injection"), wide forms included.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV; text that would begin a formula is set off by an apostrophe."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return written.getvalue()


def _cell(value: Any) -> Any:
    """The value itself, unless it is text that a spreadsheet would run; nothing for no number.

    Example:
        >>> _cell("=cmd()"), _cell("-0.5"), _cell("ac-nc"), _cell(3)
        ("'=cmd()", '-0.5', 'ac-nc', 3)
    """
    if isinstance(value, str) and value.startswith(FORMULA) and not is_number(value):
        return f"'{value}"
    return "" if value is None or value != value else value
