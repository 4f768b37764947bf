"""Lists of values, as JSON or in a program: Keras, boosted trees, loops of people's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.cli import main
from tests.material import __file__ as here
from tests.refusals import refused
from tests.requirements import package

MORE = Path(here).parent / "more"
VAL = {"val_acc": [0.5, 0.9, 0.898], "val_loss": [0.9, 0.5, 0.4]}
FORMS: dict[str, Any] = {
    "lists": VAL,
    "beside metadata": {**VAL, "timestamp": "now", "classes": ["a", "b"], "best_val_acc": 0.9},
    "inside": {"config": {"lr": 0.1, "layers": [3, 3, 3, 3]}, "history": VAL},
    "by split": {
        "train": {"loss": [3, 2, 1]}, "val": {"acc": VAL["val_acc"], "loss": VAL["val_loss"]},
    },
    "records": [
        {"epoch": k, "val": {"acc": VAL["val_acc"][k], "loss": VAL["val_loss"][k]}}
        for k in range(3)
    ],
    "records inside": {
        "model": "cnn",
        "epochs": [{"epoch": k, **{n: v[k] for n, v in VAL.items()}} for k in range(3)],
    },
    "by epoch": {
        f"epoch_{k}": {name: values[k] for name, values in VAL.items()} for k in range(3)
    },
    "plural": {"val_accuracies": VAL["val_acc"], "val_loss_history": VAL["val_loss"]},
    "of pandas": {name: dict(zip("012", values, strict=True)) for name, values in VAL.items()},
    "arrays": {name: np.array(values, np.float32) for name, values in VAL.items()},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_run(form: str, tmp_path: Path) -> None:
    held = cw.Trajectory.from_history(FORMS[form])
    assert (held.steps.tolist(), cw.select(held).step) == ([0, 1, 2], 2)
    assert held.values["accuracy"][:, 0].tolist() == VAL["val_acc"]
    assert held.paths is None
    if form == "arrays":
        return
    path = tmp_path / "training_history.json"
    path.write_text(json.dumps(FORMS[form], indent=2))
    for place in (path, tmp_path):
        assert cw.load(place).digest == held.digest


def test_what_stands_beside_the_lists_is_named() -> None:
    notes = " ".join(cw.Trajectory.from_history(FORMS["beside metadata"]).notes)
    assert "not read: " in notes
    assert all(name in notes for name in ("timestamp", "classes", "best_val_acc"))


def test_what_is_no_history_is_refused() -> None:
    others: list[Any] = [{}, 3, {"val_acc": 0.5}, "val_acc", []]
    for given in others:
        with refused("value: history"):
            cw.Trajectory.from_history(given)
    with refused("differs: 2 … 3"):
        cw.Trajectory.from_history({"val_acc": [0.5, 0.6], "val_loss": [1, 2, 3]})
    with refused("missing: --column"):
        cw.Trajectory.from_history({"accuracy": [0.5, 0.6], "loss": [1, 2]})
    run = cw.Trajectory.from_history({"accuracy": [0.5, 0.6]}, columns={"accuracy": "accuracy"})
    assert run.metrics == ("accuracy",)


def test_words_beside_the_lists_may_say_that_they_are_of_test(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({**VAL, "split": "test"}))
    with refused("held-out: split … test"):
        cw.load(path)
    assert len(cw.load(path, sources="test")) == 3


TREES = {"mlogloss": [1.0, 0.5, 0.51, 0.4], "merror": [0.5, 0.2, 0.2, 0.204]}
LEARN = {name: [value / 10 for value in values] for name, values in TREES.items()}


@pytest.mark.parametrize("name", ["test", "Test set", "ood", "held_out", "target", "x_test"])
def test_lists_inside_what_is_called_after_a_test_are_not_read(name: str, tmp_path: Path) -> None:
    val, poison = VAL, {**VAL, "val_acc": [0.9, 0.1, 0.1]}
    inside = ({name: poison}, {"run": {name: poison}}, {name: {"history": poison}})
    records = [{"epoch": k, **{n: v[k] for n, v in poison.items()}} for k in range(3)]
    for alone in (*inside, {name: records}, {"train": {"loss": [3, 2, 1]}, name: poison}):
        with pytest.raises(cw.InputError):
            cw.Trajectory.from_history(alone)
        (tmp_path / "history.json").write_text(json.dumps(alone))
        with pytest.raises(cw.InputError):
            cw.load(tmp_path / "history.json")
    for other in inside:
        run = cw.Trajectory.from_history({"a": val, **other})
        assert run.values["accuracy"][:, 0].tolist() == VAL["val_acc"]
    run = cw.Trajectory.from_history({"val": {"f1": [0.5, 0.9, 0.8]}, name: poison})
    assert list(run.values) == ["f1"]


@pytest.mark.parametrize(
    "beside",
    [
        {"is_test": True},
        {"test": True},
        {"evaluated_on_test": True},
        {"eval_split": "test"},
        {"eval_split": ["test"]},
        {"eval": {"split": ["test"]}},
        {"split": ["val", "val", "test", "test"]},
    ],
)
def test_what_stands_beside_the_lists_may_say_test(beside: dict[str, Any]) -> None:
    with refused("held-out: test"):
        cw.Trajectory.from_history({**VAL, **beside})


def test_no_list_of_values_is_refused(tmp_path: Path) -> None:
    empties: list[Any] = [{"0": 0.9, "1": 0.8}, {"epoch_1": []}, {"a": [{}]}, {"a": {}}]
    for empty in empties:
        with pytest.raises(cw.InputError):
            cw.Trajectory.from_history(empty)
        (tmp_path / "history.json").write_text(json.dumps(empty))
        with pytest.raises(cw.InputError) as error:
            cw.load(tmp_path / "history.json")
        assert "readable path" not in str(error.value)


@pytest.mark.parametrize("name", ["train", "learn", "training", "Train", "dtrain_train"])
def test_a_set_of_training_is_not_read(name: str) -> None:
    run = cw.Trajectory.from_history({name: LEARN, "valid": TREES})
    assert run.domains == ("valid",)
    assert run.steps.tolist() == [1, 2, 3, 4]
    assert cw.select(run).step == 4


def test_several_sets_are_domains_and_one_called_test_is_held_out() -> None:
    sets = {"train": LEARN, "eval_a": TREES, "eval_b": LEARN, "test": TREES}
    run = cw.Trajectory.from_history(sets)
    assert run.domains == ("eval_a", "eval_b")
    assert any("test" in note for note in run.notes)
    assert cw.Trajectory.from_history(sets, held_out="eval_b").domains == ("eval_a",)
    with refused("held-out: test"):
        cw.Trajectory.from_history({"train": LEARN, "test": TREES})
    named = cw.Trajectory.from_history({"train": LEARN, "test": TREES}, sources="test")
    assert named.domains == ("test",)


CALLS = {
    "iteration_range=(0, 4)": TREES,
    "num_iteration=4": {"multi_logloss": TREES["mlogloss"], "multi_error": TREES["merror"]},
    "ntree_end=4": {"MultiClass": TREES["mlogloss"], "ZeroOneLoss": TREES["merror"]},
}


@pytest.mark.parametrize("call", CALLS)
def test_the_answer_names_the_call(call: str) -> None:
    run = cw.Trajectory.from_history({"learn": CALLS[call], "valid": CALLS[call]})
    assert run.values["accuracy"][:, 0].tolist() == [0.5, 0.8, 0.8, 0.796]
    assert call in run.call.format(step=cw.select(run).step)


def test_the_first_set_of_a_classifier_may_be_the_training_data() -> None:
    run = cw.Trajectory.from_history({"validation_0": LEARN, "validation_1": TREES})
    assert any("--held-out validation_0" in note for note in run.notes)
    one = cw.Trajectory.from_history(
        {"validation_0": LEARN, "validation_1": TREES}, held_out="validation_0"
    )
    assert one.domains == ("validation_1",)


def test_two_lists_of_one_name_are_asked_about() -> None:
    with refused("ambiguous: val/acc"):
        cw.Trajectory.from_history({"val": {"acc": [0.5, 0.6]}, "val/acc": [0.1, 0.2]})


def _digits() -> tuple[Any, ...]:
    x, y = package("sklearn.datasets").load_digits(return_X_y=True)
    return x[:800], y[:800], x[800:1200], y[800:1200]


def _literally(error: list[float], loss: list[float]) -> int:
    """Of the numbers of trees within half a point of the best, that of the lowest loss."""
    right = [round(1 - one, 12) for one in error]
    near = [k for k, one in enumerate(right) if one >= max(right) - 0.005 - 1e-11]
    return 1 + min(near, key=lambda k: (loss[k], -right[k], k))


def test_xgboost(tmp_path: Path) -> None:
    xgboost = package("xgboost")
    x, y, x_val, y_val = _digits()
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=2, eval_metric=["merror", "mlogloss"])
    model.fit(x, y, eval_set=[(x_val, y_val)], verbose=False)
    history = model.evals_result()
    chosen = cw.select(cw.Trajectory.from_history(history), guard=False)
    of_set = history["validation_0"]
    assert chosen.step == _literally(of_set["merror"], of_set["mlogloss"])
    (tmp_path / "evals.json").write_text(json.dumps(history))
    assert cw.load(tmp_path / "evals.json").digest == chosen.trajectory.digest


def test_lightgbm() -> None:
    lightgbm = package("lightgbm")
    x, y, x_val, y_val = _digits()
    history: dict[str, Any] = {}
    data = lightgbm.Dataset(x, y)
    lightgbm.train(
        {"objective": "multiclass", "num_class": 10, "verbose": -1, "num_leaves": 4,
         "num_threads": 1, "metric": ["multi_error", "multi_logloss"]},
        data, num_boost_round=12,
        valid_sets=[data, lightgbm.Dataset(x_val, y_val, reference=data)],
        valid_names=["train", "valid"],
        callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip
    run = cw.Trajectory.from_history(history)
    of_set = history["valid"]
    assert run.domains == ("valid",)
    expected = _literally(of_set["multi_error"], of_set["multi_logloss"])
    assert cw.select(run, guard=False).step == expected
    assert "num_iteration" in run.call


@pytest.mark.parametrize("sets", [1, 2])
def test_catboost(sets: int, tmp_path: Path) -> None:
    catboost = package("catboost")
    x, y, x_val, y_val = _digits()
    pool = [(x_val[k::sets], y_val[k::sets]) for k in range(sets)]
    model = catboost.CatBoostClassifier(
        iterations=12, depth=2, custom_metric=["Accuracy"], verbose=False, thread_count=1,
        train_dir=str(tmp_path / "catboost_info"),
    )  # fmt: skip
    model.fit(x, y, eval_set=pool if sets > 1 else pool[0], use_best_model=False)
    run = cw.load(tmp_path)
    assert run.call.format(step=3) == "predict(…, ntree_end=3)"
    assert any("eval_set" in note for note in run.notes)
    results = [one for name, one in model.get_evals_result().items() if name != "learn"]
    right = np.mean([one["Accuracy"] for one in results], axis=0)
    loss = np.mean([one["MultiClass"] for one in results], axis=0)
    chosen = cw.select(run, guard=False)
    assert chosen.step == _literally((1 - right).tolist(), loss.tolist())
    table = cw.load(tmp_path / "catboost_info" / "test_error.tsv")
    assert table.domains == run.domains
    assert table.steps.tolist() == run.steps.tolist()
    assert np.allclose(table.values["nll"], run.values["nll"], atol=1e-8)
    with refused("missing: eval_set"):
        cw.load(tmp_path / "catboost_info" / "learn_error.tsv")


def test_a_regression_of_catboost() -> None:
    chosen = cw.select(cw.load(MORE / "catboost"))
    assert (chosen.rule, chosen.step) == ("pure-RMSE", 68)
    assert "probabilit" not in chosen.explain().lower()


def test_a_history_counts_alike_in_memory_in_a_file_and_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = {"loss": [3, 2, 1], "val_accuracy": [0.5, 0.7, 0.6], "val_loss": [1, 0.8, 0.9]}
    path = tmp_path / "history.json"
    path.write_text(json.dumps(history))
    in_memory = cw.select(cw.Trajectory.from_history(history))
    assert cw.select(cw.load(path)).step == in_memory.step == 1
    with pytest.raises(SystemExit):
        main(["select", str(path)])
    assert capsys.readouterr().out.startswith("Use step 1 (2 in names of checkpoints).")
