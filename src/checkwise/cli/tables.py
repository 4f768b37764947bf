"""The tables of ``checkwise study report``, each as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.compare import check_metrics
from checkwise.errors import InputError
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.default_rule import REFERENCE
from checkwise.store.atomic_write import write_text
from checkwise.study.pool import Pool
from checkwise.study.rehearsal import Rehearsal
from checkwise.tables import ABOUT_THE_RULE, PAPER, Table, build, build_all, typeset
from checkwise.text import counted

KINDS = (".md", ".csv", ".tex")
OTHERS = "all"  # the folder of what is not for a paper
TOGETHER = "tables.md"


def check_places(out: Path, names: Sequence[str]) -> None:
    """Refuse a folder in which the files of these tables cannot be written."""
    printing.refuse_folder(out)
    files = [str(_place(name).with_suffix(kind)) for name in names for kind in KINDS]
    printing.refuse_files(out, [*files, f"{OTHERS}/{TOGETHER}"])


def rehearse(names: Sequence[str], pool: Pool, margins: Mapping[str, float]) -> None:
    """Refuse what cannot be made of these runs, before held-out results are opened."""
    rehearsal = Rehearsal.of_pool(pool)
    for name in names:
        build(name, rehearsal, margins=margins)


def write_tables(
    pool: Pool, out: Path, only: Sequence[str] | None, margins: Mapping[str, float]
) -> None:
    """The table for a paper in ``out``, the others in a folder there; and say what is missing."""
    results: Sequence[Table | tuple[str, str]]
    if only is None:
        results = list(build_all(pool, margins=margins))
    else:
        results = [build(name, pool, margins=margins) for name in only]
    tables = [result for result in results if isinstance(result, Table)]
    (out / OTHERS).mkdir(parents=True, exist_ok=True)
    for table in tables:
        texts = (typeset.markdown(table), printing.csv_text(table.frame()), typeset.latex(table))
        for kind, text in zip(KINDS, texts, strict=True):
            write_text((out / _place(table.name)).with_suffix(kind), text)
    together = "\n".join(typeset.markdown(table) for table in tables)
    write_text(out / OTHERS / TOGETHER, together)
    screen = printing.console()
    fixed = [table.name for table in tables if table.name not in ABOUT_THE_RULE]
    if pool.contrast != f"{DEFAULT_RULE} − {REFERENCE}" and fixed:
        screen.print(
            f"About {DEFAULT_RULE} and others at their defaults, whatever the options say: "
            f"{', '.join(fixed)}."
        )
    are = "is" if len(tables) == 1 else "are"
    screen.print(
        f"{counted(len(tables), 'table')} of {counted(len(pool), 'run')} ({pool.name}) {are} in "
        f"{out}."
    )
    for name, reason in (result for result in results if not isinstance(result, Table)):
        screen.print(f"Without {name}: {reason}")


def _place(name: str) -> Path:
    return Path(name) if name == PAPER else Path(OTHERS) / name


def read_margin(text: str) -> tuple[str, float]:
    """``target_accuracy=0.5`` as a metric and a size."""
    name, _, written = text.partition("=")
    metric = name.strip()
    try:
        size = float(written)
    except ValueError:
        raise InputError(
            f"Expected a margin as METRIC=SIZE, such as target_accuracy=0.5, but got {text!r}."
        ) from None
    check_metrics([metric])
    if not 0 < size < inf:
        raise InputError(
            f"Expected a finite margin above 0 (the largest difference that would not matter), but "
            f"got {written.strip()} for {metric}: give one."
        )
    return metric, size
