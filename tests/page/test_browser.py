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
from checkwise.selection.rulebook import unregister
from checkwise.study import Cohort, Contrast, sentences
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
    assert page.text("#explanation") == chosen.explain()
    assert page.run("document.getElementById('delta').value") == "0.5"


@pytest.mark.parametrize(
    ("controls", "rule", "asked"),
    [
        ({"slider": "1.5"}, "ac-nc", {"delta_pp": "1.5"}),
        ({"delta": "0.30"}, "ac-nc", {"delta_pp": "0.30"}),
        ({"q": "1"}, "ac-nc", {"q": 1}),
        ({"q": "2"}, "ac-nc", {"q": 2}),
        ({"rule": "ac-nec", "q": "2"}, "ac-nec", {"q": 2}),
        ({"rule": "source-acc"}, "source-acc", {}),
        ({"rule": "ac-early", "delta": "2"}, "ac-early", {"delta_pp": "2"}),
        ({"rule": "ac-random"}, "ac-random", {}),
        ({"rule": "pure-cwece"}, "pure-cwece", {}),
        ({"rule": "wald", "threshold": "96"}, "wald", {"threshold_pp": "96"}),
        ({"weights": "sample"}, "ac-nc", {"weights": "sample"}),
        ({"worst": True}, "ac-nc", {"worst_domain": True}),
        ({"run": "7", "delta": "5"}, "ac-nc", {"delta_pp": "5"}),
    ],
)
def test_every_control_chooses_what_python_chooses(
    page: Browser, cohort: Cohort, controls: dict[str, Any], rule: str, asked: dict[str, Any]
) -> None:
    for name, value in controls.items():
        page.set(name, value)
    chosen = chosen_by(cohort, page, rule, **asked)
    assert page.text("#choice") == f"Step {chosen.step}"
    assert page.text("#explanation") == chosen.explain()
    cells = page.run("[...document.querySelectorAll('#ranking tbody tr')].map(r => r.innerText)")
    best = [line.split("\t") for line in cells]
    assert [int(row[1]) for row in best] == chosen.table["step"][:10].tolist()
    assert [row[2] for row in best] == [f"{100 * a:.2f}" for a in chosen.table["accuracy"][:10]]
    assert f"{len(chosen.feasible_steps)} of 51 checkpoints" in page.text("#sure")
    assert page.run("document.querySelectorAll('#figure .mark').length") > 2


def test_ticking_objectives_finds_the_rule_that_has_them(page: Browser, cohort: Cohort) -> None:
    def click(name: str) -> None:
        page.run(f"document.querySelector('input[name=objective][value={name}]').click()")

    click("ece")
    assert page.run("document.getElementById('rule').value") == "ac-nec"
    click("nll")
    assert page.run("document.getElementById('rule').value") == "ac"
    chosen = chosen_by(cohort, page, "ac", objectives=("ece", "cwece"))
    assert page.text("#explanation") == chosen.explain()
    click("ece")
    click("cwece")
    assert page.text("#problem") == "Choose an objective."
    page.run("document.getElementById('reset').click()")
    assert page.run("document.getElementById('rule').value") == "ac-nc"
    assert page.run("document.getElementById('problem').hidden") is True


def test_what_is_no_tolerance_is_said(page: Browser) -> None:
    page.set("delta", "half")
    assert "has to be a number of points" in page.text("#problem")
    assert page.run("document.getElementById('delta').getAttribute('aria-invalid')") == "true"
    page.set("delta", "0.5")
    assert page.run("document.getElementById('problem').hidden") is True


def test_weights_do_not_go_with_the_worst_domain(page: Browser) -> None:
    page.set("weights", "sample")
    page.set("worst", True)
    assert "The worst domain has no weights" in page.text("#problem")
    page.set("weights", "equal")
    assert page.run("document.getElementById('problem').hidden") is True


def test_a_threshold_that_nothing_reaches_is_said(page: Browser) -> None:
    page.set("rule", "wald")
    page.set("threshold", "99.9")
    assert "No checkpoint reaches 99.9 points" in page.text("#problem")


def test_held_out_results_stay_closed_until_asked_for(page: Browser, cohort: Cohort) -> None:
    visible = "document.getElementById('live-answer').checkVisibility()"
    assert page.run(visible) is False
    page.set("slider", "1")
    assert page.run("document.getElementById('live-answer').textContent") == ""
    open_held_out(page)
    assert page.run(visible) is True
    assert "not the settings" in page.text("#live-note")
    page.run("document.getElementById('reset').click()")
    assert "are the settings that the report" in page.text("#live-note")


