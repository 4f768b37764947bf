"""Trials of a study are runs; the best checkpoint over all of them is that of a literal search."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.cli import main
from checkwise.selection import best_run
from tests.requirements import available

available("optuna")

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
REPORTED = [
    [0.61, 0.74, 0.73, 0.7],
    [0.5, float("nan"), 0.72],
    [0.66, 0.71, 0.76, 0.75],
    [0.2],  # pruned
    [],  # failed before it reported anything
]


def study(storage: str | None, name: str | None, direction: str = "maximize") -> Any:
    made = optuna.create_study(study_name="digits", storage=storage, direction=direction)
    if name:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            made.set_metric_names([name])

    def objective(trial: Any) -> float:
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        reported = REPORTED[trial.number]
        for step, value in enumerate(reported):
            trial.report(value, 10 * step)
        if not reported:
            raise ValueError
        if len(reported) == 1:
            raise optuna.TrialPruned
        return float(reported[-1])

    made.optimize(objective, n_trials=len(REPORTED), catch=ValueError)
    return made


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    file = tmp_path_factory.mktemp("optuna") / "study.db"
    return study(f"sqlite:///{file}", "accuracy"), file


def test_the_object_and_its_storage_are_the_same_runs(stored: tuple[Any, Path]) -> None:
    made, file = stored
    before = file.read_bytes()
    runs = cw.load_runs(made)
    again = cw.load_runs(file)
    assert [*map(str, runs)] == [*map(str, again)]
    for run, other in zip(runs.values(), again.values(), strict=True):
        assert run.identity == other.identity
    assert [run.steps.tolist() for run in runs.values()] == [
        [10 * step for step, value in enumerate(r) if value == value] for r in REPORTED if r
    ]
    chosen = [cw.select(run) for run in runs.values()]
    assert [s.step for s in chosen] == [10, 20, 20, 0]
    assert best_run(chosen) == 2
    assert file.read_bytes() == before


def test_the_best_checkpoint_over_all_trials(
    stored: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["select", str(stored[1]), "--best"])
    said = capsys.readouterr().out
    assert said.startswith("Use step 20")
    assert "trial 2" in said


def test_what_is_reported_is_never_guessed(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    made = study(f"sqlite:///{file}", None)
    for source in (made, file):
        with pytest.raises(cw.InputError, match="--column accuracy=value") as refused:
            cw.load_runs(source)
        assert refused.value.code == "ambiguous"
        runs = cw.load_runs(source, columns={"accuracy": "value"})
        assert [cw.select(run).step for run in runs.values()] == [10, 20, 20, 0]
        with pytest.raises(cw.InputError) as refused:
            cw.load_runs(source, columns={"nll": "value"})  # the study maximizes
        assert refused.value.code == "differs"


def test_a_damaged_storage_and_one_without_values(stored: tuple[Any, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    shutil.copy(stored[1], broken)
    with sqlite3.connect(broken) as database:
        database.execute(
            "UPDATE trial_intermediate_values SET step = 'one' "
            "WHERE trial_intermediate_value_id = 1"
        )
    with pytest.raises(cw.InputError) as refused:
        cw.load_runs(broken)
    assert refused.value.code == "format"
    with pytest.raises(cw.InputError) as refused:
        cw.load_runs(optuna.create_study())
    assert refused.value.code == "empty"


def _told(storage: str, name: str, attributes: dict[str, object], value: float = 0.5) -> Any:
    made = optuna.create_study(study_name=name, storage=storage, direction="maximize")
    made.set_metric_names(["accuracy"])
    trial = made.ask()
    for key, cell in attributes.items():
        trial.set_user_attr(key, cell)
    trial.report(value, 1)
    made.tell(trial, value)
    return made


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("test", {}),
        ("photo_test", {}),
        ("s", {"split": "test"}),
        ("s", {"split": "photo_test"}),
        ("s", {"is_test": True}),
        ("s", {"is_val": 0}),
        ("s", {"data": {"split": ["test"]}}),
    ],
)
def test_a_study_or_an_attribute_that_says_test_is_asked_about(
    name: str, attributes: dict[str, object], tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    made = _told(storage, name, attributes)
    for source in (made, tmp_path / "study.db"):
        with pytest.raises(cw.InputError) as refused:
            cw.load_runs(source)
        assert refused.value.code == "held-out"
    if not attributes:
        assert len(cw.load_runs(made, sources=name)) == 1
    _told(storage, "other", {"split": "val", "val_loss": 0.1, "note": "as in the test"}, 0.4)
    with pytest.warns(cw.CheckwiseWarning, match="1 of 2 runs"):
        (run,) = cw.load_runs(tmp_path / "study.db").values()
    assert run.values["accuracy"].tolist() == [[0.4]]
    if not attributes:
        assert len(cw.load_runs(tmp_path / "study.db", sources=name)) == 2


@pytest.mark.parametrize("name", ["accuracy", "val_acc", "val/top1_accuracy"])
def test_an_accuracy_that_is_minimised_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    for source in (study(f"sqlite:///{file}", name, "minimize"), file):
        with pytest.raises(cw.InputError, match="minimize") as refused:
            cw.load_runs(source)
        assert refused.value.code == "differs"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_study_of_training_is_not_read(tmp_path: Path) -> None:
    made = _told(f"sqlite:///{tmp_path / 'study.db'}", "s", {})
    made.set_metric_names(["train_accuracy"])
    for source in (made, tmp_path / "study.db"):
        with pytest.raises(cw.InputError) as refused:
            cw.load_runs(source)
        assert refused.value.code == "missing"


@pytest.mark.parametrize("number", [None, "one", 1.5])
def test_a_trial_without_a_whole_number(
    stored: tuple[Any, Path], number: object, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.db"
    shutil.copy(stored[1], broken)
    with sqlite3.connect(broken) as database:
        database.execute("UPDATE trials SET number = ? WHERE number = 1", (number,))
    with pytest.raises(cw.InputError, match="number") as refused:
        cw.load_runs(broken)
    assert refused.value.code == "format"
