"""The page: whole, self-contained, and inert whatever names the data has."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.page import Markup, el
from checkwise.records import RunKey
from checkwise.selection import because
from checkwise.study import Cohort, sentences
from checkwise.study.report import write_report
from checkwise.study.report.facts import cohort_facts
from checkwise.study.report.tables import ticks
from checkwise.words import RECOMMENDED
from tests.refusals import refused
from tests.study.cohorts import demo_like, tiny_runs, write_cohort

HOSTILE = "<img src=x onerror=alert(1)>\"'&</style><script>alert(2)</script>"
VOID = ("meta", "br", "hr", "img", "input")


class Reader(HTMLParser):
    """Collects elements and text, and checks that every element is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_like(tmp_path_factory.mktemp("demo"), runs_per_algorithm=2)


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return write_report(folder, folder / "pages" / "report.html").read_text("utf-8")


def test_the_page_is_whole_and_fetches_nothing(page: str) -> None:
    found = Reader(page)
    assert page.startswith("<!doctype html>")
    assert not {"link", "img", "iframe", "object", "use"} & set(found.seen)
    data, script = found.scripts
    assert json.loads(data)["runs"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in [
        value for name, value in found.attributes if name == "content"
    ]
    assert not [a for a in found.attributes if a[0] in ("src", "href", "srcset", "action")]
    assert not [a for a in found.attributes if a[0].startswith("on")]
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_the_answer_stands_first_with_its_numbers(page: str, folder: Path) -> None:
    facts = cohort_facts(Cohort.open(folder))
    rows = facts.contrasts("ac-nc")
    text = Reader(page).text
    assert sentences.answer(rows) in text
    assert text.index(sentences.answer(rows)) < text.index("Explore the choices")
    for row in rows:
        assert sentences.interval(row) in text
    assert "10 runs (CORAL, ERM, GroupDRO, IRM, VREx; RotatedMNIST), none left out" in text
    assert "development data" in text
    assert "not independent" in text
    first = next(row for row in rows if row.metric == "target_nll")
    assert {unit: found.groups for unit, found in first.units.items()} == {
        "block": 2,
        "draw": 1,
        "trial": 2,
        "domain": 2,
        "block_domain": 2,
    }
    assert "2 blockstoo few" in text
    assert sentences.headline(rows) in text
    assert "ac-nc on these 10 runs:" in sentences.headline(rows)


def test_source_and_held_out_are_apart(page: str) -> None:
    source, rest = page.split('<section class="source"')[1].split("</section>", 1)
    held = rest.split('<details class="heldout"')[1]
    assert "Source validation · all that the rules read" in source
    assert "target" not in Reader(f"<p{source}</p>").text
    assert "Held-out domains · opened to evaluate, never to choose" in held
    assert "target NLL" in held


def test_held_out_results_are_closed_and_open_without_a_script(page: str) -> None:
    held = page.split('<details class="heldout"')[1]
    assert " open" not in held[: held.index(">")]
    assert "Open held-out results" in held[: held.index("</summary>")]
    assert "has seen them" in held[: held.index("</summary>")]


def test_without_a_script_the_example_is_told_in_words(page: str, folder: Path) -> None:
    facts = cohort_facts(Cohort.open(folder))
    source = page.split('<section class="source"')[1].split("</section>", 1)[0]
    static = Reader(source.split('<div class="static-only">')[1].split("</div>")[0]).text
    assert str(facts.example.run) in static
    assert facts.example.explain() in static
    assert "need JavaScript" in static
    assert "<svg" not in source


@pytest.mark.parametrize(("examples", "told"), [(100_000, True), (100, False)])
def test_a_bound_comes_with_its_conditions_where_it_says_something(
    examples: int, told: bool, tmp_path: Path
) -> None:
    run = cw.Trajectory.from_frame(
        {"step": [1, 2], "accuracy": [0.9, 0.899], "nll": [0.5, 0.4], "n": [examples] * 2}
    )
    text = Reader(write_report(run, tmp_path / "run.html").read_text("utf-8")).text
    assert ("at most" in text) == told
    assert ("voids the bound" in text) == told
    assert ("no rule that reads source data alone is best for every target" in text) == told


def test_left_out_runs_are_counted_on_the_page(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "c", tiny_runs())
    text = Reader(write_report(folder, tmp_path / "r.html").read_text("utf-8")).text
    assert "3 runs (ERM, IRM; PACS), 1 unfinished left out; 1 diverged checkpoint." in text
    assert "no interval from one run" in text


def test_names_are_data(tmp_path: Path) -> None:
    run = replace(tiny_runs()[0], key=RunKey(HOSTILE, HOSTILE, ("sketch",), 0, 0))
    run = replace(run, domains=(HOSTILE, "photo"))
    folder = write_cohort(tmp_path / "c", [run], name=HOSTILE)
    found = Reader(write_report(folder, tmp_path / "r.html").read_text("utf-8"))
    assert HOSTILE in found.text
    assert "img" not in found.seen
    assert len(found.scripts) == 2

    lone = cw.Trajectory.from_frame(
        {"step": [0, 1], "accuracy": [0.5, 0.6], "path": [None, HOSTILE]},
        notes=(HOSTILE,),
        key=RunKey(HOSTILE, "ERM", (HOSTILE,), 0, 0),
    )
    found = Reader(write_report(lone, tmp_path / "run.html").read_text("utf-8"))
    assert HOSTILE in found.text
    assert "img" not in found.seen
    assert len(found.scripts) == 2


def test_a_single_run_is_told_without_any_target(folder: Path, tmp_path: Path) -> None:
    run = Cohort.open(folder).runs
    key = next(iter(run))
    selection = cw.select(run[key])
    page = write_report(folder / "runs" / str(key), tmp_path / "run.html").read_text("utf-8")
    text = Reader(page).text
    assert f"Step {selection.step}" in text
    assert because(selection) in text
    assert RECOMMENDED in text
    assert "All 51 checkpoints and metrics" in text
    assert 'class="heldout"' not in page


def test_a_run_with_accuracy_alone_is_still_told(tmp_path: Path) -> None:
    run = cw.Trajectory.from_frame({"step": [0, 1], "accuracy": [0.5, 0.6]})
    text = Reader(write_report(run, tmp_path / "r.html").read_text("utf-8")).text
    assert "Use step 1" in text
    assert "What is promised" not in text  # without a number of examples there is no bound


def test_a_folder_that_is_no_cohort_is_refused(tmp_path: Path) -> None:
    with refused("unsupported"):
        write_report(tmp_path, tmp_path / "r.html")


def test_a_selection_has_the_page_of_its_run_under_its_rule(tmp_path: Path) -> None:
    run = cw.Trajectory.from_frame(
        {"step": [1, 2], "accuracy": [0.9, 0.899], "nll": [0.5, 0.4], "cwece": [0.2, 0.1]}
    )
    selection = cw.select(run, "ac-nll", delta_pp="1")
    page = write_report(selection, tmp_path / "selection.html").read_text("utf-8")
    of_run = write_report(run, tmp_path / "run.html", rule="ac-nll", delta_pp="1")
    assert page == of_run.read_text("utf-8")
    with pytest.raises(TypeError, match="delta_pp"):
        write_report(selection, tmp_path / "again.html", delta_pp="2")


def test_a_page_that_cannot_be_written_says_where(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("system: file"):
        write_report(folder, tmp_path / "file" / "r.html")


def test_markup_escapes_what_is_not_markup() -> None:
    assert el("p", "<b>", Markup("<i></i>"), title='"') == (
        '<p title="&quot;">&lt;b&gt;<i></i></p>'
    )


def test_every_plot_says_which_way_is_better(page: str) -> None:
    plots = re.findall(r'<svg[^>]*aria-label="Paired differences in ([^:]+):.*?</svg>', page, re.S)
    ways = re.findall(r">(better →|← better)<", page)
    assert dict(zip(plots, ways, strict=True)) == {
        "target accuracy": "better →",
        "target NLL": "← better",
        "target ECE": "← better",
        "target CwECE": "← better",
    }


def test_ticks_are_round_and_inside() -> None:
    assert ticks(-0.26, 0.21, 4) == [-0.2, 0.0, 0.2]
    assert ticks(3, 3) == [3]


def test_the_page_says_how_domains_count(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))
    pages: dict[str, dict[str, Any]] = {
        "": {},
        "The worst source domain decides.": {"worst_domain": True},
        "Weights of source domains: art 2, photo 1.": {"weights": {"art": 2, "photo": 1}},
    }
    for sentence, options in pages.items():
        page = write_report(cohort, tmp_path / "page.html", **options).read_text()
        assert sentence in page
        assert all(other not in page for other in pages if other and other != sentence)
