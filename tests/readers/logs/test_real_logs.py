"""Every log of the collection is read as a second, independent reading reads it, or refused."""

from __future__ import annotations

import csv
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

import checkwise as cw
from checkwise.records import Trajectory
from tests.readers.logs.independent import EXPECTED, REAL_LOGS, expected_row, index, read
from tests.refusals import refused
from tests.requirements import package, requires

# What the message says, for each reason of the independent reading.
MESSAGES = {
    "training": "validation",
    "test": "test columns are not read",
    "outputs": "outputs with one each",
    "batches": "single batches",
    "console": "printed on the console",
    "grid": "grid search",
    "epochs": "count on",
}
# Logs whose best checkpoint makes at most 5 errors: the earliest near the best.
GUARDED = {
    "AKBoles+Voice-Identification__oci_training.log": 8,
    "AKBoles+Voice-Identification__training.log": 6,
    "Rodwanbagdadi+BERT_model": 125,
}
RULES = {
    ("accuracy", "nll"): "ac-nll",
    ("nll",): "pure-nll",
    ("accuracy",): "source-acc",
    ("f1", "nll"): "ac",
    ("nll", "wer"): "ac",
    ("F1", "nll"): "ac",
    ("loss", "mAP50", "mAP50-95"): "ac",
    ("AP",): "pure-AP",
    ("RMSE",): "pure-RMSE",
}


def _expected() -> list[dict[str, str]]:
    with EXPECTED.open(newline="") as file:
        return list(csv.DictReader(file))


ROWS = _expected()
READ = [row["file"] for row in ROWS if row["outcome"] == "read"]
REFUSED = {row["file"]: row["choice_or_reason"] for row in ROWS if row["outcome"] == "refused"}


@pytest.fixture(scope="module")
def listed() -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in index()}


def place(row: Mapping[str, str], folder: Path) -> Path:
    """A copy of a file at the path that it has in its repository."""
    source, target = REAL_LOGS / row["file"], folder / row["repo"] / row["path"]
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source / target.name, target)
    else:
        shutil.copyfile(source, target)
    return target


def _one(path: Path) -> Trajectory:
    (run,) = cw.load_runs(path).values()
    return run


def test_the_list_covers_enough() -> None:
    kinds = Counter(row["kind"].removesuffix("-short") for row in ROWS if row["outcome"] == "read")
    assert sum(kinds.values()) >= 60
    assert len(kinds) >= 6
    assert sum(1 for row in ROWS if row["file"].startswith("more")) >= 20


@requires("shared")
def test_the_list_is_what_the_independent_reading_gives() -> None:
    package("tensorboard")
    assert [expected_row(row) for row in index()] == ROWS


def _unlike(row: Mapping[str, str], folder: Path) -> list[str]:
    """What of a file is read otherwise than by the independent reading."""
    account, run = read(row), _one(place(row, folder))
    selection = cw.select(run, guard=False)
    guarded = next((step for part, step in GUARDED.items() if part in row["file"]), selection.step)
    facts = {
        "steps": (run.steps.tolist(), list(account.steps)),
        "values": (
            {metric: table.tolist() for metric, table in run.values.items()},
            {metric: _floats(table) for metric, table in account.values.items()},
        ),
        "columns": (
            sorted(run.columns.values()),
            sorted(c for columns in account.columns.values() for c in columns),
        ),
        "percent": (any("percent" in note for note in run.notes), account.percent),
        "rule": (selection.rule, RULES[tuple(sorted(account.values))]),
        "choice": (selection.step, account.choice()),
        "guarded choice": (cw.select(run).step, guarded),
    }
    return [name for name, (came, expected) in facts.items() if came != expected]


@requires("shared")
def test_each_is_read_as_by_the_independent_reading(
    listed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    package("tensorboard")
    found = {file: _unlike(listed[file], tmp_path / str(k)) for k, file in enumerate(READ)}
    assert not {file: unlike for file, unlike in found.items() if unlike}


@requires("shared")
def test_the_number_of_examples_is_that_of_the_evaluation_and_not_a_divisor(
    listed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """Accuracies of multiples of 1/150, of 300 examples: 10 errors at the best, and not 5."""
    (file,) = (name for name in READ if name.startswith("hf") and "FemSafe" in name)
    chosen = cw.select(_one(place(listed[file], tmp_path)))
    assert chosen.as_dict()["guard"] == {
        "acted": False,
        "errors": 10,
        "examples": 300,
        "without": 300,
    }


@requires("shared")
def test_each_is_refused_with_the_reason(listed: dict[str, dict[str, str]], tmp_path: Path) -> None:
    otherwise = {}
    for number, (file, reason) in enumerate(REFUSED.items()):
        with pytest.raises(cw.InputError) as refusal:
            cw.load_runs(place(listed[file], tmp_path / str(number)))
        said = str(refusal.value)
        if not re.search(MESSAGES[reason], said) or "\n" in said:
            otherwise[file] = said
    assert not otherwise


# Their `checkpoint-<step>` are of two trainings that wrote into one folder, by their own states.
MIXED = (
    "DevJGraham/neiss_pedestrian_accounts",
    "Franmartin09/Requirement-Classification-Fine-Tuning",
)


@requires("shared")
def test_the_folder_of_a_repository_gives_the_runs_of_its_logs(
    listed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    package("tensorboard")
    repositories: dict[str, list[dict[str, str]]] = {}
    for row in listed.values():
        repositories.setdefault(row["repo"], []).append(row)
    for number, rows in enumerate(repositories.values()):
        folder = tmp_path / str(number)
        for row in rows:
            place(row, folder)
        accounts = [account for account in map(read, rows) if not account.reason]
        if not accounts:
            with pytest.raises(cw.InputError):
                cw.load_runs(folder)
            continue
        logged = [
            (list(account.steps), {m: _floats(table) for m, table in account.values.items()})
            for account in accounts
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cw.CheckwiseWarning)  # runs that are left out
            if row["repo"] in MIXED:
                with refused("ambiguous"):
                    cw.load_runs(folder)
                continue
            runs = cw.load_runs(folder)
        for run in runs.values():
            values = {metric: table.tolist() for metric, table in run.values.items()}
            assert (run.steps.tolist(), values) in logged, row["repo"]


def _floats(table: list[list[Decimal]]) -> list[list[float]]:
    return [[float(value) for value in row] for row in table]
