"""Tables from saved logits: risk at equal coverage and cross-fitted selection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import checkwise as cw
from checkwise.study import Cohort, Pool, read_heldout
from checkwise.study.inference import risk_coverage
from checkwise.study.tables import build
from checkwise.study.tables.from_logits import available, crossfitted_steps, part_of
from tests.figures.saved_logits import save_logits
from tests.refusals import refused
from tests.study.cohorts import key, tiny_runs, write_cohort


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    path = write_cohort(tmp_path / "tiny", tiny_runs())
    save_logits(path, (100, 200, 300))
    return Pool([Cohort.open(path)])


def test_risk_is_averaged_over_runs(pool: Pool) -> None:
    table = build("risk-coverage", pool)
    risks = []
    for run in pool.keys:
        step = pool.outcomes("ac-nc")[run].steps[0]
        examples = read_heldout(pool.folder(run), "sketch", step).examples
        risks.append(risk_coverage(examples.confidence, examples.correct).at(0.8))
    found = table.cell("PACS", "ac-nc", measure="risk_80")
    assert found.value == pytest.approx(100 * np.mean(risks))
    assert found.n == 3
    change = table.cell("PACS", "ac-nc − source-acc", measure="risk_area")
    assert change.low <= change.value <= change.high


def test_cross_fitting_gives_two_choices_and_repeats_them(pool: Pool) -> None:
    run = pool.trajectory(key("ERM", 0))
    folder = pool.folder(key("ERM", 0))
    assert available(folder, run)
    first = crossfitted_steps(folder, run)
    assert first == crossfitted_steps(folder, run)
    assert set(first) <= {100, 200, 300}
    table = build("cross-fit", pool)
    found = table.cell("cross-fitted ac-nc − source-acc", measure="target_nll")
    assert found.n == 3


def test_absent_logits_say_how_to_keep_them(pool: Pool) -> None:
    with refused("missing: held-out … 'sketch' … 400"):
        read_heldout(pool.folder(key("ERM", 0)), "sketch", 400)


def test_a_part_of_a_run_keeps_the_examples_of_its_checkpoints() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 20)
    outputs = {step: {"val": (random.normal(size=(20, 3)), labels)} for step in (0, 10, 20)}
    run = cw.Trajectory.from_predictions(outputs)
    assert run.examples is not None
    part = part_of(run, np.array([True, False, True]), ("nll",))
    assert part.steps.tolist() == [0, 20]
    assert part.examples is not None
    assert np.array_equal(part.examples.correct[0], run.examples.correct[0][[0, 2]])
