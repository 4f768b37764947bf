"""Logs of real runs by other people's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.readers import load_runs
from tests.requirements import SHARED, requires

LOGS = SHARED / "domainbed-logs"


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@requires("shared")
def test_twelve_domainbed_logs_are_read() -> None:
    runs = load_runs(LOGS / "domainbed")
    assert len(runs) == 12
    for key, run in runs.items():
        assert (key.dataset, key.algorithm) == ("TerraIncognita", "HGP")
        assert len(run) == 18
        assert run.domains == tuple(f"env{i}" for i in range(4) if (f"env{i}",) != key.held_out)
        assert run.metrics == ("accuracy",)
        assert any("`done`" in note for note in run.notes)


@requires("shared")
def test_a_domainbed_log_selects_as_its_records_say() -> None:
    for folder in sorted((LOGS / "domainbed").iterdir()):
        records = _records(folder / "results.jsonl")
        (target,) = records[0]["args"]["test_envs"]
        means = {
            record["step"]: np.mean([record[f"env{i}_out_acc"] for i in range(4) if i != target])
            for record in records
        }
        best = min(means, key=lambda step: (-means[step], step))
        assert cw.select(cw.load(folder), "source-acc").step == best


@requires("shared")
def test_what_a_domainbed_log_cannot_answer_is_said() -> None:
    run = cw.load(next((LOGS / "domainbed").iterdir()))
    with pytest.raises(cw.MissingMetricError):
        cw.select(run, "ac-nc")


@requires("shared")
def test_three_swad_logs_hold_nine_runs() -> None:
    runs = load_runs(LOGS / "swad")
    assert {(key.algorithm, key.held_out) for key in runs} == {
        (algorithm, (f"env{target}",))
        for algorithm in ("ERM", "Fish", "Mixup")
        for target in range(3)
    }
    for run in runs.values():
        assert run.steps.tolist() == list(range(0, 5001, 100))
        assert len(run.domains) == 2
        assert run.metrics == ("accuracy", "nll")


@requires("shared")
def test_swad_accuracies_agree_with_the_means_it_logged() -> None:
    for path in sorted((LOGS / "swad").glob("*/results.jsonl")):
        records = _records(path)
        runs = list(load_runs(path).values())
        logged = np.array([record["train_out"] for record in records]).reshape(3, 51)
        losses = np.array([record["tr_outloss"] for record in records]).reshape(3, 51)
        for run, mean, loss in zip(runs, logged, losses, strict=True):
            np.testing.assert_allclose(run.values["accuracy"].mean(axis=1), mean, rtol=1e-12)
            np.testing.assert_array_equal(run.pooled["nll"], loss)
            assert cw.select(run, "ac-nll").step in run.steps
