"""The effect against learning rate and training length, worked out by hand and the long way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkwise.records import Trajectory
from checkwise.selection import select
from checkwise.study import Cohort, Pool
from checkwise.study.tables import build
from checkwise.study.tables.training import PERCENTS
from tests.refusals import refused
from tests.study.cohorts import WrittenRun, demo_like, key, tiny_runs, trained_with, write_cohort


def test_learning_rates_ascend_and_each_has_its_runs(tmp_path: Path) -> None:
    runs = trained_with(0.001, 9.242e-05, 0.00100001)
    table = build("learning-rate", Cohort.open(write_cohort(tmp_path / "tiny", runs)))
    assert list(dict.fromkeys(cell.row for cell in table.cells)) == [
        ("PACS", "9.24e-05"),
        ("PACS", "0.001"),
    ]
    # At 0.001 ac-nc takes step 200 instead of 100 in one run and the same step in the other.
    value = {c.measure: c.value for c in table.cells if c.row == ("PACS", "0.001")}
    assert value["target_accuracy"] == pytest.approx((2 + 0) / 2)
    assert value["target_nll"] == pytest.approx((-0.3 + 0) / 2)
    assert value["target_nll_median"] == pytest.approx(-0.15)
    assert value["target_cwece"] == pytest.approx((-1 + 0) / 2)
    assert value["gap_pp"] == pytest.approx((0.5 + 0) / 2)
    assert value["eligible"] == 1.5
    assert (value["step_source_acc"], value["step_ac_nc"]) == (100, 150)
    change = table.cell("PACS", "0.001", measure="target_accuracy_over_runs")
    assert change.n == 2
    assert [change.low, change.high] == pytest.approx([0, 2])
    alone = table.cell("PACS", "9.24e-05", measure="target_accuracy")
    assert alone.n == 1
    assert alone.value == pytest.approx(-1)
    assert np.isnan(alone.low)


def test_rates_that_every_run_drew_for_itself_are_shown_in_thirds(tmp_path: Path) -> None:
    first = tiny_runs()[0]
    rates = [0.001 * (1 + trial * 5 % 13) for trial in range(13)]  # 13 rates, in no order
    runs = [
        replace(first, key=key("ERM", trial), extra={"hparams": {"lr": rate}})
        for trial, rate in enumerate(rates)
    ]
    table = build("learning-rate", Cohort.open(write_cohort(tmp_path / "drawn", runs)))
    shown = {cell.row: cell.n for cell in table.cells}
    assert shown == {
        ("PACS", "0.001 to 0.005"): 5,
        ("PACS", "0.006 to 0.009"): 4,
        ("PACS", "0.01 to 0.013"): 4,
    }


@pytest.mark.parametrize("rate", ["fast", None, True])
def test_a_rate_that_is_no_number_is_refused(tmp_path: Path, rate: object) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "tiny", trained_with(0.001, rate, 0.001)))
    with refused("missing: lr … ERM … run.json"):
        build("learning-rate", cohort)


def test_runs_without_a_configuration_have_no_learning_rate(tmp_path: Path) -> None:
    cohort = Cohort.open(write_cohort(tmp_path / "tiny", tiny_runs()))
    with refused("missing: None"):
        build("learning-rate", cohort)


STEPS = tuple(range(100, 1001, 100))


def long_run(trial: int, **changes: Any) -> WrittenRun:
    """Ten checkpoints of which the best so far is at 100, 200, 300, 600 and 900."""
    return replace(
        WrittenRun(
            key("ERM", trial),
            STEPS,
            (160, 170, 180, 179, 179, 181, 180, 170, 182, 175),
            {
                "nll": (0.9, 0.8, 0.6, 0.5, 0.45, 0.44, 0.43, 0.6, 0.5, 0.5),
                "cwece": (0.03, 0.03, 0.03, 0.02, 0.015, 0.03, 0.02, 0.03, 0.05, 0.05),
            },
            (40, 45, 50, 52, 53, 55, 54, 50, 60, 50),
            {"nll": (2.0, 1.8, 1.6, 1.5, 1.4, 1.45, 1.3, 1.5, 2.0, 1.5)},
        ),
        **changes,
    )


def test_shorter_runs_are_chosen_from_by_hand(tmp_path: Path) -> None:
    table = build("length", Cohort.open(write_cohort(tmp_path / "long", [long_run(0)])))
    found = {
        until: tuple(
            table.value("PACS", until, measure=measure)
            for measure in ("step_source_acc", "step_ac_nc", "eligible")
        )
        for until in dict.fromkeys(cell.row[1] for cell in table.cells)
    }
    assert found == {
        "100": (100, 100, 1),
        "200": (200, 200, 1),
        "400": (300, 400, 2),  # 90.0 and 89.5 points
        "600": (600, 600, 2),  # 89.5 is out: the best is 90.5 by now
        "1000": (900, 600, 2),  # 91.0 and 90.5 points
    }
    changed = {
        until: (
            table.value("PACS", until, measure="target_accuracy"),
            table.value("PACS", until, measure="target_nll"),
            table.value("PACS", until, measure="gap_pp"),
        )
        for until in found
    }
    assert changed["400"] == pytest.approx((2, -0.1, 0.5))
    assert changed["600"] == pytest.approx((0, 0, 0))
    assert changed["1000"] == pytest.approx((-5, -0.55, 0.5))


def test_a_run_without_a_usable_checkpoint_yet_is_left_out(tmp_path: Path) -> None:
    runs = [long_run(0), long_run(1, diverged=(100,))]
    table = build("length", Cohort.open(write_cohort(tmp_path / "long", runs)))
    sizes = {c.row[1]: c.n for c in table.cells if c.measure == "target_nll"}
    assert sizes == {"100": 1, "200": 2, "400": 2, "600": 2, "1000": 2}


def test_runs_of_unlike_length_are_cut_at_the_same_share(tmp_path: Path) -> None:
    runs = [long_run(0), long_run(1, steps=tuple(10 * step for step in STEPS))]
    table = build("length", Cohort.open(write_cohort(tmp_path / "long", runs)))
    assert list(dict.fromkeys(c.row[1] for c in table.cells)) == [
        "10%",
        "20%",
        "40%",
        "60%",
        "100%",
    ]
    assert table.value("PACS", "40%", measure="step_ac_nc") == (400 + 4000) / 2
    assert table.value("PACS", "40%", measure="target_accuracy") == pytest.approx(2)


def test_a_horizon_before_the_first_checkpoint_has_no_row(tmp_path: Path) -> None:
    short = replace(tiny_runs()[0], steps=(1, 2, 3))
    table = build("length", Cohort.open(write_cohort(tmp_path / "short", [short])))
    assert list(dict.fromkeys(c.row[1] for c in table.cells)) == ["40%", "60%", "100%"]
    assert table.value("PACS", "60%", measure="step_ac_nc") == 1
    assert table.value("PACS", "100%", measure="step_ac_nc") == 2


def test_selecting_in_journals_cut_short_gives_the_same(tmp_path: Path) -> None:
    path = demo_like(tmp_path / "demo", runs_per_algorithm=2)
    pool = Pool([Cohort.open(path)])
    table = build("length", pool)
    for percent in PERCENTS:
        until = percent * 10  # of 1,000 steps
        changes = [_from_files(pool, run, until) for run in pool.keys]
        for k, measure in enumerate(("target_accuracy", "target_nll")):
            found = table.cell("RotatedMNIST", str(until), measure=measure)
            assert found.value == pytest.approx(np.mean(changes, axis=0)[k], abs=1e-12)
            assert found.n == 10
    steps = {table.value("RotatedMNIST", str(10 * p), measure="step_ac_nc") for p in PERCENTS}
    assert len(steps) == len(PERCENTS)


def _from_files(pool: Pool, run: Any, until: int) -> tuple[float, float]:
    """Δ target accuracy (points) and Δ NLL of one run, from its files."""
    folder = pool.folder(run)
    lines = [json.loads(line) for line in (folder / "source.jsonl").read_text().splitlines()]
    rows = [
        {"step": line["step"], "domain": domain, **values}
        for line in lines
        if line["step"] <= until
        for domain, values in line["domains"].items()
    ]
    short = Trajectory.from_frame({name: [row[name] for row in rows] for name in rows[0]})
    (domain,) = run.held_out
    text = (folder / "heldout" / f"{domain}.jsonl").read_text()
    target = {entry["step"]: entry for entry in map(json.loads, text.splitlines())}
    mine, theirs = (target[select(short, rule).step] for rule in ("ac-nc", "source-acc"))
    return 100 * (mine["accuracy"] - theirs["accuracy"]), mine["nll"] - theirs["nll"]
