"""Callbacks under a tolerance that compares examples: real trainings, the choice of `select`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.integrations.validation import ValidationSums, merged
from checkwise.metrics import Accumulator
from tests.requirements import available

available("lightning", "transformers", "accelerate")

from checkwise.integrations.lightning import ReliabilityCheckpoint
from checkwise.integrations.transformers import ReliabilityCallback
from tests.integrations.lightning_models import fit
from tests.integrations.transformers_runs import arguments, outputs_of, script, scripted_trainer
from tests.refusals import refused


def test_lightning_chooses_as_select_does(tmp_path: Path) -> None:
    choosing: Any = ReliabilityCheckpoint(
        "ac-nc", domains=["a", "b"], dirpath=tmp_path, tolerance="paired"
    )
    _, module = fit(tmp_path, choosing, max_epochs=4)
    run: Any = cw.Trajectory.from_predictions(module.predictions())
    offline = cw.select(run, "ac-nc", tolerance="paired")
    assert choosing.selection.step == offline.step
    assert choosing.selection.feasible_steps == offline.feasible_steps
    assert choosing.selection.trajectory.examples.digest == run.examples.digest
    assert cw.select(cw.load(tmp_path)).step == offline.step


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_transformers_chooses_as_select_does(tmp_path: Path, streamed: bool) -> None:
    table, labels = script([0.1, 0.3, 0.6, 0.8, 0.78, 0.81, 0.7])
    sets = {"art": slice(0, 17), "photo": slice(17, 41)}
    callback = ReliabilityCallback("ac-nc", tolerance="paired", alpha=0.2)
    args = arguments(tmp_path, steps=12, batch_eval_metrics=streamed)
    scripted_trainer(args, table, labels, callback, sets=sets).train()
    run: Any = cw.Trajectory.from_predictions(outputs_of(table, labels, sets=sets))
    offline = cw.select(run, "ac-nc", tolerance="paired", alpha=0.2)
    chosen: Any = callback.selection
    assert callback.choice == offline.step
    assert chosen.feasible_steps == offline.feasible_steps
    assert chosen.trajectory.examples.digest == run.examples.digest


def outputs(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 3, n)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_examples_of_several_processes_are_in_the_order_of_their_set(processes: int) -> None:
    z, y = outputs(23)
    parts = []
    for rank in range(processes):
        rows = np.arange(rank, 23, processes)
        part = ValidationSums("val", own_rows=len(rows), examples=True)
        padded = rows if len(rows) == -(-23 // processes) else [*rows, rank]
        for start in range(0, len(padded), 4):
            batch = padded[start : start + 4]
            part.update(z[batch], y[batch])
        parts.append(part)
    report: Any = merged(parts).entry()
    assert np.array_equal(report.examples.correct, z.argmax(1) == y)
    assert np.array_equal(report.examples.labels, y)


def test_an_accumulator_keeps_examples_where_it_is_asked_to() -> None:
    z, y = outputs(10)
    kept, usual = Accumulator(classes=3, examples=True), Accumulator(classes=3)
    for part in (slice(0, 3), slice(3, 10)):
        kept.update(logits=z[part], labels=y[part])
        usual.update(logits=z[part], labels=y[part])
    with refused("value: 0 … 2"):
        kept.update(logits=z[:2], labels=[0, 3])
    report = kept.result()
    assert report == usual.result()
    assert report.examples is not None
    assert np.array_equal(report.examples.correct, z.argmax(1) == y)
    assert usual.result().examples is None
    both = Accumulator(classes=3, examples=True)
    both.merge(kept)
    assert np.array_equal(both.examples.labels, y)


def test_reports_with_examples_serve_as_outputs() -> None:
    made = {step: outputs(40, seed) for step, seed in ((1, 0), (2, 1), (3, 2))}
    labels = made[1][1]
    by_outputs, by_reports = (cw.LiveSelector("ac-nc", tolerance="paired") for _ in range(2))
    for step, (z, _) in made.items():
        kept = Accumulator(classes=3, examples=True)
        kept.update(logits=z, labels=labels)
        by_outputs.add(step, {"val": (z, labels)})
        by_reports.add(step, {"val": kept.result()})
    assert by_reports.choice == by_outputs.choice
    assert by_reports.selection is not None
    assert by_outputs.selection is not None
    assert by_reports.selection.digest == by_outputs.selection.digest
    usual = Accumulator(classes=3)
    usual.update(logits=made[1][0], labels=labels)
    with refused("missing"):
        by_reports.add(4, {"val": usual.result()})
