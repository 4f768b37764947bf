"""Averages made of saved logits are those that the networks give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkwise.study.baselines import OpenRuns, read_source
from checkwise.study.folder import open_cohort
from tests.docs.test_pages import builder
from tests.weights.cohorts import STUDY, copied, derive, train_cohort


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = STUDY.replace('keep = "all"', 'keep = "all"\nlogits = "all"')
    return train_cohort(tmp_path_factory.mktemp("saved"), study)


def test_saved_outputs_are_what_the_network_gives(cohort: Path) -> None:
    record = open_cohort(cohort)
    run = OpenRuns()(record, next(iter(record.runs)))
    saved, computed = builder("saved_outputs").saved(run, 26), run.checkpoint_outputs(26)
    assert saved.parts is run.parts
    for found, expected in zip(saved.logits, computed.logits, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_average_of_saved_outputs_needs_no_evaluation(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, read = copied(cohort, tmp_path / "computed"), copied(cohort, tmp_path / "read")
    derive(computed, "mean-probs", delta_pp="10")
    opening = builder("saved_outputs").opening(read, {})
    monkeypatch.setattr("checkwise.study.train.evaluation.Evaluator.__call__", None)
    derive(read, "mean-probs", delta_pp="10", opening=opening)
    for key in open_cohort(cohort).runs:
        assert read_source(read, "mean-probs", key) == read_source(computed, "mean-probs", key)
