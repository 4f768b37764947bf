"""The paper's numbers as data: named as ours are, and as the paper prints them."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from checkwise.study import Cohort, Pool, method
from checkwise.study.tables import TABLES, build
from checkwise.study.tables.cells import MAIN
from checkwise.study.tables.every_table import WC
from checkwise.study.tables.other_methods import HARD
from tests.docs.paper_places import numbers, places, printed_rows
from tests.docs.test_pages import ROOT
from tests.requirements import SHARED, requires
from tests.study.cohorts import key, tiny_runs, write_cohort

FOLDER = ROOT / "studies" / "data"
PAPER = SHARED / "paper" / "reliability-aware-checkpoint-selection.tex"
ROW = ("table", "dataset", "algorithm", "rule", "reference")
KEY = (*ROW, "measure")
COLUMNS = (*KEY, "value", "low", "high", "n", "source")
SOFT = {*MAIN, "whd", WC}
# Tables that need results other commands make first: a tiny cohort has none.
MEASURES = {
    "swad": {*MAIN, "target_nll_median", "nll_above_100"},
    "temperature": {*MAIN, "improved_ece"},
    "pair": SOFT,
    "lodo": set(HARD),
    "lodo-changes": set(HARD),
}
# The paper prints in how many runs the choices differ, our table in how many they agree.
COMPLEMENT = ("distances", "same_checkpoint")
# Table 2 rounds Table E.7, Table E.8 is part of Table 4, and G.1 holds settings.
REPEATED = {"Table 2", "Table E.8", "Table G.1"}
# One metric per printed row instead of all.
LONG = {"Table D.3", "Table E.2", "Table E.4", "Table E.7", "Table E.10"}

Line = dict[str, str]


@cache
def lines() -> list[Line]:
    with (FOLDER / "paper.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(COLUMNS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@cache
def cells() -> dict[tuple[str, ...], str]:
    return {tuple(line[name] for name in KEY): line["value"] for line in lines()}


def test_the_file_has_its_columns_and_every_cell_once() -> None:
    assert len(cells()) == len(lines()) > 800


def test_numbers_parse_and_lie_in_their_intervals() -> None:
    for line in lines():
        assert int(line["n"]) > 0, line
        value = float(line["value"])
        assert bool(line["low"]) == bool(line["high"]), line
        if line["low"]:
            assert float(line["low"]) <= value <= float(line["high"]), line


@pytest.mark.parametrize("column", ["rule", "reference"])
def test_rules_are_ours(column: str) -> None:
    for name in {line[column] for line in lines()} - {""}:
        found = re.fullmatch(r"([\w+-]+)(?:\((\w+)=([\w.]+)\))?", name)
        assert found is not None, name
        rule, parameter, value = found.groups()
        row = method(rule, **({parameter: value} if parameter else {}))
        assert row.label == name
        assert set(row.params) <= set(row.takes), name
        assert row.name == rule


def test_tables_and_measures_are_ours(tmp_path: Path) -> None:
    runs = tiny_runs()
    elsewhere = key("ERM", 0, ("photo",))  # a second domain in a block, so that there is a WHD
    runs.append(replace(runs[0], key=elsewhere, domains=("art_painting", "cartoon", "sketch")))
    pool = Pool([Cohort.open(write_cohort(tmp_path / "tiny", runs))])
    found = defaultdict(set)
    for line in lines():
        found[line["table"]].add(line["measure"])
    for table, measures in found.items():
        assert table in TABLES
        ours = MEASURES.get(table) or {cell.measure for cell in build(table, pool).cells}
        assert measures <= ours, table


def in_order(values: list[str], row: list[str]) -> bool:
    rest = iter(row)
    return all(value in rest for value in values)


def test_places_and_numbers_of_a_text() -> None:
    tex = r"\section{A}x\begin{table}1\end{table}y\appendix\section{B}\subsection{C}z"
    assert places(tex) == {"Section 1": "xy", "Table 1": "1", "Appendix A": "", "Appendix A.1": "z"}
    text = r"$+0.10\;[-0.05,+0.25]$ & $5.5\to5.0$ & 7/9, 14.1\% of $D_2$"
    assert numbers(text) == ["0.10", "-0.05", "0.25", "5.5", "5.0", "7", "9", "14.1"]
    assert in_order(["1", "3"], ["1", "2", "3"])
    assert not in_order(["3", "1"], ["1", "2", "3"])


@requires("shared", PAPER.is_file(), "the paper is not beside the clone")
def test_every_number_is_printed_where_it_says() -> None:
    where = places(PAPER.read_text())
    for line in lines():
        found = numbers(where[line["source"].removesuffix(" caption")])
        value = line["value"]
        if (line["table"], line["measure"]) == COMPLEMENT:
            value = str(int(line["n"]) - int(value))
        assert value in found, line
        if line["low"]:
            ends = (line["low"], line["high"])
            assert ends in pairwise(found), line


@requires("shared", PAPER.is_file(), "the paper is not beside the clone")
def test_numbers_of_one_row_are_printed_in_one_row_in_this_order() -> None:
    where = places(PAPER.read_text())
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in lines():
        if line["source"] in where and line["source"].startswith("Table"):
            own = line["measure"] if line["source"] in LONG else ""
            key = (line["source"], own, *(line[name] for name in ROW))
            together[key] += [line["value"], *((line["low"], line["high"]) if own else ())]
    assert len(together) > 100
    for key, values in together.items():
        assert any(in_order(values, row) for row in printed_rows(where[key[0]])), key


@requires("shared", PAPER.is_file(), "the paper is not beside the clone")
def test_every_table_of_the_paper_is_carried_over() -> None:
    tables = {name for name in places(PAPER.read_text()) if name.startswith("Table")}
    assert tables - REPEATED == {line["source"] for line in lines()} & tables
    assert tables >= REPEATED
