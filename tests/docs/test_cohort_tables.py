"""The pages of tables: every one is what its packed journals give, whole.

All cohorts together take about 15 seconds of one core; the 540 runs are in ``test_study_pages``.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkwise.records import RunKey
from checkwise.selection import select
from checkwise.study.tables import TABLES as BUILT
from checkwise.words import number
from tests.docs.test_pages import ROOT, builder

TABLES = builder("cohort_tables")
NAMES = list(TABLES.described())
PAGES = [
    ROOT / "docs" / "study" / "tables.md",
    builder("logits_page").PAGE,
    *map(TABLES.page_of, NAMES),
]
LARGEST = 190_000  # bytes that are still read as one page


@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_tables_is_rebuilt(name: str) -> None:
    assert TABLES.page_of(name).read_text("utf-8") == TABLES.text(name)


def test_every_cohort_with_a_page_is_listed_and_no_other() -> None:
    written = {page.name for page in PAGES[0].parent.glob("tables-*.md")}
    assert written == {page.name for page in PAGES[1:]}
    assert builder("page").part(TABLES.INDEX_PAGE, TABLES.INDEX) == TABLES.index()
    settings = (ROOT / "zensical.toml").read_text("utf-8")
    assert TABLES.navigation(settings) == settings


def test_a_new_archive_gets_its_place_in_the_navigation(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = 'nav = [\n  { "A" = "study/tables.md" },\n  { "B" = "study/tables-gone.md" },\n]\n'
    monkeypatch.setattr(TABLES, "described", lambda: {"digits": []})
    assert TABLES.navigation(settings) == (
        'nav = [\n  { "A" = "study/tables.md" },\n'
        '  { "What needs logits" = "study/tables-logits.md" },\n'
        '  { "Digits" = "study/tables-digits.md" },\n]\n'
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_tables_can_be_read(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.encode()) < LARGEST
    assert "nan" not in re.findall(r"\b\w+\b", text)
    assert "up to 0)" not in text


@pytest.mark.parametrize("name", NAMES)
def test_the_main_change_is_that_of_the_kept_outcomes(name: str) -> None:
    text = TABLES.page_of(name).read_text("utf-8")
    for described in TABLES.described()[name]:
        kept = builder("outcomes").read(name)
        kept = kept.of_dataset(described.dataset) if described.dataset else kept
        assert f"{len(kept.keys)} runs of" in text
        values = kept.values["ac-nc"]["target_nll"] - kept.values["source-acc"]["target_nll"]
        assert f"| {number(float(values.mean()), 4, signed=True)} [" in text


def test_what_a_cohort_does_not_have_is_not_shown() -> None:
    text = {name: TABLES.page_of(name).read_text("utf-8") for name in NAMES}
    for name in ("taicam-sites", "digits", "officehome-small"):  # every run has its own seeds
        assert "| WHD |" not in text[name]
        assert "(WHD) needs runs with the same seeds: not shown." in text[name]
    assert "| WHD |" in text["pacs-resnet50"]
    assert "Selection in the style of PAIR" not in text["officehome-small"]  # ERM alone
    assert "OfficeHome-01" not in text["officehome-small"]
    assert "over 52 places" not in text["officehome-small"]
    rotated, coloured = text["digits"].split("## Coloured digits")
    assert "ColoredMNIST" not in rotated
    assert "RotatedMNIST" not in coloured
    assert "| all | ac-nc − source-acc |" not in rotated  # of one data set that is itself


def test_every_table_is_on_a_page_or_said_to_be_missing() -> None:
    shown, needs = builder("paper_tables"), builder("logit_tables").NAMES
    assert sorted({*shown.NAMES, *needs}) == sorted(set(BUILT) - {"paper"})
    for page in (page for page in PAGES if page != builder("logits_page").PAGE):
        said = " ".join(
            re.findall(
                r"^Not here, with what the packed runs lack for them: .+$",
                page.read_text("utf-8"),
                re.M,
            )
        )
        for name in needs:
            assert f"`{name}`" in said, page.name


def test_parts_of_a_data_set_keep_their_random_draws() -> None:
    with builder("packed").packed_cohorts(("officehome-small",)) as cohorts:
        parts = cohorts["officehome-small"]
        whole = builder("recast").as_whole(parts, "OfficeHome, 5 classes")
        seeds = {key.trial_seed: key for key in whole.usable}
        assert len(seeds) == len(parts.usable) == 52
        assert len({key.held_out for key in whole.usable}) == 4
        for key, run in parts.usable.items():
            again = whole.usable[seeds[key.trial_seed]]
            assert select(again, "ac-random").step == select(run, "ac-random").step


def test_parts_whose_runs_would_have_one_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = builder("recast")
    runs = {RunKey(part, "ERM", ("Art",), 0, 0): Path(part) for part in ("first", "second")}
    monkeypatch.setattr(module, "open_cohort", lambda path: SimpleNamespace(runs=runs))
    with pytest.raises(SystemExit, match="the 2 runs of parts would have 1 keys"):
        module.as_whole(SimpleNamespace(path=Path("parts")), "whole")
