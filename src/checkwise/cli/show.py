"""Tables for people: colour and width only where there is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from checkwise.errors import InputError
from checkwise.store.layout import is_record

WIDE = 200


def console(*, stderr: bool = False) -> Console:
    """A console that neither colours nor folds what goes into a file or pipe."""
    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not found.is_terminal:
        found.width = WIDE
    return found


@contextmanager
def checkpoint_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal for checkpoints that are being evaluated; quiet elsewhere."""
    screen = console(stderr=True)
    bar = Progress(
        "evaluating checkpoints",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
    with bar:
        task = bar.add_task("", visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show


def refuse_to_overwrite(source: Path, out: Path | None, *, make_folder: bool = False) -> None:
    """A result must not replace what it was made from or other records, nor lack its folder."""
    if out is None:
        return
    if out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"Expected another file to write than {out}, which is the input.")
    if out.is_dir():
        raise InputError(f"Expected a file to write, but {out} is a folder: name a file in it.")
    if is_record(out):
        raise InputError(f"Expected another file to write than {out}, which records a run.")
    if not make_folder and not out.absolute().parent.is_dir():
        raise InputError(f"Expected the folder of {out} to exist: make it first.")


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[str] = (),
    whole: Sequence[str] = (),
    bold: int | None = None,
) -> Table:
    """A plain table; columns named in ``left`` are aligned left, row ``bold`` stands out.

    Columns in ``left`` are folded where the terminal is narrow, unless they are in ``whole`` too.
    """
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        folds = name in left and name not in whole
        drawn.add_column(name, justify="left" if name in left else "right", no_wrap=not folds)
    for index, row in enumerate(rows):
        cells = [Text(cell) for cell in row]
        drawn.add_row(*cells, style="bold green" if index == bold else None)
    return drawn
