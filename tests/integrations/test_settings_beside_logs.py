"""Offline `select` on a callback's log chooses as the callback did, by the journal beside it.

The callbacks are set so that the default tolerance would choose another checkpoint. Without the
journal a log is numbers, and the defaults hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from tests.refusals import refused
from tests.requirements import available, package

pytestmark = pytest.mark.filterwarnings("default")  # frameworks warn about each other

ROWS = [(100, 0.900, 0.50), (200, 0.880, 0.40), (300, 0.895, 0.45), (400, 0.899, 0.60)]
DEFAULT, WIDE = 300, 200  # what half a point chooses, and what three points choose


def chosen(folder: Path) -> cw.Selection:
    """With the journal in a folder."""
    with cw.LiveSelector("ac-nc", delta_pp=3, journal=folder / "checkwise.jsonl") as live:
        for step, accuracy, nll in ROWS:
            metrics = {"accuracy": accuracy, "nll": nll, "cwece": nll / 20, "n": 1000}
            live.add(step, {"photo": metrics, "art": metrics})
    assert live.selection is not None
    return live.selection


def check(folder: Path, log: Path) -> None:
    beside = cw.select(cw.load(log))
    assert (beside.step, beside.reason) == (WIDE, "as the callback was set: delta_pp 3")
    journal = folder / "checkwise.jsonl"
    away = journal.rename(folder / "away")
    alone = cw.select(cw.load(log))
    assert (alone.step, alone.rule, alone.reason) == (DEFAULT, "ac-nc", "")
    away.rename(journal)


def test_tensorboard(tmp_path: Path) -> None:
    available("tensorboard")
    from checkwise.integrations.tensorboard import TensorBoardLog

    TensorBoardLog(tmp_path / "events").log(chosen(tmp_path))
    check(tmp_path, tmp_path / "events")
    run = cw.load(tmp_path / "events")
    told = cw.select(run, delta_pp=0.5)
    assert told.step == DEFAULT
    assert told.reason == "as the callback was set, but for delta_pp"
    assert cw.select(run, "ac-nc").step == DEFAULT  # a rule that is named has its own defaults


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    mlflow = package("mlflow")
    from checkwise.integrations.mlflow import MlflowLog

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = mlflow.MlflowClient(uri)
    run = client.create_run(client.create_experiment("digits", str(tmp_path / "artifacts")))
    MlflowLog(run.info.run_id, uri).log(chosen(tmp_path))
    check(tmp_path, tmp_path / "mlflow.db")


def test_keras(tmp_path: Path) -> None:
    available("keras")
    import keras

    from checkwise.integrations.keras import ReliabilityCheckpoint
    from tests.integrations.keras_models import fit, network, validation_sets

    callback = ReliabilityCheckpoint(
        validation_sets("a", "test"),
        "source-acc",
        ties="latest",
        sources="test",
        dirpath=tmp_path / "checkpoints",
        kind="logits",
    )
    log = keras.callbacks.CSVLogger(tmp_path / "training.log")
    history = fit(network(), callback, log, epochs=5, verbose=2).history
    metrics = ("accuracy", "nll", "cwece", "n")
    ours = {name.removeprefix("checkwise/") for name in history if name.startswith("checkwise/")}
    assert ours == {"choice", "score", *(f"{d}/{m}" for d in ("a", "test") for m in metrics)}
    assert callback.selection is not None
    run = cw.load(tmp_path / "training.log", include_unsaved=True)
    assert run.domains == ("a",)  # nothing in a log makes a source of what looks held out
    assert any("test" in note for note in run.notes)
    run = cw.load(tmp_path / "training.log", include_unsaved=True, sources="test")
    assert run.domains == ("a", "test")
    again = cw.select(run, "source-acc", ties="latest")
    at = again.trajectory.steps.tolist().index(again.step)
    assert callback.selection.index == at  # the log counts epochs


def test_lightning(tmp_path: Path) -> None:
    available("lightning", "tensorboard")
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import fit

    callback: Any = ReliabilityCheckpoint(
        "ac-nc", delta_pp=30, domains=["a", "b"], dirpath=tmp_path / "checkpoints"
    )
    loggers = [kind(str(tmp_path), name=kind.__name__) for kind in (CSVLogger, TensorBoardLogger)]
    fit(tmp_path, callback, logger=loggers)
    for logger in loggers:
        again = cw.select(cw.load(logger.log_dir, include_unsaved=True))
        assert again.index == callback.selection.index
        assert again.feasible_steps == callback.selection.feasible_steps
        assert again.reason == "as the callback was set: delta_pp 30"


def test_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    available("transformers", "accelerate", "tensorboard")
    from checkwise.integrations.transformers import ReliabilityCallback
    from tests.integrations.transformers_runs import arguments, script, scripted_trainer

    table, labels = script([0.1, 0.5, 0.8, 0.78, 0.75, 0.7])
    callback = ReliabilityCallback("ac-nc", delta_pp=20)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "out" / "events"))
    args = arguments(tmp_path / "out", steps=10, report_to="tensorboard")
    sets = {"art": slice(0, 17), "photo": slice(17, 41)}
    scripted_trainer(args, table, labels, callback, sets=sets).train()
    assert callback.selection is not None
    for place in (tmp_path / "out", tmp_path / "out" / "events"):
        run = cw.load(place)
        again = cw.select(run)
        assert again.step == callback.choice
        assert again.feasible_steps == callback.selection.feasible_steps
        assert again.reason == "as the callback was set: delta_pp 20"
        assert run.counts is not None
        assert run.counts.tolist() == [17, 24]
    (tmp_path / "out" / "checkwise.jsonl").unlink()
    for place in (tmp_path / "out", tmp_path / "out" / "events"):
        alone = cw.select(cw.load(place))
        assert (alone.rule, alone.reason) == ("ac-nc", "")
        assert alone.params["delta_pp"] == 0.5
        assert alone.trajectory.counts is not None
        assert alone.trajectory.counts.tolist() == [17, 24]


def test_a_tolerance_by_examples_needs_the_journal(tmp_path: Path) -> None:
    """One bit per example is in the journal, and in no log."""
    available("tensorboard")
    from checkwise.integrations.tensorboard import TensorBoardLog
    from tests.integrations.selections import predictions

    paired = cw.LiveSelector("ac-nc", tolerance="paired", journal=tmp_path / "run.jsonl")
    for step, sets in predictions().items():
        paired.add(step, sets)
    paired.close()
    assert paired.selection is not None
    TensorBoardLog(tmp_path / "events").log(paired.selection)
    assert cw.select(cw.load(tmp_path / "events")).step == paired.choice  # by the journal
    assert cw.select(cw.load(tmp_path / "run.jsonl"), tolerance="fixed").choice.kind.fixed
    (tmp_path / "run.jsonl").unlink()
    alone = cw.load(tmp_path / "events")
    assert cw.select(alone).choice.kind.fixed
    with refused("missing"):
        cw.select(alone, tolerance="paired")
