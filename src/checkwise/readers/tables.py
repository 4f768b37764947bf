"""Tables under checkwise's own names: a row for each step and domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers.csv_file import open_csv_file
from checkwise.readers.request import LoadedRun, Request, build
from checkwise.readers.rows import AT_ONCE, RUN_COLUMNS
from checkwise.records import (
    FACTS,
    ONLY_DOMAIN,
    SET_WORDS,
    SORTING,
    CellColumns,
    Columns,
    RunKey,
    SourceRows,
    Trajectory,
    as_source,
    check_rivals,
    check_sorting,
    is_held_out_word,
    missing,
    objects,
    required,
    resolve,
    source_rows,
    texts,
    without_rows,
)
from checkwise.records import notes as column_names_notes

if TYPE_CHECKING:
    from checkwise.readers.json_lines import Line

# Beside `test` in the name of a table or of a folder of predictions.
OUTPUT_WORDS = (
    "pred", "preds", "prediction", "predictions", "logits", "probs", "outputs", "results", "result",
    "metrics", "scores", "log", "logs", "on",
)  # fmt: skip
# Columns by which a journal of checkwise on a held-out domain is known; it names no domain.
HELD_OUT_JOURNAL = {"step", "diverged", "split", "n", "correct"}

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Sheet:
    """A table from which only the cells are read that somebody asks for.

    ``header`` has the columns that some rows have; ``cells`` gives those of some columns, row by
    row, from the first row at every call.
    """

    path: Path
    rows: int
    header: Callable[[Rows], Sequence[str]]
    cells: Callable[[Sequence[str]], Iterable[Sequence[Any]]]
    notes: tuple[str, ...] = ()

    def columns(self, reading: Mapping[str, str], rows: Rows) -> CellColumns:
        """Name → cells in some rows, for names that stand for columns of the table."""
        cells: list[list[Any]] = [[] for _ in reading]
        for row in self._in(rows, [*reading.values()]):
            for column, cell in zip(cells, row, strict=True):
                column.append(cell)
        return {name: objects(column) for name, column in zip(reading, cells, strict=True)}

    def beside(self, names: Sequence[str], rows: Rows) -> Columns:
        """Columns that are not read, in parts."""
        left = self._in(rows, names)
        while part := list(islice(left, AT_ONCE)):
            yield from zip(names, zip(*part, strict=True), strict=True)

    def _in(self, rows: Rows, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        wanted = np.zeros(self.rows, bool)
        wanted[rows] = True
        return compress(self.cells(names), wanted.tolist()) if names else iter(())


def read(sheet: Sheet, request: Request) -> list[LoadedRun]:
    """The runs of a table."""
    sources = sort_rows(sheet, request)
    rows = np.flatnonzero(sources.keep)
    header = sheet.header(rows)
    reading = check_header(header, request, sheet.path)
    check_rivals(header, reading, request.columns, str(sheet.path))
    notes = (*sheet.notes, *sources.notes, *column_names_notes(header, reading))
    skipped = ("role", "held_out")  # both have done their work
    columns = sheet.columns({n: c for n, c in reading.items() if n not in skipped}, rows)
    return _runs(columns, sources, request, sheet.path, notes)


def sort_rows(sheet: Sheet, request: Request) -> SourceRows:
    """Which rows are source validation; of the others only domain and role are looked at."""
    if not sheet.rows:
        raise InputError(
            f"Expected at least one row, but {sheet.path} holds only column names.", code="empty"
        )
    everything = np.arange(sheet.rows)
    header, where = sheet.header(everything), str(sheet.path)
    reading = columns_read(header, request, sheet.path)
    check_sorting(header, reading, where, told=bool(request.held_out))
    labels = {reading[name] for name in ("run", "algorithm") if name in reading}
    read = set(reading.values()) - labels - {reading.get("dataset"), reading.get("path")}
    unread = [column for column in header if column not in read]
    sorting = {name: reading[name] for name in SORTING if name in reading}
    if (
        not {"domain", "role"} & set(sorting)
        and not request.sources
        and is_of_a_target(sheet.path.stem)
    ):
        raise InputError(
            f"Expected rows of a validation set, but {where} has a name like that of a test set: "
            f"if they are validation, {as_source(ONLY_DOMAIN)}.",
            code="held-out",
        )
    return source_rows(
        sheet.columns(sorting, everything),
        sheet.rows,
        where,
        held_out=request.held_out,
        sources=request.sources,
        beside=lambda rows: sheet.beside(unread, rows),
        labels=labels,
        paths={reading[name] for name in ("path",) if name in reading},
    )


def is_of_a_target(name: str) -> bool:
    """Whether a file or folder has the name of a test set; `test_of_lr` is a trial."""
    return is_held_out_word(name, {*SET_WORDS, *OUTPUT_WORDS})


def columns_read(header: Sequence[str], request: Request, path: Path) -> dict[str, str]:
    """Name → column for what is read of a table, as far as the table has it."""
    for name in request.metrics:
        # A registered metric may be missing: the rule that wants it says what to do.
        if name not in header and name not in METRICS and name not in request.columns:
            raise InputError(
                f"Expected a column {name!r}, but {path} has none: check the name.", code="missing"
            )
    known = [*FACTS, *RUN_COLUMNS, *METRICS, *request.metrics]
    return resolve(header, known, request.columns, str(path))


def check_header(header: Sequence[str], request: Request, path: Path) -> dict[str, str]:
    """Name → column for what is read of a table, which has to be one of validation metrics."""
    reading = columns_read(header, request, path)
    absent = [name for name in required(request.metrics) if name not in reading]
    if absent:
        shown = ", ".join(header[:12])[:200] or "nothing"
        raise InputError(
            f"Expected columns step and accuracy (and domain, nll, ece, cwece, n where you have "
            f"them), but {path} has {shown}: {missing(absent, header)}.",
            code="missing",
        )
    if set(header) >= HELD_OUT_JOURNAL and "domain" not in reading:
        raise InputError(
            f"Expected source validation, but {path} has the columns of checkwise's results on a "
            "held-out domain (diverged, split): name the folder of the run; in a table of your own "
            "rename `split`.",
            code="held-out",
        )
    return reading


def _runs(
    columns: CellColumns,
    sources: SourceRows,
    request: Request,
    path: Path,
    notes: tuple[str, ...],
) -> list[LoadedRun]:
    """Rows of source domains, split by the columns that tell runs apart."""
    labels = [name for name in RUN_COLUMNS if name in columns]
    parts = [texts(columns, name, "", len(sources.targets)).tolist() for name in labels]
    groups: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for row, targets in enumerate(sources.targets):
        groups.setdefault((targets, tuple(part[row] for part in parts)), []).append(row)
    keyed = bool(labels) or any(sources.targets)
    loaded = []
    for (targets, label), members in groups.items():
        key = key_of(dict(zip(labels, label, strict=True)), targets, path) if keyed else None
        named = "/".join(part for part in (*label, "+".join(targets)) if part)
        where = f"{path}, run {named}" if keyed else str(path)
        taken = {n: column[members] for n, column in columns.items() if n not in labels}
        absent = without_rows(targets, sources.domains) if "domain" in columns else ()
        trajectory = build(
            Trajectory.from_frame, where, taken,
            sources=set(texts(taken, "domain", "", 0).tolist()),  # sorted out already
            metrics=request.metrics, key=key, notes=(*notes, *absent),
        )  # fmt: skip
        loaded.append(LoadedRun(key, trajectory, where, path))
    return loaded


def key_of(named: Mapping[str, str], targets: tuple[str, ...], path: Path) -> RunKey:
    """The key of a run from its cells in ``RUN_COLUMNS`` and its held-out domains."""
    if set(named) == {"run"} and not targets:
        return RunKey.by_place(named["run"])
    seeds = {}
    for name in ("hparams_seed", "trial_seed"):
        text = named.get(name) or "0"
        try:
            seeds[name] = int(text.removesuffix(".0"))  # pandas writes 0.0 beside a gap
        except ValueError:
            raise InputError(
                f"Expected a whole number as {name}, but got {text!r:.40} in {path}: fix "
                "that cell.",
                code="format",
            ) from None
    return RunKey(
        dataset=named.get("dataset") or named.get("run") or path.stem,
        algorithm=named.get("algorithm") or "unknown",
        held_out=targets,
        **seeds,
    )


MOST_ROWS = 5_000_000
SEPARATORS = (",", "\t")


def open_csv(path: Path, request: Request) -> Sheet:
    """A file of separated values, whose first line names the columns, as a table."""
    file = open_csv_file(path, SEPARATORS)
    check_header(file.header, request, path)
    places: dict[str, list[int]] = {}
    for place, name in enumerate(file.header):
        places.setdefault(name, []).append(place)

    def cells(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        wanted = [places[name] for name in names]
        for row in file.rows():
            # Nobody reads columns of one name, but each may say what is held out.
            yield [row[at[0]] if len(at) == 1 else [row[k] for k in at] for at in wanted]

    return Sheet(path, sum(1 for _ in file.rows()), lambda rows: list(places), cells)


def sheet_of(lines: Iterable[Line], notes: Iterable[str], path: Path) -> Sheet:
    """Lines of JSON as a table, each one row."""

    def header(rows: Rows) -> list[str]:
        wanted = frozenset(rows.tolist())
        kept = (line.fields for row, line in enumerate(lines) if row in wanted)
        return list(dict.fromkeys(name for fields in kept for name in fields))

    def cells(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        for line in lines:
            yield [line.fields.get(name) for name in names]

    return Sheet(path, sum(1 for _ in lines), header, cells, tuple(notes))
