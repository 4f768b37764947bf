"""Tables of the study in Markdown, with the paper's numbers for the same cells below ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas

from checkwise.study import BOTH_ROLES
from checkwise.study.tables import (
    BY_DOMAIN,
    OVER_RUNS,
    Cell,
    Table,
    column_title,
    interval_sentences,
    shown_cell,
)
from studies.page import DATA

PAPER = DATA / "paper.csv"
DATA_OF = {"development": "PACS", "evaluation": "OfficeHome", BOTH_ROLES: "both"}

Row = tuple[str, ...]
Key = tuple[str, str, str, str, str, str]  # table, dataset, algorithm, rule, reference, measure


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
    """A Markdown table whose first columns are text."""
    sides = [":--" if i < labels else "--:" for i in range(len(header))]
    lines = [header, *rows]
    text = ["| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "|".join(sides) + "|", *text[1:]])


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


class Paper:
    """Published numbers, as printed, by table, data set, algorithm, rule, reference, measure."""

    def __init__(self, file: Path = PAPER):
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
        keys = ["table", "dataset", "algorithm", "rule", "reference", "measure"]
        self._rows = {tuple(row[key] for key in keys): row for row in frame.to_dict("records")}

    def text(self, key: Key, *, signed: bool) -> str:
        """A number with its interval; empty where nothing was published."""
        row = self._rows.get(key)
        if row is None:
            return ""
        value = _minus(row["value"], signed=signed)
        return f"{value} [{_minus(row['low'])}, {_minus(row['high'])}]" if row["low"] else value

    def runs(self, key: Key) -> int:
        """How many runs (of worst domains: blocks) a number is over."""
        return int(self._rows[key]["n"] or 0) if key in self._rows else 0


def _minus(text: str, *, signed: bool = False) -> str:
    if text.startswith("-"):
        return f"−{text[1:]}"
    return f"+{text}" if signed and float(text) != 0 else text


def data_of(table: Table, cell: Cell) -> str:
    """PACS, OfficeHome or both."""
    if "dataset" in table.labels:
        name = cell.row[table.labels.index("dataset")]
        if name != "all":
            return name
    return DATA_OF[cell.role]


def beside(
    table: Table,
    measures: Sequence[str],
    *,
    where: Callable[[Mapping[str, str]], bool] = lambda row: True,
    paper: Paper | None = None,
    published: Callable[[Mapping[str, str]], tuple[str, str, str]] | None = None,
    note: bool = True,
) -> str:
    """Chosen measures of a table, one row per data and label, and below them the table's note.

    Args:
        table: what was built.
        measures: columns.
        where: which rows, by their labels and ``data``.
        paper: what to look published numbers up in.
        published: algorithm, rule and reference of a row there; by default its own labels.
        note: whether the table's note goes below; not where the page says it itself.
    """
    labels = [label for label in table.labels if label != "dataset"]
    grouped: dict[tuple[str, Row], dict[str, Cell]] = {}
    for cell in table.cells:
        named = dict(zip(table.labels, cell.row, strict=True))
        if named.get("dataset") == "all" and cell.role != BOTH_ROLES:
            continue
        data = data_of(table, cell)
        if where({**named, "data": data}):
            row = tuple(_label(named[label]) for label in labels)
            grouped.setdefault((data, row), {})[cell.measure] = cell
    lines = []
    for (data, row), cells in grouped.items():
        found = [_found(cells, measure) for measure in measures]
        texts = [_shown(cell, signed=table.signed) for cell in found]
        lines.append((data, *row, *texts, _count([cell for cell in found if cell is not None])))
        if paper is not None:
            named = {**dict(zip(labels, row, strict=True)), "data": data}
            lines += _paper_row(paper, table, named, row, measures, published or _own)
    header = ("data", *labels, *(column_title(measure) for measure in measures), "runs")
    shown_table = grid(header, lines, 1 + len(labels))
    below = [_units(table, grouped, measures), table.note if note else ""]
    return "\n\n".join([shown_table, *([" ".join(filter(None, below))] if any(below) else [])])


def runs_and_domains(measures: Iterable[str]) -> tuple[str, ...]:
    """Changes as the paper has them, over runs, and beside each the same by held-out domain."""
    return tuple(measure + end for measure in measures for end in (OVER_RUNS, BY_DOMAIN))


def _found(cells: Mapping[str, Cell], measure: str) -> Cell | None:
    """A cell; by held-out domain it is the leading one where that counts domains or places."""
    if measure in cells or not measure.endswith(BY_DOMAIN):
        return cells.get(measure)
    leading = cells.get(measure.removesuffix(BY_DOMAIN))
    by_place = leading is not None and leading.over.endswith(("domains", "places"))
    return leading if leading is not None and by_place and "×" not in leading.over else None


def _units(
    table: Table,
    grouped: Mapping[tuple[str, Row], Mapping[str, Cell]],
    measures: Sequence[str],
) -> str:
    """What the intervals of a table count, in sentences; empty without any, or if rows say it."""
    if "clusters" in table.labels:
        return ""
    found = [
        ((data, *row), replace(cell, measure=measure))
        for (data, row), cells in grouped.items()
        for measure in measures
        if (cell := _found(cells, measure)) is not None
    ]
    return " ".join(interval_sentences(found))


def _count(cells: Collection[Cell]) -> str:
    """How many runs; of a row that is over other things, how many of them."""
    over_runs = sorted({cell.n for cell in cells if cell.unit == "runs"})
    if over_runs:
        return "–".join(str(n) for n in dict.fromkeys((over_runs[0], over_runs[-1])))
    first = next(iter(cells))
    return f"{first.n} {first.unit}"


def _label(text: str) -> str:
    return column_title(text) if text.startswith("target_") else text


def _own(named: Mapping[str, str]) -> tuple[str, str, str]:
    return named.get("algorithm", ""), named.get("rule", ""), ""


def _paper_row(
    paper: Paper,
    table: Table,
    named: Mapping[str, str],
    row: Row,
    measures: Sequence[str],
    published: Callable[[Mapping[str, str]], tuple[str, str, str]],
) -> list[Row]:
    pooled = named["data"] == "both"
    at = (table.name, "all" if pooled else named["data"], *published(named))
    printed = [measure.removesuffix(OVER_RUNS) for measure in measures]
    texts = [paper.text((*at, measure), signed=table.signed) for measure in printed]
    if not any(texts):
        return []
    runs = max(paper.runs((*at, measure)) for measure in printed)
    name = "*paper, three data sets*" if pooled else "*paper*"
    return [(name, *row, *(f"*{text}*" if text else "" for text in texts), f"*{runs}*")]


def _shown(cell: Cell | None, *, signed: bool) -> str:
    return "" if cell is None else shown_cell(cell, signed=signed)
