"""CatBoost's folder ``catboost_info``: ``catboost_training.json``, or ``test_error.tsv`` alone.

Its evaluation sets are called test, but early stopping and ``use_best_model`` look at them: they
are what others call validation. Of several, the last decides there; here each is a domain.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.metrics import is_number
from checkwise.readers.csv_file import header_of, open_csv_file
from checkwise.readers.history import CALLS, SAME
from checkwise.readers.json_log import whole_document
from checkwise.readers.log import CATBOOST, Log
from checkwise.readers.request import Request, first_bytes
from checkwise.readers.rows import log_of_records

TRAINING: Final = "catboost_training.json"
ERRORS: Final = "test_error.tsv"
LEARNING: Final = "learn_error.tsv"
_NUMBERED: Final = re.compile("(.+):([0-9]{1,3})")
NOTE: Final = "CatBoost calls the eval_set 'test'; if it is your test data, use another"


def recognises(path: Path) -> bool:
    """Whether a file is CatBoost's, or a folder holds some."""
    if path.is_dir():
        return any((path / name).is_file() for name in (TRAINING, ERRORS))
    if path.name in (ERRORS, LEARNING):
        return header_of(path)[:1] == ["iter"]
    start = first_bytes(path, 1 << 12)
    return b'"test_metrics"' in start or b'"learn_metrics"' in start


def own_folders(folder: Path) -> set[str]:
    """The event files of the same training."""
    return {path.name for path in folder.iterdir() if path.is_dir()}


def read(path: Path, request: Request) -> list[Log]:
    """The log of one training, by numbers of trees."""
    if path.is_dir():
        path = path / (TRAINING if (path / TRAINING).is_file() else ERRORS)
    rows = _of_json(path) if path.suffix == ".json" else _of_table(path)
    sets = {name for row in rows for name in row}
    if not any(name.startswith("test") for name, _ in sets):
        raise InputError(
            f"Expected metrics of validation, but {path} has those of the training data alone: "
            "give fit(…, eval_set=…).",
            code="missing",
        )
    names = {(s, metric): f"{s}/{metric}" for s, metric in sorted(sets)}
    several = len({s for s, _ in sets} - {"learn"}) > 1
    called = {
        name: (
            "learn" if s == "learn" else f"eval{s.removeprefix('test') or 0}" if several else "",
            SAME.get(metric.partition(":")[0], metric),
        )
        for (s, metric), name in names.items()
    }
    records = [
        {"iteration": k, **{names[one]: value for one, value in row.items()}}
        for k, row in enumerate(rows, start=1)
    ]
    notes = ("steps are numbers of trees", NOTE)
    return [
        log_of_records(
            path, records, request, axes={"step": "iteration"}, trainer=CATBOOST, called=called,
            call=CALLS["CatBoost"], notes=notes,
        )
    ]  # fmt: skip


# Set and metric → value, of one iteration.
Row = dict[tuple[str, str], Any]


def _of_json(path: Path) -> list[Row]:
    document = whole_document(path)
    try:
        meta = document["meta"]
        names = {"learn": [one["name"] for one in meta["learn_metrics"]]}
        names |= {str(s): [one["name"] for one in meta["test_metrics"]] for s in meta["test_sets"]}
        return [
            {
                (s, str(metric)): value
                for s, metrics in names.items()
                for metric, value in zip(metrics, row.get(s, ()), strict=False)
            }
            for row in document["iterations"]
        ]
    except (TypeError, KeyError, AttributeError):
        raise InputError(
            f"Expected what CatBoost writes, but {path} is damaged: give {ERRORS}, which lies "
            "beside it.",
            code="damaged",
        ) from None


def _of_table(path: Path) -> list[Row]:
    """The same of a table, where ``Accuracy:0`` is of the first of several sets."""
    file = open_csv_file(path, ("\t",), may_be_torn=True)
    before = "learn" if path.name == LEARNING else "test"
    columns = [(m[1], m[2]) if (m := _NUMBERED.fullmatch(c)) else (c, "") for c in file.header[1:]]
    numbers = [int(number) for _, number in columns if number]
    last = f"{max(numbers) + 1}" if numbers else ""  # the one that decides has no number
    names = [(f"{before}{(int(n) or '') if n else last}", metric) for metric, n in columns]
    return [
        {
            name: float(cell) if is_number(cell) else cell
            for name, cell in zip(names, row[1:], strict=True)
        }
        for row in file.rows()
    ]
