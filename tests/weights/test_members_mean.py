"""Averages of what is near the best, made from a real cohort and measured against its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import checkwise as cw
from checkwise.store.cohort import open_cohort
from checkwise.weights import read_source
from checkwise.weights.evaluate import OpenRun, open_data, open_run
from checkwise.weights.members_mean import greedy, source_nll
from tests.weights.cohorts import derive

FEW = 3  # minibatches, for speed
WIDE = "30"  # the runs are short: with 1 point hardly any has several members


def opened(cohort: Path) -> list[OpenRun]:
    record = open_cohort(cohort)
    data = open_data(record, "RotatedMNIST", {})
    return [open_run(record, key, data) for key in record.runs]


def checkpoint(run: OpenRun, step: int) -> dict[str, torch.Tensor]:
    return load_file(run.folder / "checkpoints" / f"step-{step:06d}.safetensors")


def mean_source(cohort: Path, method: str, run: OpenRun, metric: str = "nll") -> float:
    domains = read_source(cohort, method, run.key)["domains"].values()
    return float(np.mean([entry[metric] for entry in domains]))


def test_all_or_a_few_members_in_order_of_time(cohort: Path) -> None:
    for name, k in (("mean-probs", None), ("mean-probs-3", 3), ("mean-probs-5", 5)):
        for record in derive(cohort, name, delta_pp=WIDE).records:
            run = cw.load(str(cohort / "runs" / str(record.run)))
            near = cw.select(run, "source-acc")
            expected = cw.selection.members(near, k, delta_pp=WIDE)
            assert record.inputs["steps"] == list(expected)
            assert len(record.inputs["steps"]) > 2


def test_the_tolerance_is_one_point(cohort: Path) -> None:
    for name in ("mean-probs", "mean-probs-greedy"):
        records = derive(cohort, name).records
        assert all(record.params["delta_pp"] == "1" for record in records)


def test_mean_probabilities_are_those_of_the_members(cohort: Path) -> None:
    records = derive(cohort, "mean-probs", delta_pp=WIDE).records
    for run, record in zip(opened(cohort), records, strict=True):
        outputs = [run.outputs(checkpoint(run, step)) for step in record.inputs["steps"]]
        nll = []
        for domain in run.source_parts:
            softmax = [
                torch.tensor(o.of("source")[domain.domain][0]).double().softmax(1) for o in outputs
            ]
            p = torch.stack(softmax).mean(0)[range(len(domain.labels)), domain.labels]
            nll.append(float(-p.log().mean()))
        assert mean_source(cohort, "mean-probs", run) == pytest.approx(np.mean(nll), abs=1e-6)


def test_mean_weights_are_those_of_the_members(cohort: Path) -> None:
    records = derive(cohort, "mean-weights", delta_pp=WIDE, minibatches=FEW).records
    for run, record in zip(opened(cohort), records, strict=True):
        states = [checkpoint(run, step) for step in record.inputs["steps"]]
        mean = load_file(cohort / "derived" / "mean-weights" / str(run.key) / "weights.safetensors")
        for name in run.parameters:
            expected = torch.stack([state[name].double() for state in states]).mean(0)
            assert torch.allclose(mean[name].double(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["probs", "weights"])
def test_a_greedy_mean_is_no_worse_than_its_first_member(cohort: Path, kind: str) -> None:
    method = f"mean-{kind}-greedy"
    few = {"minibatches": FEW} if kind == "weights" else {}
    records = derive(cohort, method, delta_pp=WIDE, **few).records
    for run, record in zip(opened(cohort), records, strict=True):
        trajectory = cw.load(str(run.folder))
        nll = dict(
            zip(trajectory.steps.tolist(), trajectory.values["nll"].mean(axis=1), strict=True)
        )
        offered = record.inputs["offered"]
        assert [nll[step] for step in offered] == sorted(nll[step] for step in offered)
        (taken,) = (note for note in record.notes if note.startswith("taken: "))
        steps = [int(step) for step in taken.removeprefix("taken: ").split(", ")]
        assert offered[0] in steps
        assert set(steps) <= set(offered)
        if kind == "probs":
            assert mean_source(cohort, method, run) <= nll[offered[0]] + 1e-6


def test_greedy_adds_only_what_makes_the_nll_of_the_mean_fall() -> None:
    values = {"a": 1.0, "b": -1.0, "c": 5.0, "d": 0.0}
    asked: list[tuple[str, ...]] = []

    def nll(items: Sequence[str]) -> float:
        taken = tuple(items)
        asked.append(taken)
        return abs(sum(values[item] for item in taken)) / len(taken)

    assert greedy(["a", "b", "c", "d"], nll) == ["a", "b"]  # a tie is not a fall
    assert asked == [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d")]


def test_source_nll_is_an_equal_mean_over_domains() -> None:
    one = (np.array([[0.0, 0.0]]), np.array([0]))
    two = (np.array([[np.log(3), 0.0]] * 3), np.array([0, 0, 0]))
    assert source_nll({"one": one, "two": two}) == pytest.approx(
        (np.log(2) + np.log(4 / 3)) / 2, abs=1e-12
    )
