"""Parts of runs that know what every validation example said."""

from __future__ import annotations

import numpy as np

import checkwise as cw
from checkwise.study.tables.from_logits import part_of


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
