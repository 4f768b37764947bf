"""The page of a run says how sure the choice is, with a bar per checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import checkwise as cw
from checkwise.page.one_run import shares_shown
from checkwise.study.report import write_report
from tests.selection.example_runs import outputs

ROWS = [("2", "5.0%", "50.0%"), ("1", "75.0%", "0.0%"), ("2", "95.0%", "100.0%")]


def selection() -> cw.Selection:
    made = outputs(0, steps=8, sizes=(40, 40), gain=0.3)
    return cw.select(cw.Trajectory.from_predictions(made))


def test_the_bars_are_the_shares(tmp_path: Path) -> None:
    chosen = selection()
    shown = shares_shown(chosen.sureness.stability)
    page = write_report(chosen, tmp_path / "page.html").read_text()
    assert "Would other validation examples change the choice?" in page
    assert chosen.sureness.advice in page
    for step, share in shown.items():
        assert f'<th scope="row">step {step}</th>' in page
        width = f"{400 * share:.2f}".rstrip("0").rstrip(".")
        assert f'width="{width}"' in page
    assert page.count('class="reported"') == 1
    assert chosen.step in shown
    assert sum(shown.values()) >= 0.9


def test_a_run_of_metrics_alone_says_nothing_about_it(tmp_path: Path) -> None:
    without = replace(selection().trajectory, examples=None)
    assert "Would other validation" not in write_report(without, tmp_path / "page.html").read_text()


def test_a_tolerance_from_the_examples_is_not_computed_anew_on_the_page(tmp_path: Path) -> None:
    chosen = cw.select(selection().trajectory, tolerance="paired")
    page = write_report(chosen, tmp_path / "page.html").read_text()
    assert "not shown to be worse than the best by more than" in page
    assert '"tolerance":false' in page


def test_of_two_classes_the_page_has_the_calibration_of_class_1(tmp_path: Path) -> None:
    assert 'id="class-1"' not in write_report(selection(), tmp_path / "page.html").read_text()
    p, y = np.array([0.05, 0.05, 0.95, 0.95, 0.75]), np.array([0, 1, 1, 1, 0])
    run = cw.Trajectory.from_predictions({1: {"val": (np.log(p / (1 - p)), y)}})
    page = write_report(cw.select(run), tmp_path / "page.html").read_text()
    cells = ["".join(f'<td class="num">{c}</td>' for c in row) for row in ROWS]
    assert all(row in page for row in cells)
