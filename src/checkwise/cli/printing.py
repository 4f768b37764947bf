"""What ``--json`` prints: one line of strict JSON, of the form that the command's schema states.

``schemas/COMMAND.json`` beside this file are JSON Schemas (draft 2020-12). Every answer begins with
the number of the form, ``{"schema": 2, …}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.store import check_writable, file_to_write, is_own_folder, is_record
from checkwise.words import printable

if TYPE_CHECKING:
    import pandas

SCHEMA: Final = 2


def print_json(command: str, content: Mapping[str, Any]) -> None:
    """Print the answer of a command for machines."""
    print(line(command, content), flush=True)


def line(command: str, content: Mapping[str, Any]) -> str:
    """The answer of a command as it is printed; tests compare it with the command's schema."""
    return json.dumps(with_schema(content), allow_nan=False)


def with_schema(content: Mapping[str, Any]) -> dict[str, Any]:
    """The answer after the number of its form."""
    return {"schema": SCHEMA, **content}


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    text = files("checkwise.cli").joinpath("schemas", f"{command}.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def commands_with_schema() -> list[str]:
    """The commands that print JSON."""
    folder = files("checkwise.cli").joinpath("schemas")
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir())


WIDE = 200
USUAL = 80
STANDARD_STREAMS = ("-", "/dev/stdin", "/dev/stdout", "/dev/stderr")
GAP = "  "  # between columns
# How files begin that `select` writes.
ANSWERS = (
    b'{\n  "schema": 2,\n  "runs": [',
    b"rank,step,",
    b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
    b'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy"',
)


def console(*, stderr: bool = False) -> Console:
    """A console that neither colours nor folds what goes into a file or pipe."""
    screen = _Screen(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not screen.is_terminal:
        screen.width = WIDE
    elif screen.width < 1:  # COLUMNS=0, which some shells set where they do not know
        screen.width = USUAL
    return screen


class _Screen(Console):
    """A console on which a name out of someone's file is text and nothing else."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(_safe(o) if isinstance(o, str) else o for o in objects), **options)


def _safe(text: str) -> str:
    return printable(text, keep="\n")


def refuse_to_overwrite(source: Path, out: Path | None, *, make_folder: bool = False) -> None:
    """Refuse an output file that would replace the input or records, or cannot be written."""
    if out is None:
        return
    if str(out) in STANDARD_STREAMS:
        raise InputError(
            f"Expected a file to write, but got {str(out)!r}: results are not written to a "
            "standard stream; name a file."
        )
    if out.exists() and source.exists() and out.samefile(source):
        raise InputError(
            f"Expected another file to write than {out}, which is the input.", code="outside"
        )
    file_to_write(out)
    if is_record(out):
        raise InputError(
            f"Expected another file to write than {out}, which records a run.", code="outside"
        )
    if not make_folder and not out.absolute().parent.is_dir():
        raise InputError(f"Expected the folder of {out} to exist: make it first.", code="missing")
    check_writable(out)


def refuse_what_is_there(out: Path | None, read: Iterable[Path], *, force: bool = False) -> None:
    """Refuse to replace a file that checkwise did not write; one of what was read, in any case.

    Args:
        out: the file to write.
        read: files and folders that were read, and the checkpoints of their runs.
        force: whether another file may be replaced.
    """
    if out is None or not out.is_file() or _is_an_answer(out):
        return
    place = out.resolve()
    for source in map(Path.resolve, read):
        if place == source or place.is_relative_to(source) or source.is_relative_to(place):
            raise InputError(
                f"Expected a new file to write, but {out} is part of what was read: choose another "
                "name.",
                code="outside",
            )
    if not force:
        raise InputError(
            f"{out} exists already, and is no earlier answer: choose another name or add --force.",
            code="exists",
        )


def _is_an_answer(file: Path) -> bool:
    """Whether an earlier ``select`` wrote a file: choice.json, a table of checkpoints, a page."""
    with file.open("rb") as opened:
        return opened.read(200).startswith(ANSWERS)


def refuse_folder(out: Path) -> None:
    """Refuse an output path that cannot be a folder, or that lies among a cohort's records."""
    existing = next((place for place in (out, *out.parents) if place.exists()), out)
    if existing.exists() and not existing.is_dir():
        raise InputError(
            f"Expected a folder to write to, but {existing} is a file: choose another.",
            code="exists",
        )
    if is_own_folder(out):
        raise InputError(
            f"Expected a folder of its own to write to, but {out} is a study's or a run's: "
            "choose another, such as STUDY/results.",
            code="outside",
        )


def refuse_files(out: Path, names: Iterable[str]) -> None:
    """Files of results can be written and are no links to records, pipes, devices or folders."""
    for name in names:
        file_to_write(out / name)
        if (out / name).is_symlink() and is_record(out / name):
            raise InputError(
                f"Expected another file to write than {out / name}, which is a link to a run's "
                "records: remove the link or choose another folder.",
                code="outside",
            )
        check_writable(out / name)


def width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """How many columns a terminal needs for a table whose cells are not folded."""
    columns = zip(header, *rows, strict=True)
    return sum(max(map(_longest_line, column)) + len(GAP) for column in columns) - len(GAP)


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
    header = [_safe(name) for name in header]
    body = [[_safe(cell) for cell in row] for row in rows]
    # Gaps are columns: rich before 14.3 widens padded columns at the edges.
    drawn = _Uncut(box=None, pad_edge=False, padding=0, header_style="bold")
    for index, name in enumerate(header):
        if index:
            drawn.add_column(GAP, min_width=len(GAP), no_wrap=True)
        folds = name in left and name not in whole
        cells = [name, *(row[index] for row in body)]
        drawn.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=not folds,
            min_width=max(map(_longest_word if folds else _longest_line, cells)),
        )
    for index, row in enumerate(body):
        cells = [part for cell in row for part in (GAP, cell)][1:]
        drawn.add_row(*map(Text, cells), style="bold green" if index == bold else None)
    return drawn


class _Uncut(Table):
    """A table that is drawn at least as wide as the narrowest columns it can have."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrowest = sum(column.min_width or 0 for column in self.columns)
        wide = options.update(max_width=max(options.max_width, narrowest))
        yield from super().__rich_console__(console, wide)


def _longest_line(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))


def _longest_word(cell: str) -> int:
    return max(map(cell_len, cell.split()), default=0)


# What makes a spreadsheet read a cell as a formula (OWASP, "CSV injection"), wide forms included.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(table: pandas.DataFrame) -> str:
    """The table as CSV; text that would begin a formula is set off by an apostrophe."""
    safe = table.copy()
    for position, kind in enumerate(table.dtypes):
        if kind.kind not in "biufc":
            safe.isetitem(position, [_cell(value) for value in table.iloc[:, position]])
    safe.columns = [_cell(name) for name in table.columns]
    return str(safe.to_csv(index=False))


def _cell(value: Any) -> Any:
    """The value itself, unless it is text that a spreadsheet would run.

    Example:
        >>> _cell("=cmd()"), _cell("-0.5"), _cell("ac-nc"), _cell(3)
        ("'=cmd()", '-0.5', 'ac-nc', 3)
    """
    if isinstance(value, str) and value.startswith(FORMULA) and not is_number(value):
        return f"'{value}"
    return value
