"""The page in a real browser: every control, equal to Python, silent, and asking nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.records import RunKey
from checkwise.selection import explain
from checkwise.selection.rulebook import unregister
from checkwise.study import Cohort, sentences
from checkwise.study.report import write_report
from tests.page.chromium import Browser, browser, needs_chromium
from tests.page.test_page import HOSTILE
from tests.study.cohorts import demo_like, tiny_runs, write_cohort

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_like(tmp_path_factory.mktemp("demo"), runs_per_algorithm=3)


@pytest.fixture(scope="module")
def cohort(folder: Path) -> Cohort:
    return Cohort.open(folder)


@pytest.fixture
def page(tab: Browser, folder: Path, cohort: Cohort) -> Iterator[Browser]:
    out = folder / "report.html"
    if not out.exists():
        write_report(cohort, out)
    tab.console.clear()
    tab.requests.clear()
    tab.open(out)
    yield tab
    assert tab.console == []
    assert tab.requests == []


def chosen_by(cohort: Cohort, page: Browser, rule: str, **asked: Any) -> cw.Selection:
    name = page.run("document.getElementById('run').selectedOptions[0].textContent")
    key = next(key for key in cohort.runs if str(key) == name)
    return cw.select(cohort.runs[key], rule, guard=False, **asked)


def test_it_opens_on_the_settings_of_the_report(page: Browser, cohort: Cohort) -> None:
    chosen = chosen_by(cohort, page, "ac-nc")
    assert page.text("#choice") == f"Step {chosen.step}"
    assert page.text("#delta") == "0.5 points"


@pytest.mark.parametrize(
    ("controls", "rule", "asked"),
    [
        ({"slider": "6"}, "ac-nc", {"delta_pp": "1.5"}),
        ({"rule": "source-acc"}, "source-acc", {}),
        ({"rule": "ac-early", "slider": "7"}, "ac-early", {"delta_pp": "2"}),
        ({"rule": "pure-nll"}, "pure-nll", {}),
        ({"run": "7", "slider": "9"}, "ac-nc", {"delta_pp": "5"}),
    ],
)
def test_every_control_chooses_what_python_chooses(
    page: Browser, cohort: Cohort, controls: dict[str, Any], rule: str, asked: dict[str, Any]
) -> None:
    for name, value in controls.items():
        page.set(name, value)
    chosen = chosen_by(cohort, page, rule, **asked)
    assert page.text("#choice") == f"Step {chosen.step}"
    assert f"{len(chosen.feasible_steps)} of 51 checkpoints" in page.text("#explanation")
    cells = page.run("[...document.querySelectorAll('#ranking tbody tr')].map(r => r.innerText)")
    best = [line.split("\t") for line in cells]
    size = min(5, len(chosen.feasible_steps))
    assert [int(row[0]) for row in best] == chosen.table["step"][:size].tolist()
    assert [row[1] for row in best] == [f"{100 * a:.2f}" for a in chosen.table["accuracy"][:size]]
    assert page.run("document.querySelectorAll('#figure .mark').length") > 2


def test_settings_without_effect_are_hidden(page: Browser) -> None:
    visible = "document.getElementById('{}').checkVisibility()"
    assert page.run(visible.format("tolerance")) is True
    assert page.run(visible.format("distance")) is False  # a study's page keeps its distance
    assert page.run("document.getElementById('weighting')") is None
    page.set("rule", "source-acc")
    assert page.run(visible.format("tolerance")) is False


def test_held_out_results_stay_closed_until_asked_for(page: Browser, cohort: Cohort) -> None:
    visible = "document.getElementById('live-answer').checkVisibility()"
    assert page.run(visible) is False
    page.set("slider", "5")
    assert page.run("document.getElementById('live-answer').textContent") == ""
    open_held_out(page)
    assert page.run(visible) is True
    assert "not the settings" in page.text("#live-note")
    page.run("document.getElementById('reset').click()")
    assert "are the settings of the report" in page.text("#live-note")


def open_held_out(page: Browser) -> None:
    page.run("document.querySelector('#heldout > summary').click()")
    page.wait("document.querySelectorAll('#rules-target tbody tr').length > 0")


@pytest.mark.parametrize(("slider", "delta"), [("3", "0.5"), ("6", "1.5")])
def test_comparisons_are_pythons(page: Browser, cohort: Cohort, slider: str, delta: str) -> None:
    page.set("slider", slider)
    open_held_out(page)
    found = saved(page, "#rules-target")
    for row in cohort.contrasts(["ac-nc", "ac-mean"], delta_pp=delta):
        line = found[row.rule]
        assert float(line[f"{row.metric}_mean"]) == row.mean
        assert float(line[f"{row.metric}_low"]) == row.low
        assert int(line[f"{row.metric}_wins"]) == row.wins


def saved(page: Browser, place: str) -> dict[str, dict[str, str]]:
    """What the download of a table holds, by its first column."""
    text = page.run(f"""new Promise((done) => {{
      const made = URL.createObjectURL;
      URL.createObjectURL = (blob) => {{ blob.text().then(done); return 'about:blank'; }};
      HTMLAnchorElement.prototype.click = () => {{}};
      document.querySelector({json.dumps(place)} + ' .save').click();
      URL.createObjectURL = made;
    }})""")
    head, *lines = [line.split(",") for line in text.splitlines()]
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def test_the_answer_at_the_settings_of_the_report_is_the_answer_above(
    page: Browser, cohort: Cohort
) -> None:
    open_held_out(page)
    shown = "document.getElementById('live-answer').checkVisibility()"
    assert page.run(shown) is False  # it is the answer at the top, which is not said twice
    page.set("rule", "ac-nll")
    assert page.text("#live-answer") == sentences.answer(cohort.contrasts(["ac-nll"]))
    page.set("rule", "source-acc")
    assert page.text("#live-answer") == "source-acc is what the others are compared with."


def test_tables_sort_and_a_run_opens_from_its_row(page: Browser) -> None:
    page.run("document.querySelector('#runs-table').parentElement.open = true")
    page.wait("document.querySelectorAll('#runs-table tbody tr').length === 15")
    gaps = "[...document.querySelectorAll('#runs-table tbody tr')].map(r => +r.cells[4].innerText)"
    page.run("document.querySelectorAll('#runs-table th button.sort')[4].click()")
    up = page.run(gaps)
    assert up == sorted(up)
    page.run("document.querySelectorAll('#runs-table th button.sort')[4].click()")
    assert page.run(gaps) == sorted(up, reverse=True)
    sorted_as = "document.querySelectorAll('#runs-table thead th')[4].getAttribute('aria-sort')"
    assert page.run(sorted_as) == "descending"
    name = page.text("#runs-table tbody tr:nth-child(3) th")
    page.run("document.querySelector('#runs-table tbody tr:nth-child(3) button').click()")
    assert page.run("document.getElementById('run').selectedOptions[0].textContent") == name


def test_the_keyboard_is_enough(page: Browser) -> None:
    page.run("document.body.focus()")
    page.press("Tab")
    assert "Would other seeds" in page.run("document.activeElement.textContent")
    order = []
    for _ in range(4):
        page.press("Tab")
        order.append(page.run("document.activeElement.name || document.activeElement.id"))
    assert order == ["run", "rule", "slider", "reset"]
    page.run("document.querySelector('[name=slider]').focus()")
    page.press("ArrowRight")
    assert page.text("#delta") == "0.75 points"
    page.press("ArrowLeft")
    assert page.text("#delta") == "0.5 points"
    page.run("document.querySelector('#heldout > summary').focus()")
    page.press("Enter")
    page.wait("document.getElementById('heldout').open")


def test_every_control_has_a_name(page: Browser) -> None:
    unnamed = page.run("""[...document.querySelectorAll('input, select, button')].filter((one) =>
      !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
      .map((one) => one.outerHTML)""")
    assert unnamed == []


def test_a_phone_does_not_scroll_sideways(page: Browser, folder: Path) -> None:
    page.open(folder / "report.html", width=390, height=800)
    open_held_out(page)
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_the_dark_page_is_dark(page: Browser, folder: Path) -> None:
    page.open(folder / "report.html", dark=True)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"


@pytest.fixture
def without_script(tab: Browser, page: Browser, folder: Path) -> Iterator[Browser]:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.call("Page.navigate", url=(folder / "report.html").as_uri())
        ready = "document.readyState === 'complete' && !document.documentElement.className"
        while not tab.run(ready):
            sleep(0.05)
        yield tab
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_without_a_script_the_facts_stand_there(without_script: Browser) -> None:
    def visible(selector: str) -> bool:
        found = without_script.run(f"document.querySelector({selector!r}).checkVisibility()")
        return bool(found)

    assert not visible("#controls")
    assert not visible("#figure")
    assert "need JavaScript" in without_script.text("#explore .static-only")
    assert visible("#explore .static-only table")
    assert not visible("#heldout h2")
    without_script.run("document.querySelector('#heldout > summary').click()")
    assert visible("#heldout table")
    assert not visible("#rules-target")


@pytest.fixture
def latest() -> Iterator[str]:
    """A rule of a user's own, which the page's script does not know."""

    @cw.rule("latest", constrained=True)
    def choose(table: Any, *, delta_pp: Any = 0.5) -> Any:
        """The latest checkpoint within the tolerance."""
        return table["step"][table.within(delta_pp)][-1]

    yield choose.name
    unregister("latest")


def test_a_rule_of_ones_own_leads_the_page_at_every_tolerance(
    tab: Browser, cohort: Cohort, tmp_path: Path, latest: str
) -> None:
    tab.console.clear()
    tab.open(write_report(cohort, tmp_path / "own.html", rules=[latest, "ac-nc"], delta_pp="1"))
    assert tab.run("document.getElementById('rule').value") == latest
    assert tab.text("#choice") == f"Step {chosen_by(cohort, tab, latest, delta_pp='1').step}"
    assert "within 1 point of the best" in tab.text("#figure")
    tab.set("slider", "7")
    assert tab.text("#choice") == f"Step {chosen_by(cohort, tab, latest, delta_pp='2').step}"
    open_held_out(tab)
    assert "are not the settings that the report" in tab.text("#live-note")
    (row,) = [row for row in cohort.contrasts([latest], delta_pp="2") if row.metric == "target_nll"]
    assert float(saved(tab, "#rules-target")["latest"]["target_nll_mean"]) == row.mean
    assert tab.console == []


def test_a_reference_that_chooses_nothing_is_replaced_and_named(
    tab: Browser, cohort: Cohort, tmp_path: Path
) -> None:
    tab.console.clear()
    tab.open(write_report(cohort, tmp_path / "r.html", rules=["ac-nc"], reference="ac-mean"))
    assert "ac-mean chooses no checkpoint" in tab.text("#explore")
    assert "differs from source-acc in" in tab.text("#over-runs")
    assert tab.console == []


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ("latest", {"delta_pp": "2"}),
        ("ac-nc", {"pareto": True}),
        ("ac-random", {"seed": 3}),
        ("ac-nc", {"weights": "sample", "q": 2}),
    ],
)
def test_a_run_is_shown_as_it_was_chosen_and_explored_from_there(
    tab: Browser, cohort: Cohort, tmp_path: Path, latest: str, rule: str, asked: dict[str, Any]
) -> None:
    run = next(iter(cohort.runs.values()))
    tab.console.clear()
    tab.open(write_report(run, tmp_path / "run.html", rule=rule, **asked))
    chosen = cw.select(run, rule, **asked)
    assert tab.text("h1") == f"Use step {chosen.step}"
    hidden = "document.getElementById('chosen-now').hidden"
    assert tab.run(hidden) is True  # what stands at the top is not said twice
    steps = tab.run(
        "[...document.querySelectorAll('#ranking tbody tr')].map(r => +r.cells[0].innerText)"
    )
    size = min(10, len(chosen.feasible_steps))
    assert steps[:size] == chosen.table["step"][:size].tolist()
    tab.set("slider", "60")
    assert tab.run(hidden) is False
    there = cw.select(run, rule, **{**asked, "delta_pp": "3"})
    assert tab.text("#choice") == f"Step {there.step}"
    assert tab.text("#explanation") == explain(there)
    assert tab.run("document.getElementById('heldout')") is None
    assert tab.console == []


def test_the_path_is_copied(tab: Browser, tmp_path: Path) -> None:
    run = cw.Trajectory.from_frame(
        {"step": [1, 2], "accuracy": [0.5, 0.6], "path": [None, "out/checkpoint-2"]}
    )
    tab.open(write_report(run, tmp_path / "run.html"))
    assert tab.text("section.top .where code") == "out/checkpoint-2"
    tab.run("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    tab.run("document.querySelector('section.top button[data-copy]').click()")
    assert tab.run("window.copied") == "out/checkpoint-2"


def test_the_line_leaves_the_frame_where_points_lie_outside(tab: Browser, tmp_path: Path) -> None:
    run = cw.Trajectory.from_frame(
        {"step": [1, 2, 3, 4, 5], "accuracy": [0.1, 0.3, 0.9, 0.899, 0.898]}
    )
    tab.open(write_report(run, tmp_path / "run.html"))
    path = tab.run("document.querySelector('#figure .path').getAttribute('d')")
    assert path.count("M") == 4
    first, second = (
        float(tab.run(f"document.querySelectorAll('svg.plot circle')[{i}].cx.baseVal.value"))
        for i in (0, 1)
    )
    assert 0 < first - float(path[1:].split()[0]) < second - first  # it comes from below
    assert tab.run("document.querySelectorAll('svg.plot circle.dot').length") == 4


def test_a_diverged_checkpoint_is_marked_and_said(tab: Browser, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "c", tiny_runs()[2:3])
    run = next(iter(Cohort.open(folder).runs.values()))
    tab.open(write_report(run, tmp_path / "r.html"))
    assert "1 diverged checkpoint is marked ×." in tab.text("#figure")
    assert tab.run("document.querySelectorAll('#figure .lost').length") > 0


@pytest.mark.parametrize("checkpoints", [1, 2])
def test_tiny_runs_can_be_drawn(tab: Browser, tmp_path: Path, checkpoints: int) -> None:
    run = cw.Trajectory(
        steps=np.arange(checkpoints),
        domains=("val",),
        values={name: np.full((checkpoints, 1), 0.5) for name in ("accuracy", "nll", "cwece")},
    )
    tab.console.clear()
    tab.open(write_report(run, tmp_path / "r.html"))
    assert tab.run("document.querySelectorAll('#figure circle.dot').length") > checkpoints
    assert tab.console == []


def test_hostile_names_stay_names(tab: Browser, tmp_path: Path) -> None:
    bad = [
        replace(run, key=RunKey(HOSTILE, "=1+1", run.key.held_out, 0, i), domains=(HOSTILE, "b"))
        for i, run in enumerate(tiny_runs()[:3])
    ]
    folder = write_cohort(tmp_path / "c", bad, name=HOSTILE)
    tab.console.clear()
    tab.open(write_report(folder, tmp_path / "r.html"))
    tab.set("slider", "2")
    open_held_out(tab)
    assert HOSTILE in tab.run("document.querySelector('#run optgroup').label")
    assert tab.run("document.images.length") == 0
    assert tab.run("document.scripts.length") == 2
    assert tab.console == []
    assert tab.requests == []


def test_a_page_that_misbehaves_would_be_noticed(tab: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('boom')</script><img src='http://127.0.0.1:9/x.png'>")
    tab.open(bad)
    assert any("boom" in line for line in tab.console)
    assert tab.requests == ["http://127.0.0.1:9/x.png"]
    tab.console.clear()
    tab.requests.clear()
