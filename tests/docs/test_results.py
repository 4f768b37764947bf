"""What the page of results prints is what the packed journals give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from checkwise.study.tables import Cell, Table
from tests.docs.test_pages import ROOT, builder

PAGE = ROOT / "docs" / "study" / "results.md"


@pytest.fixture(scope="module")
def rebuilt() -> Iterator[dict[str, str]]:
    results = builder("results")
    with results.packed_cohorts() as cohorts:
        yield results.parts(results.tables.Results(cohorts))


def test_every_part_of_the_page_is_rebuilt_from_the_packed_journals(
    rebuilt: dict[str, str],
) -> None:
    part = builder("page").part
    marked = re.findall(r"<!-- ([a-z-]+) -->", PAGE.read_text())
    assert sorted(marked) == sorted(rebuilt)
    for name, content in rebuilt.items():
        assert part(PAGE, name) == content, name


def test_every_packed_cohort_is_small_and_used() -> None:
    packed = builder("packed")
    files = {file.name.removesuffix(".tar.xz"): file for file in packed.DATA.glob("*.tar.xz")}
    assert sorted(files) == sorted(packed.NAMES)
    assert max(file.stat().st_size for file in files.values()) < 3_000_000


def test_a_sentence_that_became_untrue_stops_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    module = builder("claims")
    monkeypatch.setattr(module, "_favourable", lambda results: [module.Claim("It helps.", False)])
    monkeypatch.setattr(module, "_unfavourable", lambda results: [])
    with pytest.raises(SystemExit, match="bear out: It helps"):
        module.claims(None)


def test_published_numbers_stand_below_ours_as_they_were_printed() -> None:
    beside = builder("beside")

    class Published:
        def text(self, key: Any, *, signed: bool) -> str:
            wanted = ("main", "PACS", "", "ac-nc", "", "target_nll")
            return "0.7728" if key == wanted and not signed else ""

        def runs(self, key: Any) -> int:
            return 180

    table = Table(
        "main",
        "",
        ("dataset", "rule"),
        (
            Cell(("PACS", "ac-nc"), "target_nll", 1.5, 3, "development"),
            Cell(("all", "ac-nc"), "target_nll", 1.5, 3, "development"),
        ),
    )
    assert beside.beside(table, ["target_nll"], paper=Published()).splitlines() == [
        "| data | rule | Target NLL | runs |",
        "|:--|:--|--:|--:|",
        "| PACS | ac-nc | 1.5000 | 3 |",
        "| *paper* | ac-nc | *0.7728* | *180* |",
    ]
