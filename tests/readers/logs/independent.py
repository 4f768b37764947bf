"""A second reading of the real logs that shares nothing with checkwise's own.

pandas reads CSV and TSV, json reads JSON, the tensorboard package reads event files, and
MLflow's file store is read as text. Columns are found in lists of whole names. Numbers stay the
text of the file until they are compared, as fractions. The choice is written out from SPEC §3.

``python -m tests.readers.logs.independent`` writes ``real_logs_expected.csv``.
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from tests.requirements import SHARED

REAL_LOGS = SHARED / "real-logs"
EXPECTED = Path(__file__).with_name("real_logs_expected.csv")

# Logs in `more`, which the list of the collection does not have: kind, repository, path.
MORE = (
    ("ultralytics", "FoyerD+ML_A4", "runs/detect/train/results.csv"),
    ("ultralytics", "FoyerD+ML_A4", "runs/train-cls/exp/results.csv"),
    ("ultralytics", "LuisFelipe25+training_model", "runs/train-cls/exp/results.csv"),
    ("ultralytics", "caiozhj+YoloV8-Classify-images", "runs/classify/train/results.csv"),
    ("table", "FoyerD+ML_A4", "outputs/vgg_training_metrics.csv"),
    ("table", "IsaDash+FLAIR-Text-Classification", "loss.tsv"),
    ("table", "mdhach+digit-recognizer", "history.csv"),
    ("grid", "Shobhan5+Hyperparameter_tuning", "cv_results.csv"),
    ("catboost", "ABM-Masum+accident-severity-prediction", "catboost_info"),
    ("catboost", "ABM-Masum+accident-severity-prediction", "catboost_info/catboost_training.json"),
    ("catboost", "ABM-Masum+accident-severity-prediction", "catboost_info/test_error.tsv"),
    ("catboost", "ABM-Masum+accident-severity-prediction", "catboost_info/learn_error.tsv"),
    ("history", "AlphaeusNg+Car-Type-Classification-Service", "training_history.json"),
    ("history", "AntarcBall+handwriting_classify", "training_history.json"),
    ("history", "Anway-Kapoor+BrainTumorClassification", "training_history.json"),
    (
        "history",
        "DrunkMacintosh+EFFICIENTNET_B0-for-emotion-recognition-of-FER-2013-dataset",
        "training_history.json",
    ),
    ("mm", "Areinaqiu+3035272042", "None.log.json"),
    ("mm", "duanbo320+openmmlab_camp", "vis_data/scalars.json"),
    ("detectron2", "Elbhnasy+Medical_Waste_Detection_Detectron2", "output/metrics.json"),
    ("allennlp", "", "QAQdev+FRMiner-Training-Results"),
    ("dvclive", "abhraimrb+pytorch-dvc", "dvclive"),
)
# Scores where there is no accuracy, and whether more is better.
SCORES = {
    "eval_f1": ("f1", True),
    "eval_wer": ("wer", False),
    "DEV_F1": ("F1", True),
    "metrics/mAP50-95(B)": ("mAP50-95", True),
    "metrics/mAP50(B)": ("mAP50", True),  # beside the other, for best.pt alone
    "AP": ("AP", True),
    "test/RMSE": ("RMSE", False),
}
PARTS = ("val/box_loss", "val/cls_loss", "val/dfl_loss")

ACCURACIES = (
    "val_acc", "val_accuracy", "valid_accuracy", "val_acc_epoch", "eval_accuracy", "eval/accuracy",
    "valid/acc", "metrics/accuracy_top1", "accuracy/top1", "Val Accuracy (%)", "val/acc",
    "validation_accuracy", "val_categorical_accuracy",
)  # fmt: skip
LOSSES = (
    "val_loss", "valid_loss", "val_loss_epoch", "eval_loss", "eval/loss", "valid/loss", "DEV_LOSS",
    "Val Loss", "val/loss", "validation_loss",
)  # fmt: skip
# Tags that are validation only because their file lies in a folder `validation`.
IN_VALIDATION = {
    "accuracy": ("validation/epoch_accuracy", "validation/accuracy"),
    "nll": ("validation/epoch_loss",),
}
DELTA = Fraction(5, 1000)
# Without the number of examples, the edge of the tolerance allows 1e-9 points.
EDGE = Fraction(1, 10**11)

Cells = list[tuple[int, str]]


@dataclass(frozen=True)
class Account:
    """What a file holds: by metric the columns, and by step the values of every column.

    ``reason`` says in a word why nothing can be read: ``training`` (no validation at all), ``test``
    (test columns only), ``outputs`` (several outputs of a model), ``batches`` (values of single
    batches), ``console`` (no log but a console's output), ``grid`` (a search, no training),
    ``epochs`` (one epoch in every row).
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    percent: bool = False
    steps: tuple[int, ...] = ()
    values: Mapping[str, list[list[Decimal]]] = field(default_factory=dict)
    reason: str = ""

    def choice(self) -> int:
        """AC-NLL with δ = 0.5 points; without a loss source accuracy.

        Without accuracy the lowest loss within 1% of the best score, or the best of what is there.
        """
        accuracy = [_mean(row) for row in self.values.get("accuracy", [])]
        nll = [_mean(row) for row in self.values.get("nll", [])]
        places = range(len(self.steps))
        scores = [(name, up) for name, up in SCORES.values() if name in self.values]
        if scores:
            (name, up), *_ = scores
            sign = -1 if up else 1  # less is better
            score = [sign * _mean(row) for row in self.values[name]]
            loss = [_mean(row) for row in self.values.get("loss", self.values.get("nll", []))]
            edge = min(score) + abs(min(score)) / 100 if loss else min(score)
            near = [t for t in places if score[t] <= edge]
            rank = loss or score
            return self.steps[min(near, key=lambda t: (rank[t], score[t], self.steps[t]))]
        if not nll:
            return self.steps[min(places, key=lambda t: (-accuracy[t], self.steps[t]))]
        if not accuracy:
            return self.steps[min(places, key=lambda t: (nll[t], self.steps[t]))]
        edge = max(accuracy) - DELTA - EDGE
        feasible = [t for t in places if accuracy[t] >= edge]
        return self.steps[min(feasible, key=lambda t: (nll[t], -accuracy[t], self.steps[t]))]


def _mean(row: list[Decimal]) -> Fraction:
    return sum(map(Fraction, row), Fraction(0)) / len(row)


def index() -> list[dict[str, str]]:
    """The rows of the collection's own list."""
    with (REAL_LOGS / "index.csv").open(newline="") as file:
        listed = list(csv.DictReader(file))
    more = []
    for kind, repository, path in MORE:
        place = REAL_LOGS / "more" / repository / path
        source = place.parent if place.is_dir() else place
        name = source.relative_to(REAL_LOGS).as_posix()
        more.append({"kind": kind, "repo": repository or "-", "path": path, "file": name})
    return [*listed, *more]


def read(row: Mapping[str, str]) -> Account:
    """The account of one file of the collection."""
    path, kind = REAL_LOGS / row["file"], row["kind"]
    if kind in MORE_KINDS:
        return _account(MORE_KINDS[kind](path, row))
    if kind == "grid":
        return Account(reason="grid")
    if kind.startswith("domainbed"):
        return Account(reason="console")
    if kind.startswith("hf"):
        return _account(_trainer_state(path))
    if kind.startswith("tensorboard"):
        tags = _event_file(path)
        if Path(row["path"]).parent.name == "validation":
            tags = {f"validation/{tag}": cells for tag, cells in tags.items()}
        return _account(tags)
    if kind.startswith("mlflow"):
        return _account(_file_store(path))
    return _account(_csv(path))


def _account(cells: dict[str, Cells]) -> Account:
    if set(PARTS) <= set(cells):
        parts = zip(*(cells.pop(part) for part in PARTS), strict=True)
        summed = [(part[0][0], str(sum(Decimal(text) for _, text in part))) for part in parts]
        cells[" + ".join(PARTS)] = summed
    if "metrics/accuracy_top1" in cells and not {"time", "lr/0"} & set(cells):
        cells.pop("val/loss")  # Ultralytics took the softmax twice until it logged the time
    columns = _columns(cells)
    if not columns:
        return Account(reason=_reason(cells))
    read = [column for names in columns.values() for column in names]
    by_step: dict[str, dict[int, str]] = {}
    for column in read:
        by_step[column] = {}
        for step, text in cells[column]:
            by_step[column].setdefault(step, text)
        if len(by_step[column]) == 1 and len(cells[column]) > 2:
            return Account(reason="epochs")
        if len(cells[column]) >= 2 * len(by_step[column]) > 2:
            return Account(reason="batches")
    steps = sorted(set.intersection(*(set(by_step[column]) for column in read)))
    texts = {
        metric: [[by_step[column][step] for column in names] for step in steps]
        for metric, names in columns.items()
    }
    values = {metric: _decimals(rows) for metric, rows in texts.items()}
    percent = any(value > 1 for row in values.get("accuracy", []) for value in row)
    if percent:
        values["accuracy"] = [[value / 100 for value in row] for row in values["accuracy"]]
    return Account(columns, percent, tuple(steps), values)


def _columns(cells: Mapping[str, Cells]) -> dict[str, tuple[str, ...]]:
    """Metric → its columns, one for each validation set."""
    sets = sorted(
        name.removeprefix("eval_").removesuffix("_runtime")
        for name in cells
        if name.startswith("eval_") and name.endswith("_runtime") and name != "eval_runtime"
    )
    if sets:
        return {
            "accuracy": tuple(f"eval_{name}_accuracy" for name in sets),
            "nll": tuple(f"eval_{name}_loss" for name in sets),
        }
    lists = {
        "accuracy": (*ACCURACIES, *IN_VALIDATION["accuracy"]),
        "nll": (*LOSSES, *IN_VALIDATION["nll"]),
    }
    named = {metric: [c for c in names if c in cells] for metric, names in lists.items()}
    if "test/loss" in cells and "valid/loss" not in cells:
        return {}  # which of YOLOv5 are of test too
    if not named["accuracy"]:
        named |= {name: [column] for column, (name, _) in SCORES.items() if column in cells}
    named["loss"] = [c for c in cells if "+" in c]
    if not named["accuracy"] and _outputs(cells):
        return {}
    assert all(len(names) < 2 for names in named.values()), named
    return {metric: tuple(names) for metric, names in named.items() if names}


def _outputs(cells: Mapping[str, Cells]) -> list[str]:
    """Outputs of a Keras model, each with an accuracy and a loss of its own."""
    names = [c.removeprefix("val_").removesuffix("_accuracy") for c in cells if "_accuracy" in c]
    return [n for n in names if f"val_{n}_accuracy" in cells and f"val_{n}_loss" in cells]


def _reason(cells: Mapping[str, Cells]) -> str:
    if _outputs(cells):
        return "outputs"
    if any(name.startswith(("test_", "test/")) for name in cells):
        return "test"
    return "training"


def _decimals(rows: list[list[str]]) -> list[list[Decimal]]:
    """The numbers as they were before a trainer kept them in 32 bits, where all of them were."""
    numbers = [float(text) for row in rows for text in row]
    if any(struct.unpack("f", struct.pack("f", number))[0] != number for number in numbers):
        return [[Decimal(repr(float(text))) for text in row] for row in rows]
    return [[_shortest(float(text)) for text in row] for row in rows]


def _shortest(number: float) -> Decimal:
    for digits in range(1, 10):
        text = f"{number:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", number):
            return Decimal(text)
    raise AssertionError(f"nine digits always suffice, but not for {number!r}")


