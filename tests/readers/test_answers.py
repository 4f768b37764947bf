"""An accuracy that no number of correct predictions gives is used, with a warning."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise import CheckwiseWarning, Trajectory
from checkwise.cli import main
from checkwise.readers import load, load_runs
from checkwise.readers.counts import impossible


def run_of(accuracy: float, n: int) -> Trajectory:
    return Trajectory(steps=[1], domains=["val"], values={"accuracy": [[accuracy]]}, counts=[n])


def test_the_warning_names_file_step_value_n_and_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(
        "step,domain,accuracy,n\n1,art,0.5,6\n1,photo,0.5,4\n2,art,0.85,6\n2,photo,0.35,4\n"
    )
    with pytest.warns(CheckwiseWarning) as caught:
        run = load(path)
    assert run.values["accuracy"].tolist() == [[0.5, 0.5], [0.85, 0.35]]
    (warning,) = caught
    assert str(warning.message).startswith(
        "Expected a whole number of correct predictions, but accuracy = 0.85 with n = 6 at step 2, "
        f"domain 'art' in {path} gives none (nearest: 5 of 6 = 0.833333) and 1 more: check both "
    )
    assert warning.filename == __file__


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        record = {"step": 1, "accuracy": 0.85, "n": 6}
        (tmp_path / name / "results.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(SystemExit) as stop:
        main(["select", str(tmp_path), "--rule", "source-acc", "--json"])
    assert stop.value.code == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["runs"]) == 2
    assert said.err.startswith("checkwise: warning: Expected a whole number of correct predictions")
    assert "and 1 more" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("accuracy", "n"),
    [(0.85, 6), (0.5, 3), (0.895, 10), (0.899, 10), (1 / 3, 10), (0.123456789, 1000)],
)
def test_what_cannot_be(accuracy: float, n: int) -> None:
    assert impossible(run_of(accuracy, n)) == [(0, 0)]


ROUNDINGS: list[Any] = [
    float,
    lambda x: float(np.float32(x)),
    lambda x: float(np.float16(x)),
    lambda x: float(
        (np.array([x], np.float32).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)[0]
    ),
    *(lambda x, d=d: round(x, d) for d in (2, 3, 4, 6)),
    *(lambda x, d=d: round(100 * x, d) / 100 for d in (0, 1, 2)),
    lambda x: float(f"{x:.3g}"),
]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 30_000), st.integers(0, 30_000), st.sampled_from(ROUNDINGS))
def test_whole_numbers_stay_possible_however_they_were_rounded(
    n: int, right: int, rounded: Any
) -> None:
    assert impossible(run_of(rounded(min(right, n) / n), n)) == []


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 500), st.integers(0, 10**6))
def test_six_digits_are_judged_as_fractions_would(n: int, millionths: int) -> None:
    """The literal version: some k/n lies within half of the last printed digit.

    A thousandth of an answer is taken for rounding in any case.
    """
    if millionths % 10 == 0:
        return  # fewer digits are printed
    away = min(abs(Fraction(millionths, 10**6) - Fraction(k, n)) for k in range(n + 1))
    near = away <= Fraction(1, 2 * 10**6) or n * away <= Fraction(1, 1000) + Fraction(n, 10**7)
    assert impossible(run_of(millionths / 10**6, n)) == ([] if near else [(0, 0)])


def test_nothing_is_said_of_runs_without_counts_or_with_their_answers(tmp_path: Path) -> None:
    rows = {"bare.csv": "step,accuracy\n1,0.85\n", "right.csv": "step,accuracy,n\n1,0.8333,6\n",
            "both.csv": "step,accuracy,n,correct\n1,0.8333,6,5\n"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, text in rows.items():
            (tmp_path / name).write_text(text)
            assert len(load_runs(tmp_path / name)) == 1


def test_diverged_checkpoints_are_not_judged() -> None:
    run = Trajectory(
        steps=[1, 2],
        domains=["val"],
        values={"accuracy": [[0.85], [0.5]]},
        counts=[6],
        diverged=[True, False],
    )
    assert impossible(run) == []


def test_a_run_without_accuracy_has_no_count_to_check() -> None:
    run = Trajectory(steps=[1, 2], domains=["val"], values={"nll": [[0.5], [0.4]]}, counts=[500])
    assert impossible(run) == []
