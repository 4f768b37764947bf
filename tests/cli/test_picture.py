"""The plot of a run in the terminal."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from checkwise.cli.picture import DRAWN, PLAIN, ROWS, picture
from tests.cli.calls import heard, refusal, run, said


def chosen(accuracies: list[float], nll: list[float] | None = None, **params: Any) -> cw.Selection:
    steps = range(0, 100 * len(accuracies), 100)
    losses = nll or [1.0] * len(accuracies)
    frame = pandas.DataFrame({"step": steps, "accuracy": accuracies, "nll": losses})
    return cw.select(cw.Trajectory.from_frame(frame), "ac-nll", **params)


def test_a_run_drawn_by_hand() -> None:
    # 4 points are shown, the tolerance is 1 point: a row is half a point.
    selection = chosen([0.50, 0.86, 0.88, 0.895, 0.90], [9, 3, 2, 1, 2], delta_pp=1)
    assert picture(selection, 30, encoding="ascii").splitlines() == [
        "accuracy",
        "  90.00 |                    A",
        "        |               X",
        "  89.00 |---------------------",
        "        |",
        "        |          .",
        "        |",
        "        |",
        "        |",
        "  86.00 |v    .",
        "        +---------------------",
        "         step 0            400",
        "         X chosen  A best accuracy  - end of the tolerance  . outside  v far below",
    ]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=60),
    st.integers(0, 120),
    st.sampled_from(["utf-8", "ascii", "latin-1"]),
)
def test_every_run_fits_and_shows_its_choice_once(
    thousandths: list[int], width: int, encoding: str
) -> None:
    selection = chosen([each / 1000 for each in thousandths])
    lines = picture(selection, width, encoding=encoding).splitlines()
    if len(thousandths) < 3 or width < 29 or len(set(thousandths)) == 1:
        assert not lines
        return
    plot = lines[1 : ROWS + 1]
    assert max(map(len, plot)) <= min(width, 64)
    marks = DRAWN if encoding == "utf-8" else PLAIN
    assert "".join(plot).count(marks.chosen) == 1
    "\n".join(lines).encode(encoding)


def test_a_score_that_is_better_when_lower_has_its_best_on_top() -> None:
    columns = {
        "step": [1, 2, 3, 4],
        "accuracy": [0.5] * 4,
        "nll": [3.0, 1.0, 2.0, 4.0],
        "ece": [0.1] * 4,
    }
    run_ = cw.Trajectory.from_frame(pandas.DataFrame(columns))
    selection = cw.select(run_, "ac", objectives=["ece"], constraint="nll", delta=0.1)
    lines = picture(selection, 40).splitlines()
    assert lines[0] == "nll"
    assert DRAWN.chosen in lines[1]
    assert lines[1].strip().startswith("1 ")


def test_a_diverged_checkpoint_is_left_out() -> None:
    columns = {
        "step": [1, 2, 3, 4],
        "accuracy": [0.5, 0.6, np.nan, 0.61],
        "nll": [2.0, 1.0, np.nan, 1.0],
        "diverged": [False, False, True, False],
    }
    run_ = cw.Trajectory.from_frame(pandas.DataFrame(columns))
    plot = picture(cw.select(run_, "ac-nll"), 60).splitlines()[1 : ROWS + 1]
    assert sum(character in "●▲○·↓" for line in plot for character in line) == 3


def test_the_plot_is_drawn_on_demand_in_a_pipe(tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    table.write_text("step,accuracy,nll\n1,0.5,2\n2,0.7,1\n3,0.71,1.1\n")
    assert DRAWN.chosen not in said("select", table)
    assert DRAWN.chosen in said("select", table, "-v")


def test_open_writes_the_page_of_one_run_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def show(url: str) -> bool:
        seen.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    table = tmp_path / "run.csv"
    table.write_text("step,accuracy,nll\n1,0.5,2\n2,0.7,1\n3,0.71,1.1\n")
    assert run("select", table, "--open") == 0
    (url,) = seen
    page = Path(url.removeprefix("file://"))
    assert "<html" in page.read_text()
    assert str(page) in heard().err
    both = Path(__file__).parents[1] / "material" / "trainers" / "lightning" / "resumed" / "files"
    assert "--open" in refusal("select", both, "--open")


def test_a_run_without_accuracy_is_drawn_without_a_band() -> None:
    run = cw.Trajectory(steps=[1, 2, 3], domains=["val"], values={"nll": [[0.5], [0.4], [0.41]]})
    drawn = picture(cw.select(run), 60, encoding="ascii")
    assert drawn.count("X chosen") == 1
    assert "within it" not in drawn