def _csv(path: Path) -> dict[str, Cells]:
    import pandas as pd

    separator = "\t" if path.suffix == ".tsv" else ","
    frame = pd.read_csv(path, dtype=str, sep=separator, skipinitialspace=True)
    frame.columns = frame.columns.str.strip()
    axis = next(name for name in ("step", "epoch", "EPOCH", "Epoch") if name in frame)
    others = [name for name in frame if name not in ("step", "epoch", "EPOCH", "Epoch")]
    filled = {name: frame[[axis, name]].dropna() for name in others}
    return {
        str(name): [(int(float(step)), text) for step, text in part.itertuples(index=False)]
        for name, part in filled.items()
    }


def _trainer_state(path: Path) -> dict[str, Cells]:
    cells: dict[str, Cells] = {}
    for record in json.loads(path.read_text(), parse_float=str)["log_history"]:
        for name, value in record.items():
            if name not in ("step", "epoch"):
                cells.setdefault(name, []).append((record["step"], str(value)))
    return cells


def _event_file(path: Path) -> dict[str, Cells]:
    return {tag: list(cells) for tag, cells in _scalars(path)}


def _scalars(path: Path) -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    for tag in tags["scalars"]:
        yield tag, ((event.step, repr(event.value)) for event in events.Scalars(tag))
    for tag in tags["tensors"]:
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            tensors = events.Tensors(tag)
            arrays = [tensor_util.make_ndarray(event.tensor_proto) for event in tensors]
            yield tag, ((e.step, repr(a.item())) for e, a in zip(tensors, arrays, strict=True))


