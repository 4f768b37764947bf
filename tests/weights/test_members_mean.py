"""Averages of what is near the best, made from a real cohort and measured against its parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import checkwise as cw
from checkwise.selection import members
from checkwise.study.baselines import OpenRun, read_source
from checkwise.study.baselines.evaluate import open_data, open_run
from checkwise.study.folder import open_cohort
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
            expected = members(near, k, delta_pp=WIDE)
            assert record.inputs["steps"] == list(expected)
            assert len(record.inputs["steps"]) > 2


def test_the_tolerance_is_one_point(cohort: Path) -> None:
    records = derive(cohort, "mean-probs").records
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
