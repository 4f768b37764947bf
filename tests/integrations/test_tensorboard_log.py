"""A selection in TensorBoard, read back by TensorBoard itself and by `select`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.integrations.tensorboard import TensorBoardLog
from tests.integrations.selections import STEPS, selection
from tests.refusals import refused
from tests.requirements import package

accumulator = package("tensorboard.backend.event_processing.event_accumulator")


def shown_by_tensorboard(folder: Path) -> Any:
    events = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    return events


def test_tensorboard_shows_metrics_per_domain_the_text_and_the_marker(tmp_path: Path) -> None:
    chosen = selection()
    TensorBoardLog(tmp_path / "tb").log(chosen)
    events = shown_by_tensorboard(tmp_path / "tb")
    for column, domain in enumerate(("a", "b")):
        for metric in ("accuracy", "nll", "cwece"):
            points = events.Scalars(f"checkwise/{domain}/{metric}")
            assert [point.step for point in points] == list(STEPS)
            expected = chosen.trajectory.values[metric][:, column]
            np.testing.assert_allclose([p.value for p in points], expected, rtol=1e-6)
    marked = {point.step: point.value for point in events.Scalars("checkwise/chosen")}
    assert [step for step, value in marked.items() if value == 1] == [chosen.step]
    (text,) = events.Tensors("checkwise/selection")
    assert text.step == chosen.step
    words = text.tensor_proto.string_val[0].decode()
    assert words.startswith(chosen.explain())
    assert f"| 1 | {chosen.step} |" in words


def test_select_reads_the_same_choice_from_it(tmp_path: Path) -> None:
    chosen = selection()
    TensorBoardLog(tmp_path).log(chosen)
    run = cw.load(tmp_path)
    assert run.counts is not None
    assert run.counts.tolist() == [50, 70]
    again = cw.select(run, "ac-nc", delta_pp=2)
    assert (again.step, again.feasible_steps) == (chosen.step, chosen.feasible_steps)
    assert again.accuracy == chosen.accuracy  # exact, although TensorBoard keeps single precision
    assert run.domains == ("a", "b")


def test_logging_again_replaces_only_what_was_logged_here(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path)
    other = tmp_path / "events.out.tfevents.1.somebody"
    other.write_bytes(b"")
    first = log.log(selection())
    second = log.log(selection(diverging=200))
    assert {path.name for path in tmp_path.iterdir()} == {other.name, second.name}
    assert first.name < second.name  # TensorBoard reads files in the order of their names
    events = shown_by_tensorboard(tmp_path)
    assert 200 not in [point.step for point in events.Scalars("checkwise/a/nll")]
    assert [p.value for p in events.Scalars("checkwise/chosen") if p.step == 200] == [0]


def test_every_metric_is_logged_on_request(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path)
    log.log(selection())
    main = {f"checkwise/{d}/{m}" for d in "ab" for m in ("accuracy", "nll", "cwece", "n")}
    assert set(shown_by_tensorboard(tmp_path).Tags()["scalars"]) == {*main, "checkwise/chosen"}
    log.log(selection(), "all")
    tags = set(shown_by_tensorboard(tmp_path).Tags()["scalars"])
    assert tags > {*main, "checkwise/chosen", "checkwise/feasible", "checkwise/a/hard_ece"}


@pytest.mark.parametrize("folder", [3, None, "s3://bucket/logs"])
def test_a_wrong_folder_is_refused_when_the_tracker_is_made(folder: Any) -> None:
    with refused("value"):
        TensorBoardLog(folder)


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("exists"):
        TensorBoardLog(tmp_path / "file")
    with refused("system"):
        TensorBoardLog(tmp_path / "file" / "below")
    TensorBoardLog(tmp_path / "new")
    assert os.listdir(tmp_path) == ["file"]  # nothing is made before there is something to log
