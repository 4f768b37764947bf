"""The rows ``deploy…`` of a comparison are what ``deploy`` writes, evaluated on every part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import checkwise as cw
from checkwise.deployed import load
from checkwise.records import RunKey
from checkwise.study import Cohort
from checkwise.study.baselines import DEPLOYED, OpenRun, folder_of
from checkwise.study.baselines.evaluate import open_data, open_run
from checkwise.study.baselines.recipe import StoredRun
from checkwise.study.folder import open_cohort
from tests.study.cohorts import WrittenRun, write_cohort
from tests.weights.cohorts import copied, derive

WAYS: dict[str, dict[str, Any]] = {
    "deploy": {},
    "deploy-mean-probs": {"average": "probabilities", "members": "all", "delta_pp": 30},
    "deploy-mean-probs-5": {"average": "probabilities", "members": 5, "delta_pp": 30},
}


def deployed_outputs(run: OpenRun, folder: Path, domain: str) -> tuple[Any, Any]:
    """Probabilities of the deployed model on the held-out part, and its labels."""

    class Predicts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.algorithm = run.algorithm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return run.algorithm.predict(x)

    (part,) = [p for p in run.parts if p.role == "heldout" and p.domain == domain]
    x = run.data.inputs.rows(part.index, part.rows)
    deployed = load(folder)
    outputs = []
    for place in deployed.info["members"]:
        from safetensors.torch import load_file

        run.load(load_file(folder / place))
        run.algorithm.eval()
        with torch.no_grad():
            outputs.append(run.algorithm.predict(x).double().softmax(1).numpy())
    mean = np.log(np.mean(outputs, axis=0))
    assert deployed.calibrator is not None
    return deployed.calibrator.probabilities(mean), part.labels


@pytest.mark.parametrize("name", WAYS)
def test_a_row_is_what_deploy_writes(name: str, cohort: Path, tmp_path: Path) -> None:
    cohort = copied(cohort, tmp_path)  # evaluating marks it as opened
    options = {"delta_pp": "30"} if "delta_pp" in WAYS[name] else {}
    records = derive(cohort, name, **options).records
    rows = Cohort.open(cohort).evaluate(name)
    record = open_cohort(cohort)
    data = open_data(record, "RotatedMNIST", {})
    for number, made in enumerate(records):
        folder = record.runs[made.run]
        out = tmp_path / str(number)
        done = cw.deploy(folder, out, **WAYS[name])
        assert list(done.info["steps"]) == made.inputs["steps"]
        p, labels = deployed_outputs(open_run(record, made.run, data), out, "75")
        report = cw.metrics.evaluate(probs=p, labels=labels)
        row = rows.iloc[number]
        assert row["target_nll"] == pytest.approx(report.nll, abs=1e-6)
        assert row["target_accuracy"] == pytest.approx(report.accuracy)
        assert folder_of(cohort, name, made.run).is_dir()
        assert any("ts-soften" in note for note in made.notes)


def stored(tmp_path: Path, correct: list[int], n: int = 200) -> list[StoredRun]:
    run = WrittenRun(
        RunKey("PACS", "ERM", ("sketch",), 0, 0),
        (100, 200, 300),
        correct,
        {"nll": (0.9, 0.5, 0.4), "cwece": (0.5, 0.2, 0.1)},
        (40, 50, 50),
        {},
        n=n,
    )
    cohort = write_cohort(tmp_path / "c", [run])
    return [StoredRun(cohort, run.key, cohort / "runs" / str(run.key))]


@pytest.mark.parametrize(
    ("correct", "steps", "why"),
    [
        ([150, 190, 190], [200, 300], "two are near the best: their average"),
        ([150, 170, 190], [300], "one is near the best: the choice"),
        ([150, 199, 199], [200], "two errors are left: the earliest near the best"),
    ],
)
def test_advised_takes_what_the_run_allows(
    tmp_path: Path, correct: list[int], steps: list[int], why: str
) -> None:
    advised = DEPLOYED["advised"]
    plan = advised.plan(stored(tmp_path, correct), advised.params)
    assert plan.inputs["steps"] == steps, why
