"""Keras trains with the callback: real fits of a tiny model on torch, no mocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.integrations.tensorboard import TensorBoardLog
from checkwise.selection import KeepEvery
from tests.requirements import available

available("keras")

import keras
import torch

from checkwise.integrations.keras import ReliabilityCheckpoint
from tests.integrations.keras_models import (
    Watch,
    examples,
    fit,
    network,
    step_of,
    validation_sets,
)
from tests.refusals import refused

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Keras, torch and NumPy warn about each other
    pytest.mark.filterwarnings("error::checkwise.errors.CheckwiseWarning"),
]

SETS = validation_sets("a", "b")


def callback(folder: Path, sets: Any = SETS, **options: Any) -> ReliabilityCheckpoint:
    named: dict[str, Any] = {"rule": "ac-nc", "delta_pp": 0.5, "kind": "logits", "dirpath": folder}
    return ReliabilityCheckpoint(sets, **{**named, **options})


def checkpoints(folder: Path) -> set[int]:
    """The steps on disk; a link is none."""
    return {
        int(path.name.split("-")[3].split(".")[0])
        for path in folder.glob("epoch-*")
        if not path.is_symlink()
    }


@pytest.mark.parametrize(
    ("rule", "only"), [("ac-nc", False), ("source-acc", True), ("pure-nll", 0)]
)
def test_the_choice_is_that_of_select_on_the_same_predictions(
    tmp_path: Path, rule: str, only: bool
) -> None:
    params: dict[str, Any] = {"delta_pp": 4} if rule == "ac-nc" else {"delta_pp": None}
    params = {name: value for name, value in params.items() if value is not None}
    watch = Watch(SETS)
    choosing = ReliabilityCheckpoint(
        SETS, rule, dirpath=tmp_path, kind="logits", weights_only=bool(only), **params
    )
    model = network()
    history = fit(model, watch, choosing, epochs=6).history
    offline = cw.select(cw.Trajectory.from_predictions(watch.seen), rule, **params)
    assert choosing.selection is not None
    assert choosing.selection.step == offline.step
    assert choosing.selection.score == pytest.approx(offline.score, rel=1e-9)
    assert choosing.selection.feasible_steps == offline.feasible_steps
    assert choosing.selection.ties == offline.ties  # said, as offline
    stays = {*(offline.trajectory.steps if rule == "pure-nll" else offline.feasible_steps), 24}
    assert checkpoints(tmp_path) == stays
    ending = ".weights.h5" if only else ".keras"
    assert choosing.best_model_path.endswith(f"-step-{offline.step:06d}{ending}")
    assert Path(choosing.last_model_path).resolve().name == f"epoch-0006-step-000024{ending}"
    assert history["checkwise/choice"][-1] == offline.step
    report = cw.metrics.evaluate(logits=watch.seen[24]["b"][0], labels=watch.seen[24]["b"][1])
    assert history["checkwise/b/nll"][-1] == pytest.approx(report.nll, rel=1e-9)
    chosen = network()
    if only:
        chosen.optimizer.build(chosen.trainable_variables)
        chosen.load_weights(choosing.best_model_path)
    else:
        chosen = keras.models.load_model(choosing.best_model_path)
    said = chosen.predict_on_batch(SETS["a"][0])
    np.testing.assert_allclose(said, watch.seen[offline.step]["a"][0], rtol=1e-6)
    assert cw.select(cw.load(tmp_path)).step == offline.step


@pytest.mark.parametrize("given", ["validation_data", "validation_split", "a data set"])
def test_the_validation_data_of_fit_is_not_repeated(
    tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = examples(64, 0)
    held = (x[48:], y[48:])  # what fit splits off: the last quarter
    options: dict[str, Any] = {"validation_split": 0.25} if given == "validation_split" else {}
    if given == "validation_data":
        options = {"validation_data": held, "validation_batch_size": 5}
    elif given == "a data set":
        rows = torch.utils.data.TensorDataset(*map(torch.tensor, held))
        options = {"validation_data": torch.utils.data.DataLoader(rows, batch_size=5)}
    watch, choosing = Watch({"validation": held}), callback(tmp_path, None, delta_pp=7)
    fit(network(), watch, choosing, epochs=3, **options)
    offline = cw.select(cw.Trajectory.from_predictions(watch.seen), "ac-nc", delta_pp=7)
    assert choosing.selection is not None
    assert choosing.selection.step == offline.step
    assert choosing.selection.score == pytest.approx(offline.score, rel=1e-6)
    (said,) = [
        line for line in capsys.readouterr().err.splitlines() if "a checkpoint takes" in line
    ]
    assert "at most 3" in said


def test_a_fit_without_validation_data_is_refused_after_the_first_epoch(tmp_path: Path) -> None:
    with refused("missing: validation_data= … validation_split="):
        fit(network(), callback(tmp_path, None), epochs=1)


def test_one_unit_and_labels_0_and_1(tmp_path: Path) -> None:
    """As most binary models are written; the same as two columns."""
    x, y = examples(64, 0)
    labels = (y > 0).astype(np.float32)[:, None]
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer="sgd", loss="binary_crossentropy")
    choosing = callback(tmp_path, None, kind="probs", predictions=True)
    model.fit(x, labels, validation_data=(x, labels), epochs=2, verbose=0, callbacks=[choosing])
    one = model.predict(x, verbose=0)
    report = cw.metrics.evaluate(probs=np.hstack([1 - one, one]), labels=labels[:, 0].astype(int))
    assert choosing.selection is not None
    run = choosing.selection.trajectory
    assert run.values["nll"][-1, 0] == pytest.approx(report.nll, rel=1e-6)
    assert cw.load(tmp_path / "predictions").values["nll"][-1, 0] == pytest.approx(report.nll)


def test_a_tolerance_that_compares_examples_chooses_as_select_does(tmp_path: Path) -> None:
    watch = Watch(SETS)
    choosing = ReliabilityCheckpoint(SETS, dirpath=tmp_path, kind="logits", tolerance="paired")
    fit(network(), watch, choosing, epochs=3)
    run = cw.Trajectory.from_predictions(watch.seen)
    offline = cw.select(run, "ac-nc", tolerance="paired")
    assert choosing.selection is not None
    assert choosing.selection.step == offline.step
    assert choosing.selection.feasible_steps == offline.feasible_steps


def test_the_callback_does_not_change_the_training(tmp_path: Path) -> None:
    alone, beside = network(), network()
    fit(alone)
    fit(beside, callback(tmp_path))
    for one, other in zip(alone.get_weights(), beside.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_probabilities_one_hot_labels_and_data_sets_of_batches(tmp_path: Path) -> None:
    x, y = examples(30, 3)
    one_hot = np.eye(3)[y]
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=7
    )

    class Batches(keras.utils.PyDataset):  # type: ignore[misc, unused-ignore]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return x[10 * index : 10 * index + 10], y[10 * index : 10 * index + 10, None]

    sets = {"arrays": (x, one_hot), "loader": loader, "indexed": Batches(workers=1)}
    choosing = callback(tmp_path, sets, kind="probs", batch_size=4)
    model = network(softmax=True)
    fit(model, choosing, epochs=2)
    assert choosing.selection is not None
    run = choosing.selection.trajectory
    report = cw.metrics.evaluate(probs=model.predict_on_batch(x), labels=y)
    for column in range(3):
        for name, value in report.values().items():
            assert run.values[name][-1, column] == pytest.approx(value, rel=1e-6)
    assert run.counts is not None
    assert run.counts.tolist() == [30, 30, 30]


@pytest.mark.parametrize("weights_only", [False, True])
def test_resuming_goes_on_with_the_records(tmp_path: Path, weights_only: bool) -> None:
    options: dict[str, Any] = {"weights_only": weights_only, "delta_pp": 3}
    fit(network(), callback(tmp_path / "run", **options), epochs=3)
    resumed = callback(tmp_path / "run", resume=True, **options)
    history = fit(network(), resumed, epochs=6)
    assert history.epoch == [3, 4, 5]
    whole = callback(tmp_path / "whole", **options)
    fit(network(), whole, epochs=6)
    assert resumed.selection is not None
    assert whole.selection is not None
    assert resumed.selection.trajectory.digest == whole.selection.trajectory.digest
    assert checkpoints(tmp_path / "run") == checkpoints(tmp_path / "whole")


def test_a_first_start_with_resume_starts_and_a_second_training_is_refused(tmp_path: Path) -> None:
    fit(network(), callback(tmp_path, resume=True), epochs=2)
    with refused("exists: pass resume=True"):
        fit(network(), callback(tmp_path), epochs=2)
    with refused("differs: delta_pp … 0.5 … 1"):
        fit(network(), callback(tmp_path, delta_pp=1, resume=True), epochs=3)
    # The link may be lost, as where a folder was copied.
    (tmp_path / "last.keras").unlink()
    again = callback(tmp_path, resume=True)
    assert fit(network(), again, epochs=3).epoch == [2]
    assert Path(again.last_model_path).resolve().name == "epoch-0003-step-000012.keras"


def test_the_same_model_trains_on_and_nothing_is_overwritten(tmp_path: Path) -> None:
    choosing, model = callback(tmp_path, keep=KeepEvery(1)), network()
    fit(model, choosing, epochs=2)
    before = {path: path.read_bytes() for path in tmp_path.glob("epoch-*")}
    fit(model, choosing, epochs=2)
    assert checkpoints(tmp_path) == {4, 8, 12, 16}
    older = callback(tmp_path, keep=KeepEvery(1), resume=tmp_path / "epoch-0001-step-000004.keras")
    assert fit(network(), older, epochs=3).epoch == [1, 2]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert older.selection is not None
    assert older.selection.trajectory.steps.tolist() == [4, 8, 9, 12, 13, 16]


def test_an_interrupted_training_can_go_on_in_the_same_process(tmp_path: Path) -> None:
    class Interrupt(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    first = callback(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(network(), first, Interrupt(), epochs=4)
    assert fit(network(), callback(tmp_path, resume=True), epochs=4).epoch == [2, 3]


def test_a_save_that_fails_leaves_the_records_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosing, model = callback(tmp_path), network()
    fit(model, choosing, epochs=1)
    journal = (tmp_path / "checkwise.jsonl").read_bytes()

    def half(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model, "save", half)
    with pytest.raises(cw.InputError, match=r"step-000008\.keras") as refused:
        fit(model, choosing, epochs=1)
    assert refused.value.code == "system"
    assert (tmp_path / "checkwise.jsonl").read_bytes() == journal
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert step_of(Path(choosing.best_model_path)) == 4


def test_a_checkpoint_that_diverged_is_saved_and_never_chosen(tmp_path: Path) -> None:
    class Diverge(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                weights = self.model.get_weights()
                self.kept = [w.copy() for w in weights]
                self.model.set_weights([np.full_like(w, np.nan) for w in weights])

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                self.model.set_weights(self.kept)

    choosing = callback(tmp_path, delta_pp=20)
    fit(network(), Diverge(), choosing, epochs=3)
    assert choosing.selection is not None
    assert choosing.selection.trajectory.diverged.tolist() == [False, True, False]
    assert choosing.selection.step != 8
    assert 8 not in checkpoints(tmp_path)


def test_never_more_checkpoints_on_disk_than_promised(tmp_path: Path) -> None:
    counts: list[tuple[int, int]] = []
    model = network(rate=2.0)
    save = model.save

    def counted(path: str) -> None:
        save(path)
        feasible = 0 if choosing.selection is None else len(choosing.selection.feasible_steps)
        counts.append((feasible, len(checkpoints(tmp_path)) + 1))

    model.save = counted
    choosing = callback(tmp_path, delta_pp=3)
    fit(model, choosing, epochs=16)
    assert len(counts) == 16
    assert all(there <= feasible + 2 for feasible, there in counts)
    assert choosing.selection is not None
    assert len(checkpoints(tmp_path)) <= len(choosing.selection.feasible_steps) + 1


def test_what_is_held_out_is_never_read(tmp_path: Path) -> None:
    class Poison:
        shape = (5,)

        def __getitem__(self, part: Any) -> Any:
            raise AssertionError("a held-out set was read")

    sets = {**SETS, "target": (Poison(), Poison())}
    choosing = callback(tmp_path, sets)
    history = fit(network(), choosing, epochs=1).history
    assert choosing.selection is not None
    assert choosing.selection.trajectory.domains == ("a", "b")
    assert not [name for name in history if "target" in name]
    choosing = callback(tmp_path / "one", sets, held_out="b")
    fit(network(), choosing, epochs=1)
    assert choosing.selection is not None
    assert choosing.selection.trajectory.domains == ("a",)


def test_members_of_an_average_and_trackers_as_with_the_other_callbacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choosing = callback(
        tmp_path / "run",
        delta_pp=0,
        average_within_pp=10,
        tracker=TensorBoardLog(tmp_path / "tb"),
        every=2,
    )
    fit(network(), choosing, epochs=5)
    assert choosing.selection is not None
    assert choosing.selection.trajectory.steps.tolist() == [8, 16, 20]  # and the last
    members = choosing.members()
    assert set(members) <= checkpoints(tmp_path / "run")
    said = capsys.readouterr().err
    assert "for an average: step" in said
    assert f"keras.load_chosen({str(tmp_path / 'run')!r}, average_within_pp=10)." in said
    assert cw.select(cw.load(tmp_path / "tb"), "ac-nc", delta_pp=0).step == choosing.selection.step


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": None}, 'Expected kind="logits" or kind="probs", but got None'),
        ({"delta_pp": -1}, "delta_pp"),
        ({"rule": "ac-ncc"}, "ac-nc"),
        ({"keep": 3}, r"as KeepLast\(2\), but got 3"),
        ({"tracker": TensorBoardLog}, "Expected a tracker"),
        ({"outputs": "logits"}, "a function as outputs"),
        ({"every": 0}, "every"),
        ({"batch_size": 0}, "batch_size"),
        ({"dirpath": "gs://bucket/run"}, "a folder of this machine"),
        ({"held_out": "c"}, "'c'"),
        ({"sets": {}}, "at least one validation set"),
        ({"sets": {"a": iter([])}}, "gone through again"),
        ({"sets": {"a": 3}}, "gone through again"),
        ({"sets": {"test": SETS["a"]}}, "test"),
    ],
)
def test_wrong_arguments_are_refused_when_the_callback_is_made(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(cw.InputError, match=message) as refused:
        callback(tmp_path / "run", **options)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


class Untrained(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        raise AssertionError("training began")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": {"a": examples(0, 1)}}, "empty: 'a'"),
        ({"sets": {"a": (SETS["a"][0], SETS["a"][1] + 7)}}, "value: 0 … 2"),
        ({"sets": {"a": (SETS["a"][0], SETS["a"][1] + 0.5)}}, "value: one-hot"),
        ({"kind": "probs"}, "value"),
        ({"outputs": lambda returned: returned[:, 0]}, "value"),
        ({"resume": "nowhere.keras"}, "missing"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_batch(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with refused(message):
        fit(network(), Untrained(), callback(tmp_path, **options))


def test_probabilities_under_the_name_of_logits_are_refused(tmp_path: Path) -> None:
    with refused('value: kind="probs"'):
        fit(network(softmax=True), Untrained(), callback(tmp_path))


def test_a_folder_that_cannot_be_written_and_a_changed_set_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("system"):
        fit(network(), Untrained(), callback(tmp_path / "file" / "run"))
    fit(network(), callback(tmp_path / "run"), epochs=1)
    more = {**SETS, "a": examples(30, 97)}
    with refused("differs: examples … 'a' … 8"):
        fit(network(), callback(tmp_path / "run", more, resume=True), epochs=2)


def test_evaluations_outside_a_fit_leave_no_record(tmp_path: Path) -> None:
    choosing, model = callback(tmp_path), network()
    fit(model, choosing, epochs=1, validation_data=SETS["b"])
    journal = (tmp_path / "checkwise.jsonl").read_bytes()
    model.evaluate(*SETS["a"], callbacks=[choosing], verbose=0)
    model.predict(SETS["a"][0], callbacks=[choosing], verbose=0)
    assert (tmp_path / "checkwise.jsonl").read_bytes() == journal
