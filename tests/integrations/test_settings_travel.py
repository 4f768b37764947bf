"""Offline `select` on what a callback logged chooses as the callback did, by its settings.

The callbacks are set so that the default tolerance would choose another checkpoint.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.cli.main import main
from checkwise.integrations.tracked_metrics import STEP, history
from tests.refusals import refused
from tests.requirements import available, package

pytestmark = pytest.mark.filterwarnings("default")  # frameworks warn about each other

ROWS = [(100, 0.900, 0.50), (200, 0.880, 0.40), (300, 0.895, 0.45), (400, 0.899, 0.60)]
DEFAULT, WIDE = 300, 200  # what half a point chooses, and what three points choose


def live(**options: Any) -> cw.LiveSelector:
    chosen = cw.LiveSelector("ac-nc", **{"delta_pp": 3, **options})
    for step, accuracy, nll in ROWS:
        metrics = {"accuracy": accuracy, "nll": nll, "cwece": nll / 20, "n": 1000}
        chosen.add(step, {"photo": metrics, "art": metrics})
    return chosen


def chosen(**options: Any) -> cw.Selection:
    selection = live(**options).selection
    assert selection is not None
    assert cw.select(selection.trajectory).step == DEFAULT
    return selection


def check(path: Path, expected: int = WIDE, words: str = "as the callback was set") -> None:
    run = cw.load(path)
    again = cw.select(run)
    assert again.step == expected
    assert words in again.explain()


def test_tensorboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    available("tensorboard")
    from checkwise.integrations.tensorboard import TensorBoardLog

    TensorBoardLog(tmp_path).log(chosen())
    check(tmp_path, words="Rule: ac-nc, as the callback was set: delta_pp 3.")
    with pytest.raises(SystemExit) as end:
        main(["select", str(tmp_path)])
    assert not end.value.code
    assert "Rule: ac-nc, as the callback was set: delta_pp 3.\n" in capsys.readouterr().out
    run = cw.load(tmp_path)
    told = cw.select(run, delta_pp=0.5)
    assert told.step == DEFAULT
    assert told.reason == "as the callback was set, but for delta_pp"
    assert cw.select(run, "ac-nc").step == DEFAULT  # a rule that is named has its own defaults


def export(path: Path, *selections: cw.Selection) -> Path:
    """Rows as W&B's `history(…).to_csv` has them; what goes to W&B is in test_wandb_log."""
    rows = [{STEP: step, **row} for one in selections for step, row in history(one).items()]
    with path.open("w") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_an_export_of_wandb(tmp_path: Path) -> None:
    check(export(tmp_path / "history.csv", chosen()))


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    mlflow = package("mlflow")
    from checkwise.integrations.mlflow import MlflowLog

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = mlflow.MlflowClient(uri)
    run = client.create_run(client.create_experiment("digits", str(tmp_path / "artifacts")))
    for step, accuracy, nll in ROWS:  # as a trainer logs them
        for name, value in (("accuracy", accuracy), ("nll", nll), ("cwece", nll / 20)):
            client.log_metric(run.info.run_id, f"checkwise/photo/{name}", value, step=step)
    MlflowLog(run.info.run_id, uri).log(chosen())
    check(tmp_path / "mlflow.db")


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
    assert "checkwise/settings/source-acc/ties/latest" in history
    assert callback.selection is not None
    run = cw.load(tmp_path / "training.log", include_unsaved=True)
    assert run.domains == ("a",)  # nothing in a log makes a source of what looks held out
    assert any("test" in note for note in run.notes)
    run = cw.load(tmp_path / "training.log", include_unsaved=True, sources="test")
    assert run.domains == ("a", "test")
    again = cw.select(run)
    assert again.rule == "source-acc"
    assert again.reason == "as the callback was set: ties latest"
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


def test_transformers(tmp_path: Path) -> None:
    available("transformers", "accelerate", "tensorboard")
    from checkwise.integrations.transformers import ReliabilityCallback
    from tests.integrations.transformers_runs import arguments, script, scripted_trainer

    table, labels = script([0.1, 0.5, 0.8, 0.78, 0.75, 0.7])
    callback = ReliabilityCallback("ac-nc", delta_pp=20, journal=tmp_path / "journal.jsonl")
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(tmp_path / "events")
    try:
        args = arguments(tmp_path / "out", steps=10, report_to="tensorboard")
        sets = {"art": slice(0, 17), "photo": slice(17, 41)}
        scripted_trainer(args, table, labels, callback, sets=sets).train()
    finally:
        del os.environ["TENSORBOARD_LOGGING_DIR"]
    assert callback.selection is not None
    for place in (tmp_path / "out", tmp_path / "events"):
        run = cw.load(place)
        again = cw.select(run)
        assert again.step == callback.choice
        assert again.feasible_steps == callback.selection.feasible_steps
        assert again.reason == "as the callback was set: delta_pp 20"
        assert run.counts is not None
        assert run.counts.tolist() == [17, 24]


def test_settings_that_a_log_cannot_follow_are_named(tmp_path: Path) -> None:
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
    journal_file = tmp_path / "run.jsonl"
    assert cw.select(cw.load(tmp_path / "events")).step == paired.choice  # by the journal
    content = journal_file.read_bytes()
    journal_file.unlink()
    run = cw.load(tmp_path / "events")
    journal_file.write_bytes(content)
    with refused("missing"):
        cw.select(run)
    assert cw.select(run, tolerance="fixed").tolerance.fixed
    journal = cw.load(journal_file)
    assert cw.select(journal).step == paired.choice
    assert cw.select(journal, tolerance="fixed").tolerance.fixed


def test_two_callbacks_in_one_log_are_said_and_neither_counts(tmp_path: Path) -> None:
    path = export(tmp_path / "history.csv", chosen(), chosen(delta_pp=2))
    for run in cw.load_runs(path).values():
        (note,) = [note for note in run.notes if "set otherwise" in note]
        assert "delta_pp 3" in note
        assert "delta_pp 2" in note
        assert cw.select(run).step == DEFAULT