def open_held_out(page: Browser) -> None:
    page.run("document.querySelector('#heldout > summary').click()")
    page.wait("document.querySelectorAll('#rules-target tbody tr').length > 5")


@pytest.mark.parametrize(
    "controls", [{}, {"slider": "1.5", "q": "1"}, {"rule": "pure-nll"}, {"worst": True}]
)
def test_comparisons_are_pythons(page: Browser, cohort: Cohort, controls: dict[str, Any]) -> None:
    for name, value in controls.items():
        page.set(name, value)
    open_held_out(page)
    rule = controls.get("rule", "ac-nc")
    shared: dict[str, Any] = {"worst_domain": True} if "worst" in controls else {}
    asked: dict[str, Any] = {"delta_pp": "1.5", "q": 1} if "slider" in controls else {}
    expected = cohort.contrasts(["ac-nc", "ac-mean", "pure-nll"], **asked, **shared)
    found = saved(page, "#rules-target")
    for name in ("ac-nc", "ac-mean", "pure-nll"):
        agree(found[name], [row for row in expected if row.rule == name])
    given: dict[str, Any] = asked if rule == "ac-nc" else {}
    split = cohort.contrasts([rule], by=["algorithm"], **given, **shared)
    by_algorithm = saved(page, "#split-table")
    for algorithm in ("CORAL", "ERM", "GroupDRO", "IRM", "VREx"):
        agree(by_algorithm[algorithm], [row for row in split if row.group == (algorithm,)])


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


def agree(found: dict[str, str], expected: list[Contrast]) -> None:
    """The same means and counts, and the library's cluster-t interval by block."""
    for row in expected:
        block = row.units["block"]
        numbers = {"mean": row.mean, "median": row.median, "low": block.low, "high": block.high}
        for part, value in numbers.items():
            got = float(found[f"{row.metric}_{part}"])
            assert got == pytest.approx(value, rel=1e-9, abs=1e-12)
        for part in ("wins", "ties", "losses", "n", "missing"):
            assert int(found[f"{row.metric}_{part}"]) == getattr(row, part)


def test_the_answer_at_the_settings_of_the_report_is_the_answer_above(
    page: Browser, cohort: Cohort
) -> None:
    open_held_out(page)
    live = page.text("#live-answer").replace("ac-nc (δ 0.5, L∞)", "ac-nc")
    assert live == sentences.answer(cohort.contrasts(["ac-nc"]))
    assert page.text("#live-intervals") == (
        "Intervals here are 95% t intervals over 3 held-out domains, each counting once, however "
        "many runs it has."
    )


def test_one_block_of_runs_has_no_interval_and_says_so(tab: Browser, tmp_path: Path) -> None:
    folder = demo_like(tmp_path / "one", runs_per_algorithm=1)
    tab.open(write_report(folder, tmp_path / "r.html"))
    open_held_out(tab)
    assert "no interval from one block" in tab.text("#live-answer")
    assert "one block, which gives no interval" in tab.text("#live-intervals")
    assert "no interval from one block" in tab.text("#rules-target")


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
    for _ in range(8):
        page.press("Tab")
        order.append(page.run("document.activeElement.name || document.activeElement.id"))
    assert order[:4] == ["run", "rule", "slider", "delta"]
    assert order[4:6] == ["q", "objective"]
    page.run("document.querySelector('[name=slider]').focus()")
    before = page.run("document.getElementById('delta').value")
    page.press("ArrowRight")
    assert page.run("document.getElementById('delta').value") == "0.55"
    page.press("ArrowLeft")
    assert page.run("document.getElementById('delta').value") == before
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
    assert visible("#heldout .static-only table")
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


