"""A set that the caller holds out is never read, whatever reader would have read it."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import load, load_runs, registry
from tests.readers.logs.tracker_stores import MATERIAL, build
from tests.readers.samples import (
    STEPS,
    domainbed,
    extended,
    predictions_folder,
    swad,
    table_rows,
    write_csv,
    write_lines,
)
from tests.refusals import refused
from tests.study.cohorts import tiny_runs, write_cohort

LOGS = Path(__file__).parent / "logs"
MORE = MATERIAL.parent / "more"
READ_MORE = (
    "allennlp", "catboost", "dvclive", "flair", "json", "mm0", "mmengine", "ultralytics", "wandb",
)  # fmt: skip
METRICS = ("accuracy", "nll", "cwece")
ROWS = [
    {"photo": 0.70, "sketch": 0.60, "nll": 0.9},
    {"photo": 0.80, "sketch": 0.75, "nll": 0.6},
    {"photo": 0.81, "sketch": 0.50, "nll": 0.5},
]


def _journal(path: Path, predictions: bool = False) -> Path:
    if predictions:
        outputs = {"photo": ([[2.0, 0.0], [0.0, 1.0]], [0, 1]), "sketch": ([[0.0, 3.0]], [0])}
        with cw.LiveSelector(journal=path, predictions=True) as live:
            for step in STEPS:
                live.add(step, outputs)
        return path
    with cw.LiveSelector(journal=path) as live:
        for step, row in enumerate(ROWS):
            sets = {
                name: {"accuracy": row[name], "nll": row["nll"], "cwece": 0.1, "n": 100}
                for name in ("photo", "sketch")
            }
            live.add(step, sets)
    return path


def _keras(path: Path) -> Path:
    path.write_text("epoch,accuracy,loss,val_accuracy,val_loss\n0,.5,1,.5,1\n1,.6,.9,.55,.8\n")
    return path


def _sets(path: Path) -> Path:
    names = [f"checkwise/{name}/{metric}" for name in ("art", "photo") for metric in METRICS]
    lines = [",".join(["step", *names]), "1,.5,1,.1,.6,.9,.1", "2,.6,.9,.1,.7,.8,.1"]
    path.write_text("\n".join(lines) + "\n")
    return path


def _own(path: Path) -> Path:
    return sorted(write_cohort(path, tiny_runs()).glob("runs/*"))[0]


def _trees(path: Path) -> Path:
    own = {"merror": [0.5, 0.2, 0.3], "mlogloss": [1.0, 0.5, 0.4]}
    path.write_text(json.dumps({"train": own, "eval_a": own, "eval_b": own}))
    return path


def _more(name: str) -> Callable[[Path], Path]:
    return lambda path: Path(shutil.copytree(MORE / name, path))


def _real(name: str) -> Callable[[Path], Path]:
    return lambda path: Path(shutil.copy(LOGS / "real" / name, path.with_name(Path(name).name)))


READERS: dict[str, Callable[[Path], Path]] = {
    "csv": lambda path: write_csv(path.with_suffix(".csv"), table_rows()),
    "json lines": lambda path: write_lines(path.with_suffix(".jsonl"), table_rows()),
    "predictions": predictions_folder,
    "domainbed": lambda path: write_lines(path / "results.jsonl", map(domainbed, STEPS)),
    "paper": lambda path: write_lines(path / "results.jsonl", map(extended, STEPS)),
    "swad": lambda path: write_lines(path / "results.jsonl", [swad(step, 1) for step in STEPS]),
    "own run": _own,
    "journal": lambda path: _journal(path / "checkwise.jsonl"),
    "kept predictions": lambda path: _journal(path / "checkwise.jsonl", predictions=True),
    "keras": lambda path: _keras(path.with_suffix(".csv")),
    "tensorboard": lambda path: Path(shutil.copytree(LOGS / "tensorboard" / "keras", path)),
    "tensorboard of transformers": lambda path: Path(
        shutil.copytree(LOGS / "tensorboard" / "transformers", path)
    ),
    "mlflow files": lambda path: Path(shutil.copytree(MATERIAL / "mlruns", path)),
    "mlflow": lambda path: build("mlflow", path.with_name("mlflow.db")),
    "sets of a log": lambda path: _sets(path.with_suffix(".csv")),
    "voice-identification": _real("keras/voice-identification.log"),
    "wheeze-detection": _real("table/wheeze-detection.csv"),
    "sets of boosted trees": lambda path: _trees(path.with_suffix(".json")),
    **{name: _more(name) for name in READ_MORE},
}


@pytest.mark.parametrize("kind", READERS)
def test_a_set_that_is_held_out_is_not_read(tmp_path: Path, kind: str) -> None:
    path = READERS[kind](tmp_path / "input")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckwiseWarning)
        names = {name for run in load_runs(path).values() for name in run.domains}
        assert names
        for name in sorted(names):
            runs = {}
            with contextlib.suppress(InputError):  # nothing is left, or it is no target of the run
                runs = load_runs(path, held_out=name)
            assert all(name not in run.domains for run in runs.values())
        with pytest.raises(InputError):
            load_runs(path, held_out="quickdraw")


@pytest.mark.parametrize("kind", ["keras", "csv"])
def test_nothing_is_left_of_one_set(tmp_path: Path, kind: str) -> None:
    path = READERS[kind](tmp_path / "input")
    with refused("empty: "):
        load(path, held_out=load(path).domains)


def test_a_journal_is_read_as_if_the_set_had_not_been_there(tmp_path: Path) -> None:
    path = _journal(tmp_path / "checkwise.jsonl")
    both, photo = load(path), load(path, held_out="sketch")
    assert (both.domains, photo.domains) == (("photo", "sketch"), ("photo",))
    assert photo.values["accuracy"][:, 0].tolist() == [row["photo"] for row in ROWS]
    assert cw.select(both).step == 1
    assert cw.select(photo, guard=False, delta_pp=1).step == 2
    with refused("empty: --held-out"):
        load(path, held_out=["photo", "sketch"])
    with refused("ambiguous: 'Sketch'"):
        load(path, held_out="Sketch")


def test_kept_predictions_of_a_set_stay_closed(tmp_path: Path) -> None:
    path = _journal(tmp_path / "checkwise.jsonl", predictions=True)
    for file in tmp_path.rglob("sketch.npz"):
        file.write_bytes(b"not to be opened")
    examples = load(path, held_out="sketch").examples
    assert examples is not None
    assert [len(one) for one in examples.labels or ()] == [2]
    assert list(examples.logits(STEPS[0])) == ["photo"]


def test_records_of_a_set_that_the_journal_holds_out_are_damage(tmp_path: Path) -> None:
    path = _journal(tmp_path / "checkwise.jsonl")
    text = path.read_text()
    path.write_text(text.replace('"held_out":[]', '"held_out":["sketch"]', 1))
    assert path.read_text() != text
    with refused("damaged: line 2"):
        load(path)
    with refused("damaged: line 2"):
        cw.LiveSelector.from_journal(path)


def test_a_set_that_the_journal_holds_out_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "checkwise.jsonl"
    row = {"accuracy": 0.5, "nll": 1.0, "cwece": 0.1, "n": 100}
    with cw.LiveSelector(journal=path, held_out="sketch") as live:
        live.add(1, {"photo": row, "sketch": row})
    assert load(path, held_out="sketch").domains == ("photo",)


def test_every_format_of_the_newer_ones_is_among_them() -> None:
    """A reader that is registered and has material there cannot be forgotten here."""
    there = {path.name for path in MORE.iterdir() if path.is_dir()}
    assert there == {*READ_MORE, "detectron2"}  # which has training alone
    folders = there - {"json", "flair", "ultralytics", "catboost"} | {"catboost/catboost_info"}
    found = {registry.reader_of(MORE / name) for name in folders}
    assert found <= {*registry.TRACKERS}
    assert len(found) == len(folders) - 1  # mm0 and mmengine have one reader
