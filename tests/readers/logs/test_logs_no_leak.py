"""Whatever stands in a training or test column of a log, the answer stays the same to the byte."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkwise as cw
from checkwise.cli import main
from tests.readers.logs.written_logs import WRITERS, Evaluation, rows

REAL = Path(__file__).with_name("real")
CELLS = ("", "nan", "inf", "-1", "1e308", "no number", "0.999", 'a "quoted",\nbroken cell')
JSON: tuple[Any, ...] = (
    None,
    float("nan"),
    -1,
    1e308,
    10**400,
    "no number",
    True,
    [],
    {"deeper": [1]},
    0.999,
)
SCALARS = tuple(value for value in JSON if not isinstance(value, dict | list))
RUN = [Evaluation(10 * k, right, loss) for k, (right, loss) in enumerate(
    [(500, 9000), (800, 5000), (810, 6000), (808, 4000), (700, 3000)], start=1
)]  # fmt: skip
FOREIGN = ("train_acc", "train_loss", "test_acc", "test_loss", "accuracy", "loss", "ood_acc")


def answer(path: Path, *options: str) -> tuple[Any, ...]:
    """What ``select --json`` prints, and everything else that could be taken from a log."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as stop:
        main(["select", str(path), *options, "--json"])
    assert stop.value.code == 0, printed.getvalue()
    return printed.getvalue(), *_facts(path, options)


def _facts(path: Path, options: Sequence[str]) -> list[Any]:
    held_out = options[options.index("--held-out") + 1] if "--held-out" in options else None
    runs = cw.load_runs(path, held_out=held_out)
    return [(key, run.digest, run.notes, cw.select(run).step) for key, run in runs.items()]


def unchanged(
    path: Path, write: Callable[[Any], object], values: Iterable[Any], *options: str
) -> None:
    """The answer is the same whichever value is written."""
    clean = answer(path, *options)
    before = path.read_bytes() if path.is_file() else b""
    for value in values:
        write(value)
        assert not before or path.read_bytes() != before
        assert answer(path, *options) == clean, value


def _poisoned(records: Iterable[Mapping[str, Any]], names: Iterable[str], value: Any) -> list[Any]:
    spoiled = dict.fromkeys(names, value)
    return [{**record, **spoiled} for record in records]


@pytest.mark.parametrize("file", WRITERS)
def test_training_and_test_columns(file: str, tmp_path: Path) -> None:
    path, write = tmp_path / file, WRITERS[file]
    write(path, _poisoned(rows(RUN), FOREIGN, "0.5"))
    values = CELLS if file.endswith(".csv") else JSON
    unchanged(path, lambda value: write(path, _poisoned(rows(RUN), FOREIGN, value)), values)