def test_a_rule_of_ones_own_leads_the_page_with_the_choices_that_python_made(
    tab: Browser, cohort: Cohort, tmp_path: Path, latest: str
) -> None:
    tab.console.clear()
    tab.open(write_report(cohort, tmp_path / "own.html", rules=[latest, "ac-nc"], delta_pp="1"))
    assert tab.run("document.getElementById('rule').value") == latest
    chosen = chosen_by(cohort, tab, latest, delta_pp="1")
    assert tab.text("#choice") == f"Step {chosen.step}"
    assert tab.text("#explanation") == chosen.explain()
    assert tab.text("#not-recomputed").startswith("latest is not recomputed on this page.")
    assert "tolerance: 1 points" in tab.text("#figure")
    assert f"{chosen.guarantee().bound_pp:.2f} points" in tab.text("#sure")
    open_held_out(tab)
    assert "are the settings that the report" in tab.text("#live-note")
    (row,) = [row for row in cohort.contrasts([latest], delta_pp="1") if row.metric == "target_nll"]
    agree(saved(tab, "#rules-target")["latest (as reported)"], [row])
    tab.set("weights", "sample")
    assert "latest is not recomputed here" in tab.text("#problem")
    tab.set("rule", "ac-nc")
    known = chosen_by(cohort, tab, "ac-nc", delta_pp="1", weights="sample")
    assert tab.text("#explanation") == known.explain()
    assert tab.run("document.getElementById('not-recomputed').hidden") is True
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
    [("latest", {"delta_pp": "2"}), ("ac-nc", {"pareto": True}), ("ac-random", {"seed": 3})],
)
def test_a_run_chosen_in_a_way_that_the_page_lacks_is_shown_as_chosen(
    tab: Browser, cohort: Cohort, tmp_path: Path, latest: str, rule: str, asked: dict[str, Any]
) -> None:
    run = next(iter(cohort.runs.values()))
    tab.open(write_report(run, tmp_path / "run.html", rule=rule, **asked))
    chosen = cw.select(run, rule, **asked)
    assert tab.text("#choice") == f"Step {chosen.step}"
    assert tab.text("#explanation") == chosen.explain()
    assert f"{rule} is not recomputed on this page" in tab.text("#not-recomputed")
    steps = tab.run(
        "[...document.querySelectorAll('#ranking tbody tr')].map(r => +r.cells[1].innerText)"
    )
    size = min(10, len(chosen.feasible_steps))
    assert steps[:size] == chosen.table["step"][:size].tolist()


def test_weights_of_ones_own_are_not_recomputed(
    tab: Browser, cohort: Cohort, tmp_path: Path
) -> None:
    run = next(iter(cohort.runs.values()))
    weights = {domain: 1.0 + i for i, domain in enumerate(run.domains)}
    tab.open(write_report(run, tmp_path / "run.html", rule="ac-nc", weights=weights))
    assert tab.text("#explanation") == cw.select(run, "ac-nc", weights=weights).explain()
    assert "drawn with equal weights" in tab.text("#not-recomputed")


def test_a_page_opens_with_the_weights_of_the_report(
    tab: Browser, cohort: Cohort, tmp_path: Path
) -> None:
    run = next(iter(cohort.runs.values()))
    tab.open(write_report(run, tmp_path / "run.html", rule="ac-nc", weights="sample", q=2))
    assert tab.text("#explanation") == cw.select(run, "ac-nc", weights="sample", q=2).explain()


def test_a_single_run_is_explored_alike(tab: Browser, folder: Path, cohort: Cohort) -> None:
    key = next(iter(cohort.runs))
    tab.console.clear()
    tab.open(write_report(cohort.runs[key], folder / "run.html"))
    tab.set("slider", "3")
    chosen = cw.select(cohort.runs[key], delta_pp="3", guard=False)
    assert tab.text("#choice") == f"Step {chosen.step}"
    assert f"{chosen.guarantee().bound_pp:.2f} points" in tab.text("#sure")
    assert tab.run("document.getElementById('heldout')") is None
    assert tab.console == []


def test_every_checkpoint_of_a_run_is_drawn(page: Browser) -> None:
    drawn = page.run("""(() => {
      const shapes = [...document.querySelectorAll('#figure svg.plot > *')];
      const end = shapes.findIndex((one) => one.textContent.startsWith('Source '));
      const accuracy = shapes.slice(0, end);
      return accuracy.filter((one) => one.matches('circle, .off')).length; })()""")
    assert drawn == 51
    assert "tolerance: 0.5 points" in page.text("#figure")


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
    tab.run("document.getElementById('split').value = 'dataset'")
    tab.run("document.getElementById('split').dispatchEvent(new Event('input'))")
    assert HOSTILE in tab.text("#split-table")
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