def _file_store(path: Path) -> dict[str, Cells]:
    """MLflow's ``<experiment>/<run>/metrics/<name>``: lines of time, value and step."""
    cells: dict[str, Cells] = {}
    for file in sorted(path.glob("mlruns/*/*/metrics/*")):
        for line in file.read_text().splitlines():
            _, value, step = line.split()
            cells.setdefault(file.name, []).append((int(step), value))
    return cells


def _catboost(path: Path, row: Mapping[str, str]) -> dict[str, Cells]:
    """Numbers of trees, one more than the iteration."""
    if path.is_dir() or path.suffix == ".json":
        file = path / "catboost_info" / "catboost_training.json" if path.is_dir() else path
        document = json.loads(file.read_text(), parse_float=str)
        names = [one["name"] for one in document["meta"]["test_metrics"]]
        found: dict[str, Cells] = {}
        for one in document["iterations"]:
            for name, value in zip(names, one["test"], strict=True):
                found.setdefault(f"test/{name}", []).append((one["iteration"] + 1, str(value)))
        return found
    if path.name.startswith("learn"):
        return {}
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return {f"test/{lines[0][1]}": [(int(k) + 1, value) for k, value in lines[1:]]}


def _history(path: Path, row: Mapping[str, str]) -> dict[str, Cells]:
    """The longest lists, counted from 0."""
    document = json.loads(path.read_text(), parse_float=str)
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    longest = max(map(len, lists.values()))
    return {
        name: [(k, str(value)) for k, value in enumerate(values)]
        for name, values in lists.items()
        if len(values) == longest
    }


