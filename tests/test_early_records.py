"""What the first versions wrote still opens, verifies and gives the answers that they gave."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.store.unpack import unpack
from checkwise.store.verify import verify
from tests.weights.cohorts import answer

ROOT = Path(__file__).parents[1]
EARLY = ROOT / "tests" / "material" / "early"
SELECTED = json.loads((EARLY / "select.json").read_text())
COMPARED = json.loads((EARLY / "compare.json").read_text())
ALONE = next(one for one in SELECTED["runs"] if one["run"]["held_out"] == ["75"])["selection"]


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    unpack(EARLY / "early.tar.xz", tmp_path / "early")
    return tmp_path / "early"


def kept(then: Any, now: Any, *, but: tuple[str, ...] = ()) -> None:
    """Every key is still there with the value that it had; further keys may have come."""
    if isinstance(then, dict):
        assert set(then) - set(but) <= set(now)
        for name in set(then) - set(but):
            kept(then[name], now[name], but=but)
    elif isinstance(then, list):
        assert len(then) == len(now)
        for one, other in zip(then, now, strict=True):
            kept(one, other, but=but)
    elif isinstance(then, float):
        assert now == pytest.approx(then, rel=1e-12, abs=1e-12)
    else:
        assert now == then


def test_a_packed_cohort_verifies_and_its_choices_are_the_same(
    cohort: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(cohort) == []
    now = answer(["select", str(cohort), "--json"], capsys)
    kept(SELECTED, now)
    assert [one["selection"]["step"] for one in now["runs"]] == [320, 220]


def test_its_comparison_on_held_out_domains_is_the_same(
    cohort: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # How long choosing took, and when which copy was opened, is of the day.
    kept(
        COMPARED, answer(["compare", str(cohort), "--json"], capsys), but=("seconds", "registered")
    )
    assert COMPARED["contrasts"][1]["mean"] != 0


def test_a_runs_folder_by_itself_opens(tmp_path: Path) -> None:
    shutil.copytree(EARLY / "run", tmp_path / "run")
    chosen = cw.select(cw.load(tmp_path / "run"), "ac-nc", delta_pp=0.5)
    kept(ALONE, json.loads(chosen.to_json()))


def test_a_live_selection_is_rebuilt_from_its_journal(tmp_path: Path) -> None:
    shutil.copy(EARLY / "live.jsonl", tmp_path / "checkwise.jsonl")
    with cw.LiveSelector("ac-nc", delta_pp=0.5, journal=tmp_path / "checkwise.jsonl") as live:
        assert live.choice == ALONE["step"]
        assert list(live.keep) == ALONE["feasible_steps"]


def test_a_journal_of_a_live_selection_is_chosen_from_as_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Path(shutil.copy(EARLY / "live.jsonl", tmp_path / "checkwise.jsonl"))
    now = answer(["select", str(tmp_path), "--json"], capsys)
    assert (now["step"], now["rule"]) == (ALONE["step"], ALONE["rule"])
    kept(ALONE["params"], now["params"])
    with cw.LiveSelector.from_journal(journal) as live:
        assert live.choice == ALONE["step"]


def test_the_packed_runs_of_the_first_study_give_the_choices_of_its_day(tmp_path: Path) -> None:
    unpack(ROOT / "docs" / "study" / "data" / "pacs-frozen.tar.xz", tmp_path / "pacs")
    chosen = {
        str(k): s for k, s in cw.select_many(cw.load_runs(tmp_path / "pacs"), "ac-nc").items()
    }
    with (EARLY / "pacs-frozen.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(chosen) == 180
    for row in rows:
        now = chosen[row["run"]]
        assert now.step == int(row["step"])
        assert len(now.feasible_steps) == int(row["feasible"])
        assert now.score == pytest.approx(float(row["score"]), abs=1e-12)
        assert now.gap_pp == pytest.approx(float(row["gap_pp"]), abs=1e-9)
