"""The tables of docs/sure.md that scripts write are those of the files beside it."""

from __future__ import annotations

import csv

import pytest

from tests.docs.test_pages import builder


@pytest.mark.parametrize("script", ["sure_harm", "sure_optimism"])
def test_the_page_shows_what_the_file_holds(script: str) -> None:
    module = builder(script)
    with module.DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert builder("page").part(module.PAGE, module.PART) == module.table(rows)


def test_every_method_saw_every_subset() -> None:
    module = builder("sure_harm")
    with module.DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    runs = {(row["dataset"], row["run"]) for row in rows}
    assert len(rows) == len(runs) * len(module.SIZES) * module.DRAWS * len(module.METHODS)
    usual = [row for row in rows if row["method"] == "source-acc"]
    assert all(float(row["accuracy"]) == 0 and row["differs"] == "0" for row in usual)