def _mm(path: Path, row: Mapping[str, str]) -> dict[str, Cells]:
    """Rows without the learning rate of training, or of mode val, at their epoch."""
    cells: dict[str, Cells] = {}
    for line in path.read_text().splitlines():
        one = json.loads(line, parse_float=str)
        if one.get("mode") == "val" or ("mode" not in one and "lr" not in one and "step" in one):
            for name, value in one.items():
                cells.setdefault(name, []).append((one.get("epoch", one.get("step")), str(value)))
    return cells


def _allennlp(path: Path, row: Mapping[str, str]) -> dict[str, Cells]:
    cells: dict[str, Cells] = {}
    for epoch in range(10):
        file = path / row["path"] / f"metrics_epoch_{epoch}.json"
        for name, value in json.loads(file.read_text(), parse_float=str).items():
            cells.setdefault(name, []).append((epoch, str(value)))
    return cells


def _dvclive(path: Path, row: Mapping[str, str]) -> dict[str, Cells]:
    root = path / "dvclive" / "plots" / "metrics"
    return {
        f"{split}/{name}": _csv(root / split / f"{name}.tsv")[name]
        for split, name in (("train", "loss"), ("val", "acc"), ("val", "loss"))
    }


MORE_KINDS: dict[str, Callable[[Path, Mapping[str, str]], dict[str, Cells]]] = {
    "ultralytics": lambda path, row: _csv(path),
    "table": lambda path, row: _csv(path),
    "catboost": _catboost,
    "history": _history,
    "mm": _mm,
    "detectron2": lambda path, row: {},
    "allennlp": _allennlp,
    "dvclive": _dvclive,
}


def expected_row(row: Mapping[str, str]) -> dict[str, str]:
    """The line of ``real_logs_expected.csv`` for one file."""
    account = read(row)
    columns = {metric: " ".join(names) for metric, names in account.columns.items()}
    return {
        "file": row["file"],
        "kind": row["kind"],
        "outcome": "refused" if account.reason else "read",
        "accuracy": columns.get("accuracy", ""),
        "nll": columns.get("nll", ""),
        "score": " ".join(columns.get(name, "") for name, _ in SCORES.values()).strip(),
        "loss": columns.get("loss", ""),
        "percent": "yes" if account.percent else "no",
        "evaluations": str(len(account.steps)),
        "choice_or_reason": account.reason or str(account.choice()),
    }


def main() -> None:
    rows = [expected_row(row) for row in index()]
    with EXPECTED.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