def test_the_history_of_keras(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    history = {"val_acc": [0.5, 0.9, 0.8], "val_loss": [0.9, 0.5, 0.6]}

    def write(value: Any) -> None:
        path.write_text(json.dumps({**history, "accuracy": [value] * 3, "loss": [0.5, value, 1]}))

    write(0.5)
    unchanged(path, write, JSON)


def _spoilt(records: Iterable[Mapping[str, Any]], stay: set[str], value: Any) -> list[Any]:
    return [{n: v if n in stay else value for n, v in record.items()} for record in records]


COPIES = [
    path
    for path in sorted(REAL.glob("*/*"))
    if path.stem not in ("deepfake-detector", "dsc-se-lightnet", "roberta-portuguese")
]


COUNTING = ("eval_runtime", "eval_samples_per_second")  # n comes from these


@pytest.mark.parametrize("real", COPIES, ids=lambda path: path.stem)
def test_real_logs(real: Path, tmp_path: Path) -> None:
    """Every column that was not read is poisoned, those of validation too."""
    path = tmp_path / real.name
    path.write_bytes(real.read_bytes())
    (run,) = cw.load_runs(path).values()
    stay = {"step", "epoch", *run.columns.values(), *COUNTING}
    if real.suffix == ".json":
        state = json.loads(real.read_text())

        def write_state(value: Any) -> None:
            path.write_text(
                json.dumps({**state, "log_history": _spoilt(state["log_history"], stay, value)})
            )

        unchanged(path, write_state, SCALARS)
    else:
        with real.open(newline="") as file:
            records = list(csv.DictReader(file))

        def write_csv(value: Any) -> None:
            WRITERS["metrics.csv"](path, _spoilt(records, stay, value))

        unchanged(path, write_csv, CELLS)


CELLS_OF_TEST: list[Any] = [
    "test", "TEST", "Test set", "ood", "testloader", "t\u0435st", "photo_test", ["test"],
    ["val", "test"], {"name": "test"}, {"meta": {"split": ["test"]}},
]  # fmt: skip


@given(
    column=st.sampled_from(["phase", "loader", "notes", "meta", "split"])
    | st.text("abXY_", max_size=4),
    cell=st.sampled_from(CELLS_OF_TEST),
    file=st.sampled_from(
        ["run.csv", "run.json", "run.parquet", "trainer_state.json", "result.json"]
    ),
)
def test_rows_that_say_test_in_any_column_are_refused(column: str, cell: Any, file: str) -> None:
    records = [
        {
            "step": one.step + k,
            "val_acc": (1 - k * 0.5) * one.right / 1000,
            column: ["val", cell][k],
        }
        for one in RUN
        for k in (0, 1)
    ]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / file
        if file == "run.csv":
            pd.DataFrame(records).to_csv(path, index=False)
        elif file == "run.parquet":
            pd.DataFrame([{**one, column: [str(one[column])]} for one in records]).to_parquet(path)
        elif file == "result.json":
            ray = {"trial_id": "a"}
            lines = [{**ray, "training_iteration": one["step"], **one} for one in records]
            path.write_text("\n".join(map(json.dumps, lines)))
        else:
            path.write_text(json.dumps({"log_history": records} if "state" in file else records))
        with pytest.raises(cw.InputError) as error:
            cw.load(path)
        assert error.value.code == "held-out"
        told = cell if isinstance(cell, str) else "test"
        if column not in ("phase", "loader", "split") and not isinstance(cell, dict):
            cw.load(path, sources=[told, str(cell)])


def test_scores_beside_no_loss_but_that_of_test_are_of_test(tmp_path: Path) -> None:
    """YOLOv5's classification without a folder of validation images."""
    path = tmp_path / "exp" / "results.csv"
    path.parent.mkdir()
    scores = "metrics/accuracy_top1"
    path.write_text(f"epoch,train/loss,test/loss,{scores},lr/0\n0,1,.9,.5,.1\n1,.9,.8,.6,.1\n")
    for place in (path, path.parent, tmp_path):
        with pytest.raises(cw.InputError) as error:
            cw.load(place)
        assert error.value.code == "held-out"
        assert scores in str(error.value)
    assert cw.load(path, columns={"accuracy": scores}).metrics == ("accuracy",)
    path.write_text(path.read_text().replace("test/loss", "val/loss"))
    assert cw.load(path).metrics == ("accuracy", "nll")


def _evaluated_sets(value: Any = 0.5) -> list[dict[str, Any]]:
    """transformers' log of two validation sets and two that are held out."""
    records: list[dict[str, Any]] = []
    for one in RUN:
        for name in ("photo", "art", "sketch", "test"):
            source = name in ("photo", "art")
            records.append(
                {
                    "step": one.step,
                    f"eval_{name}_accuracy": one.right / 1000 if source else value,
                    f"eval_{name}_loss": one.loss / 10_000 if source else value,
                    f"eval_{name}_runtime": 1.0 if source else value,
                }
            )
    return records


def test_evaluation_sets_that_are_held_out(tmp_path: Path) -> None:
    path, write = tmp_path / "trainer_state.json", WRITERS["trainer_state.json"]
    write(path, _evaluated_sets())
    options = ("--held-out", "sketch")
    unchanged(path, lambda value: write(path, _evaluated_sets(value)), SCALARS, *options)
    assert cw.load(path, held_out="sketch").domains == ("art", "photo")
