"""Lightning trains with the callback: real fits of a tiny model, no mocks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.selection import KeepEvery
from tests.requirements import available

available("lightning")

import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from checkwise.integrations.lightning import ReliabilityCheckpoint
from tests.integrations.lightning_models import (
    Classifier,
    examples,
    fit,
    trainer,
    training_set,
    validation_sets,
)
from tests.refusals import refused


def callback(folder: Path, **options: Any) -> Any:
    named: dict[str, Any] = {
        "rule": "ac-nc",
        "delta_pp": 0.5,
        "domains": ["a", "b"],
        "dirpath": folder / "run",
    }
    return ReliabilityCheckpoint(**{**named, **options})


def checkpoints(folder: Path) -> set[str]:
    """The checkpoints on disk; a link is none."""
    return {path.name for path in folder.glob("*.ckpt") if not path.is_symlink()}


def step_of(path: str | Path) -> int:
    """The step that a checkpoint holds; only plain data is unpickled."""
    return int(torch.load(path, weights_only=True)["global_step"])


@pytest.mark.parametrize("rule", ["ac-nc", "source-acc", "pure-nll"])
def test_the_choice_is_that_of_select_on_the_same_predictions(tmp_path: Path, rule: str) -> None:
    params: dict[str, Any] = {"delta_pp": 4} if rule == "ac-nc" else {}
    log: Any = "all" if rule == "pure-nll" else "main"
    choosing: Any = ReliabilityCheckpoint(
        rule, domains=["a", "b"], dirpath=tmp_path, log=log, **params
    )
    running, module = fit(tmp_path, choosing, max_epochs=6)
    offline = cw.select(cw.Trajectory.from_predictions(module.predictions()), rule, **params)
    assert len(offline.trajectory) == 6
    assert step_of(choosing.best_model_path) == offline.step
    assert float(choosing.best_model_score) == pytest.approx(offline.score, rel=1e-9)
    assert choosing.selection.feasible_steps == offline.feasible_steps
    stays = {*(offline.trajectory.steps if rule == "pure-nll" else offline.feasible_steps), 24}
    assert {step_of(tmp_path / name) for name in checkpoints(tmp_path)} == stays
    assert {step_of(path) for path in choosing.best_k_models} == stays - {24} | (
        {24} & set(offline.feasible_steps)
    ) | ({24} if rule == "pure-nll" else set())
    assert step_of(choosing.last_model_path) == 24
    logged = running.callback_metrics
    assert logged["checkwise/choice"] == offline.step
    report = cw.metrics.evaluate(
        logits=module.predictions()[24]["b"][0], labels=module.predictions()[24]["b"][1]
    )
    of_b = {name.removeprefix("checkwise/b/") for name in logged if name.startswith("checkwise/b/")}
    names = report.values() if log == "all" else ("accuracy", "nll", "cwece")
    assert of_b == {*names, "n"}
    for name in names:
        assert float(logged[f"checkwise/b/{name}"]) == pytest.approx(
            getattr(report, name), rel=1e-6
        )


def test_best_and_last_can_be_loaded_by_lightning(tmp_path: Path) -> None:
    choosing = callback(tmp_path, delta_pp=20)
    running, module = fit(tmp_path, choosing)
    saved = torch.load(choosing.best_model_path, weights_only=True)
    running.validate(module, validation_sets("a", "b"), ckpt_path="best", verbose=False)
    assert torch.equal(module.net.weight, saved["state_dict"]["net.weight"])
    running.validate(module, validation_sets("a", "b"), ckpt_path="last", verbose=False)
    newest = torch.load(choosing.last_model_path, weights_only=True)
    assert torch.equal(module.net.weight, newest["state_dict"]["net.weight"])
    state = newest["callbacks"][choosing.state_key]
    assert state["best_model_path"] == choosing.best_model_path  # set before the save


def test_what_is_no_validation_of_a_training_leaves_no_record(tmp_path: Path) -> None:
    choosing = callback(tmp_path)
    running = trainer(tmp_path, choosing, fast_dev_run=True)
    running.fit(Classifier(), training_set(), validation_sets("a", "b"))
    assert not (tmp_path / "run").exists()
    choosing = callback(tmp_path)
    running, module = fit(tmp_path, choosing, max_epochs=1, num_sanity_val_steps=2)
    assert choosing.selection.trajectory.steps.tolist() == [4]
    journal = (tmp_path / "run" / "checkwise.jsonl").read_bytes()
    running.validate(module, validation_sets("b"), verbose=False)
    assert (tmp_path / "run" / "checkwise.jsonl").read_bytes() == journal
    assert checkpoints(tmp_path / "run") == {"epoch=0-step=4.ckpt"}


def test_of_a_validation_that_is_cut_short_what_was_seen_is_recorded(tmp_path: Path) -> None:
    choosing = callback(tmp_path)
    fit(tmp_path, choosing, max_epochs=1, limit_val_batches=2)
    assert choosing.selection.trajectory.counts.tolist() == [16, 16]


def test_one_dataloader_needs_no_name_and_keys_may_differ(tmp_path: Path) -> None:
    class Other(Classifier):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            return {"scores": self.net(batch[0]), "y": batch[1]}

    by_key: Any = ReliabilityCheckpoint(dirpath=tmp_path / "one", logits="scores", labels="y")
    trainer(tmp_path, by_key, max_epochs=1).fit(Other(), training_set(), validation_sets("a"))
    by_function: Any = ReliabilityCheckpoint(
        dirpath=tmp_path / "two",
        outputs=lambda returned, batch: (returned["scores"], batch[1]),
    )
    running = trainer(tmp_path, by_function, max_epochs=1)
    (one, two) = validation_sets("a", "b")
    running.fit(Other(), training_set(), {"left": one, "right": two})
    assert by_key.selection.trajectory.domains == ("validation",)
    assert by_function.selection.trajectory.domains == ("left", "right")


def test_a_domain_that_is_held_out_is_neither_read_nor_logged(tmp_path: Path) -> None:
    choosing = callback(tmp_path, domains=["a", "target"])
    running, module = fit(tmp_path, choosing, max_epochs=2)
    sources = {step: {"a": sets["a"]} for step, sets in module.predictions().items()}
    offline = cw.select(cw.Trajectory.from_predictions(sources), "ac-nc", delta_pp=0.5)
    assert choosing.selection.trajectory.domains == ("a",)
    assert choosing.selection.step == offline.step
    assert not [name for name in running.callback_metrics if "target" in name]


def test_a_checkpoint_that_diverged_is_saved_and_never_chosen(tmp_path: Path) -> None:
    class Diverging(Classifier):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            returned = super().validation_step(batch, batch_idx, dataloader_idx)
            if self.trainer.current_epoch != 1:
                returned["logits"] = torch.full_like(returned["logits"], torch.nan)
            return returned

    choosing = callback(tmp_path)
    running = trainer(tmp_path, choosing, max_epochs=3)
    running.fit(Diverging(), training_set(), validation_sets("a", "b"))
    assert choosing.selection.trajectory.diverged.tolist() == [True, False, True]
    assert choosing.selection.step == step_of(choosing.best_model_path) == 8
    assert {step_of(tmp_path / "run" / name) for name in checkpoints(tmp_path / "run")} == {8, 12}


def test_never_more_checkpoints_on_disk_than_promised(tmp_path: Path) -> None:
    """Feasible and two more while one is saved; feasible and one more afterwards."""
    counts: list[tuple[str, int, int]] = []

    class Counting(ModelCheckpoint):
        """Looks when a save of the other is over and when its files were deleted."""

        def on_train_batch_end(self, *arguments: Any) -> None:
            if choosing.selection is not None:
                feasible = len(choosing.selection.feasible_steps)
                counts.append(("after", feasible, len(checkpoints(tmp_path / "run"))))

    class Logger(Classifier):
        def on_save_checkpoint(self, checkpoint: Any) -> None:
            feasible = 0 if choosing.selection is None else len(choosing.selection.feasible_steps)
            counts.append(("before", feasible, len(checkpoints(tmp_path / "run")) + 1))

    choosing = callback(tmp_path, delta_pp=3)
    running = trainer(
        tmp_path, Counting(save_top_k=0), choosing, max_epochs=8, val_check_interval=2
    )
    torch.manual_seed(0)
    running.fit(Logger(rate=2.0), training_set(), validation_sets("a", "b"))
    assert len(counts) > 20
    assert {when for when, _, _ in counts} == {"before", "after"}
    for when, feasible, there in counts:
        assert there <= feasible + (2 if when == "before" else 1)


def test_further_checkpoints_are_kept_on_request(tmp_path: Path) -> None:
    choosing = callback(tmp_path, keep=KeepEvery(8), delta_pp=0)
    fit(tmp_path, choosing, max_epochs=6)
    there = {step_of(tmp_path / "run" / name) for name in checkpoints(tmp_path / "run")}
    assert {4, 8, 16, 24} <= there


def test_it_works_beside_other_callbacks(tmp_path: Path) -> None:
    own = ModelCheckpoint(dirpath=tmp_path / "own", monitor="checkwise/a/nll", save_last=True)
    stopping = EarlyStopping(monitor="checkwise/a/accuracy", mode="max", patience=1, min_delta=1)
    choosing, other = callback(tmp_path), callback(tmp_path, rule="ac-ne", dirpath=tmp_path / "ne")
    running, _ = fit(tmp_path, choosing, own, other, stopping, max_epochs=6)
    assert running.current_epoch == 2  # no gain of 1 is possible: it stops after its patience
    assert Path(own.best_model_path).parent == tmp_path / "own"
    assert choosing.selection.trajectory.steps.tolist() == [4, 8]
    assert other.selection.rule == "ac-ne"
    with refused("busy"):
        fit(
            tmp_path,
            callback(tmp_path, dirpath=tmp_path / "x"),
            ModelCheckpoint(dirpath=tmp_path / "x", save_last=True),
        )


def test_resuming_goes_on_with_the_records(tmp_path: Path) -> None:
    fit(tmp_path, callback(tmp_path), max_epochs=3)
    resumed = callback(tmp_path)
    fit(tmp_path, resumed, max_epochs=6, resume="last")
    whole = callback(tmp_path, dirpath=tmp_path / "whole")
    fit(tmp_path, whole, max_epochs=6)
    assert resumed.selection.trajectory.digest == whole.selection.trajectory.digest
    assert checkpoints(tmp_path / "run") == checkpoints(tmp_path / "whole")


def test_last_of_somebody_else_stays(tmp_path: Path) -> None:
    own = ModelCheckpoint(dirpath=tmp_path / "run", save_last=True)
    fit(tmp_path, own, max_epochs=1)
    before = (tmp_path / "run" / "last.ckpt").read_bytes()
    choosing = callback(tmp_path)
    fit(tmp_path, choosing, max_epochs=2, resume="last")
    assert (tmp_path / "run" / "last.ckpt").read_bytes() == before
    assert choosing.selection.trajectory.steps.tolist() == [8]
    assert Path(choosing.last_model_path).name == "last-v1.ckpt"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "value: {'logits' … 'labels' … …} … NoneType"),
        ({"loss": 1.0}, "value: ['loss']"),
        ({"logits": torch.zeros(3, 2), "labels": torch.zeros(2)}, "value: [3, 2] … [2]"),
        ({"logits": torch.zeros(2, 2), "labels": torch.tensor([0, 5])}, "value: 0 … 1"),
    ],
)
def test_a_wrong_step_is_refused_in_the_sanity_check(
    tmp_path: Path, returned: Any, message: str
) -> None:
    class Wrong(Classifier):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            return returned

    with refused(message):
        trainer(tmp_path, callback(tmp_path)).fit(
            Wrong(), training_set(), validation_sets("a", "b")
        )


def test_wrong_arguments_are_refused_before_any_training(tmp_path: Path) -> None:
    with refused("value: delta_pp"):
        callback(tmp_path, delta_pp=-1)
    with refused("value: KeepLast(2 … 3"):
        callback(tmp_path, keep=3)
    with refused("value: MlflowLog(run_id … 'mlflow'"):
        callback(tmp_path, tracker="mlflow")
    with refused("value: outputs"):
        callback(tmp_path, outputs="logits")
    with refused("differs: a and b … 1 dataloader"):
        fit(tmp_path, callback(tmp_path), names="a")
    with refused("missing"):
        trainer(tmp_path, callback(tmp_path)).fit(Classifier(), training_set())
    with refused("value"):
        callback(tmp_path, dirpath="memory://run")


@pytest.mark.parametrize("sanity", [0, 2])
def test_an_empty_validation_set_is_refused_before_any_training(
    tmp_path: Path, sanity: int
) -> None:
    empty = torch.utils.data.DataLoader(examples(3, 1), batch_size=8, drop_last=True)
    running = trainer(tmp_path, callback(tmp_path), num_sanity_val_steps=sanity)
    with refused("empty: 'b'"):
        running.fit(Classifier(), training_set(), [*validation_sets("a"), empty])
    assert checkpoints(tmp_path / "run") == set()


def test_select_reads_the_logged_columns_again(tmp_path: Path) -> None:
    choosing = callback(tmp_path, delta_pp=4, keep=KeepEvery(1))
    fit(tmp_path, choosing, max_epochs=6, logger=CSVLogger(tmp_path / "csv"))
    run = cw.load(tmp_path / "csv" / "lightning_logs" / "version_0")
    chosen, again = choosing.selection, cw.select(run, "ac-nc", delta_pp=4)
    assert run.counts is not None
    assert run.counts.tolist() == [21, 34]
    assert again.step == chosen.step
    assert again.accuracy == chosen.accuracy
    assert again.feasible_steps == chosen.feasible_steps
    assert {*run.metrics} == {*chosen.trajectory.metrics}


def test_it_can_be_pickled_for_processes_that_are_spawned(tmp_path: Path) -> None:
    choosing = callback(tmp_path)
    copied = pickle.loads(pickle.dumps(choosing))
    assert isinstance(copied, ReliabilityCheckpoint)
    assert isinstance(copied, ModelCheckpoint)
    assert copied.state_key == choosing.state_key
    fit(tmp_path, copied, max_epochs=1)
    assert copied.selection.step == 4


def test_the_number_of_examples_may_not_change(tmp_path: Path) -> None:
    choosing = callback(tmp_path, domains=["a"])
    fit(tmp_path, choosing, names="a", max_epochs=1)
    more = torch.utils.data.DataLoader(examples(30, 1), batch_size=8)
    resumed = callback(tmp_path, domains=["a"])
    with refused("differs: examples … 'a' … 8"):
        trainer(tmp_path, resumed, max_epochs=2).fit(
            Classifier(), training_set(), more, ckpt_path="last"
        )
