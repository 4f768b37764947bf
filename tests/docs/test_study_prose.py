"""Numbers in sentences of the study's pages that no script writes are those of the data."""

from __future__ import annotations

import csv
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from checkwise.selection import FEW_ERRORS
from studies.page import DATA
from tests.docs.test_pages import ROOT, builder

DOCS = ROOT / "docs"
WORDS = {3: "three", 4: "four", 12: "twelve"}
DESIGN = ("pacs-frozen", "officehome-frozen", "taicam-frozen")
SITES, SMALL = "taicam-sites", "officehome-small"


def said(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def runs(*cohorts: str) -> int:
    return sum(len(builder("outcomes").read(name).keys) for name in cohorts)


def places(*cohorts: str) -> int:
    return len({(n, k.held_out) for n in cohorts for k in builder("outcomes").read(n).keys})


def registered(family: str) -> str:
    named = builder("registered_table").named(SITES).values()
    return WORDS[sum(each["family"] == family for each in named)]


def accuracy_lost() -> float:
    """What `pure-nll` loses over the runs of the paper's design, in points."""
    outcomes = [builder("outcomes").read(name).values for name in DESIGN]
    lost = [v["pure-nll"]["target_accuracy"] - v["source-acc"]["target_accuracy"] for v in outcomes]
    return -100 * float(np.concatenate(lost).mean())


def problems() -> int:
    return len({key.dataset for key in builder("outcomes").read(SMALL).keys})


def test_the_product_s_advice_averaged_in_every_run() -> None:
    """`advised` takes one checkpoint where validation is saturated, which it is nowhere here."""
    for name in (SITES, "taicam-frozen"):
        errors = builder("outcomes").read(name).values["source-acc"]["errors"]
        assert errors.min() > FEW_ERRORS


@pytest.mark.parametrize("trained", [8, 20, 24])
def test_results_say_how_much_of_a_study_is_trained(
    trained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = builder("runs_table"), "pacs-finetuned"
    usable = SimpleNamespace(keys=range(7))  # a run that was lost was trained, too
    monkeypatch.setattr(module, "there", lambda only: [(SimpleNamespace(name=name), usable)])
    monkeypatch.setattr(module, "record_of", lambda name: {"trained": {"runs": trained}})
    said = "".join(module.partial())
    assert (f"`{name}` holds {trained} of the 24 runs" in said) == (trained < 24)
    assert bool(said) == (trained < 24)


def test_results_say_what_was_timed_and_which_times_are_rough() -> None:
    module, timed = builder("runs_table"), {"median_seconds": 5, "wall_minutes": 1}
    assert module.about({"a": timed}) == []
    (_, said) = module.core_time({"a": timed, "b": {"median_seconds": 5}})
    assert said == "Wall time was recorded of 1 cohort: 1 min for `a`."
    assert len(module.core_time({"b": {"median_seconds": 5}})) == 1
    (said,) = module.about({"a": {**timed, "about": True}})
    assert "*about*" in said


def test_every_cohort_has_a_core_time() -> None:
    lines = builder("runs_table").runs().partition("\n\n")[0].splitlines()[2:]
    rows = {
        cells[1].strip(): cells[-1].strip() for cells in (row[2:-1].split("|") for row in lines)
    }
    for name, time in rows.items():
        trained = builder("outcomes").record_of(name.strip("`"))["trained"]
        hours = trained["runs"] * trained["median_seconds"] / 3600
        assert time == f"about {hours:.1f} core-hours"
        assert round(hours, 1) > 0


def test_guide() -> None:
    page = said("guide.md")
    assert f"has {FEW_ERRORS} errors or fewer" in page
    assert len(page.split()) <= 350  # half a page


CHANGE = re.compile(r"[−+][\d.]+ \[[^\]]+\]")


def test_the_numbers_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    rows = [row.split("|")[2:4] for row in text.splitlines() if CHANGE.search(row)]
    ours, hidden = ([c.strip() for c in column if c.strip()] for column in zip(*rows, strict=True))
    found = re.sub(r"<!--.*?-->", "", said("study/results.md") + said("study/evidence.md"))
    kept = json.loads((DATA / "hidden.json").read_text())["effects"]
    assert len(ours) == len(hidden) == 5
    assert [change for change in ours if change not in found] == []
    assert hidden == [effect["change"] for effect in kept]
    assert f"{places(SITES)} places of camera traps" in text
    level = builder("outcomes").read(SITES).values["source-acc"]["target_nll"].mean()
    assert f"({level:.2f} against {np.log(8):.2f})" in text


def test_the_sizes_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    with (DOCS / "install-sizes.csv").open() as file:
        sizes = {row["extra"]: row["megabytes"] for row in csv.DictReader(file)}
    assert f"takes {sizes['']} MB" in text
    assert f"`pip install '.[train]'`) {sizes['train']} MB" in text


def test_the_quoted_analysis_is_quoted_as_it_was_kept() -> None:
    kept = json.loads((DATA / "hidden.json").read_text())
    known = {each["change"] for each in (*kept["effects"], *kept["further"])}
    for page in ("study/results.md", "study/evidence.md"):
        prose = re.sub(r"<!--(?! ).*?<!---->|<!-- [a-z-]+ -->.*?<!-- /", "", said(page))
        quoted = set(CHANGE.findall(prose))
        assert quoted
        assert quoted <= known


@pytest.mark.parametrize("page", sorted(p.name for p in (DOCS / "study").glob("*.md")))
def test_pages_name_no_recipe_that_does_not_exist(page: str) -> None:
    known = {name for rows in builder("recipes").FURTHER.values() for name in rows}
    known |= set(builder("recipes").EVERYWHERE)
    text = (DOCS / "study" / page).read_text()
    for name in re.findall(r"`((?:source-acc|ac-nc|pure-nll|deploy)[a-z@+-]*)`", text):
        assert name.removesuffix("-") in known or name in known, name
