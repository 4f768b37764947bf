"""A Lightning training goes on, starts again or branches off, and no chosen checkpoint is lost."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import checkwise as cw
from checkwise.integrations.validation import ValidationSums
from checkwise.selection import KeepLast
from checkwise.store import state_of
from tests.requirements import available

available("lightning")

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.integrations.lightning_models import (
    Classifier,
    fit,
    trainer,
    training_set,
    validation_sets,
)
from tests.integrations.test_lightning import callback, checkpoints, step_of


class ByHand(Classifier):
    """Steps an optimizer that Lightning does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        optimizer = self.optimizers(use_pl_optimizer=False)
        optimizer.zero_grad()
        super().training_step(batch, batch_idx).backward()
        optimizer.step()


def recorded(choosing: Any) -> list[int]:
    steps: list[int] = choosing.selection.trajectory.steps.tolist()
    return steps


def test_batches_are_counted_where_lightning_counts_no_steps(tmp_path: Path) -> None:
    choosing = callback(tmp_path, keep=KeepLast(9))
    data = training_set(), validation_sets("a", "b")
    trainer(tmp_path, choosing, max_epochs=2).fit(ByHand(), *data)
    resumed = callback(tmp_path, keep=KeepLast(9))
    running = trainer(tmp_path, resumed, max_epochs=3)
    running.fit(ByHand(), *data, ckpt_path="last")
    assert running.global_step == 0
    assert recorded(resumed) == [4, 8, 12]
    assert checkpoints(tmp_path / "run") == {f"epoch={i}-step={4 * i + 4}.ckpt" for i in range(3)}


def test_a_training_is_resumed_from_before_its_first_optimizer_step(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "accumulate_grad_batches": 4,
        "val_check_interval": 2,
        "max_epochs": 1,
    }

    class Stopping(Classifier):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 2:
                raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        trainer(tmp_path, callback(tmp_path), **options).fit(
            Stopping(), training_set(), validation_sets("a", "b")
        )
    assert step_of(tmp_path / "run" / "last.ckpt") == 0
    resumed = callback(tmp_path)
    fit(tmp_path, resumed, resume="last", **options)
    assert recorded(resumed) == [0, 1]


def test_the_same_weights_are_saved_once_with_a_word(tmp_path: Path) -> None:
    choosing = callback(tmp_path, keep=KeepLast(9))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cw.CheckwiseWarning)
        fit(tmp_path, choosing, max_epochs=1, accumulate_grad_batches=2, val_check_interval=1)
    assert any("No optimizer step since" in str(warning.message) for warning in caught)
    assert recorded(choosing) == [0, 1, 2]
    assert len(checkpoints(tmp_path / "run")) == 3


def test_an_older_checkpoint_is_resumed_from_and_the_chosen_one_stays(tmp_path: Path) -> None:
    options: dict[str, Any] = {"delta_pp": 0, "keep": KeepLast(9)}
    choosing = callback(tmp_path, **options)
    fit(tmp_path, choosing, max_epochs=4)
    before = {path: path.read_bytes() for path in (tmp_path / "run").glob("epoch=*.ckpt")}
    accuracy = choosing.selection.trajectory.values["accuracy"].mean(1)
    resumed = callback(tmp_path, **options)
    torch.manual_seed(0)
    running = trainer(tmp_path, resumed, max_epochs=4)
    running.fit(
        Worse(),
        training_set(),
        validation_sets("a", "b"),
        ckpt_path=tmp_path / "run" / "epoch=0-step=4.ckpt",
    )
    assert {path: path.read_bytes() for path in before} == before
    assert resumed.best_model_path == choosing.best_model_path
    assert resumed.selection.step == choosing.selection.step
    assert recorded(resumed) == [4, 8, 9, 12, 13, 16, 17]
    assert resumed.selection.trajectory.values["accuracy"].mean(1)[::2][1:] != pytest.approx(
        accuracy[1:]
    )
    branch = (tmp_path / "run" / "last.ckpt").resolve()
    assert branch.name == "epoch=3-step=16-v1.ckpt"
    assert step_of(branch) == 16


class Worse(Classifier):
    """Unlearns: the checkpoints after a resume are worse than those before."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return -super().training_step(batch, batch_idx)


@pytest.mark.parametrize("way", ["no link", "copied", "elsewhere"])
def test_another_training_among_records_is_refused(tmp_path: Path, way: str) -> None:
    folder, source = tmp_path / "run", None
    fit(tmp_path, callback(tmp_path), max_epochs=1)
    if way == "no link":
        (folder / "last.ckpt").unlink()
    elif way == "copied":
        folder = shutil.copytree(folder, tmp_path / "copied")
        assert not (folder / "last.ckpt").is_symlink()
    else:
        other = ModelCheckpoint(dirpath=tmp_path / "other", save_last=True)
        fit(tmp_path, other, max_epochs=1)
        source = tmp_path / "other" / "last.ckpt"
    before = {path.name: path.read_bytes() for path in folder.glob("epoch=*.ckpt")}
    with pytest.raises(cw.InputError, match="Expected a folder without records"):
        fit(tmp_path, callback(tmp_path, dirpath=folder), max_epochs=2, resume=source)
    assert {path.name: path.read_bytes() for path in folder.glob("epoch=*.ckpt")} == before
    resumed = callback(tmp_path, dirpath=folder)
    fit(tmp_path, resumed, max_epochs=2, resume="last")
    assert recorded(resumed) == [4, 8]


def test_a_training_goes_on_from_its_own_checkpoint_elsewhere(tmp_path: Path) -> None:
    other = ModelCheckpoint(dirpath=tmp_path / "other", save_last=True)
    choosing = callback(tmp_path)
    running, module = fit(tmp_path, choosing, other, max_epochs=1)
    running.fit_loop.max_epochs = 2
    running.fit(module, training_set(), validation_sets("a", "b"))  # the same Trainer goes on
    assert recorded(choosing) == [4, 8]
    resumed = callback(tmp_path)
    fit(tmp_path, resumed, max_epochs=3, resume=tmp_path / "other" / "last.ckpt")
    assert recorded(resumed) == [4, 8, 12]


def _announce(saved: Path) -> None:
    """As a process leaves it that is killed before it takes its announcement back."""
    saved.with_name(f".{saved.name}.saving").write_text(state_of(saved))


def test_a_save_that_was_cut_off_before_its_link_is_done_again(tmp_path: Path) -> None:
    """Killed when the record was written and ``last.ckpt`` led to the checkpoint before."""
    fit(tmp_path, callback(tmp_path, keep=KeepLast(9)), max_epochs=2)
    folder = tmp_path / "run"
    _announce(folder / "epoch=1-step=8.ckpt")
    (folder / "last.ckpt").unlink()
    (folder / "last.ckpt").symlink_to("epoch=0-step=4.ckpt")
    resumed = callback(tmp_path, keep=KeepLast(9))
    fit(tmp_path, resumed, max_epochs=3, resume="last")
    assert recorded(resumed) == [4, 8, 12]
    assert {path.name for path in folder.iterdir()} == {
        "checkwise.jsonl",
        "last.ckpt",
        *(f"epoch={i}-step={4 * i + 4}.ckpt" for i in range(3)),
    }


def test_killed_within_the_first_save_it_may_start_again(tmp_path: Path) -> None:
    fit(tmp_path, callback(tmp_path), max_epochs=1)
    _announce(tmp_path / "run" / "epoch=0-step=4.ckpt")
    (tmp_path / "run" / "last.ckpt").unlink()
    again = callback(tmp_path)
    fit(tmp_path, again, max_epochs=2, resume="last")
    assert recorded(again) == [4, 8]
    assert step_of(again.last_model_path) == 8


def test_one_name_for_two_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cw.InputError, match="'a' is there twice"):
        callback(tmp_path, domains=["a", "a"])
    sets = dict(zip([1, "1"], validation_sets("a", "b"), strict=True))
    with pytest.raises(cw.InputError, match="'1' is there twice"):
        trainer(tmp_path, callback(tmp_path, domains=None)).fit(Classifier(), training_set(), sets)


@pytest.mark.parametrize(("name", "held_out"), [("test", None), ("b", "b")])
def test_a_set_that_is_held_out_is_never_read(
    tmp_path: Path, name: str, held_out: str | None
) -> None:
    class Forbidding(Classifier):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            if dataloader_idx == 0:
                return super().validation_step(batch, batch_idx, dataloader_idx)
            return "what cannot be read"

    (source,) = validation_sets("a")
    empty = DataLoader(TensorDataset(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)))
    for number, target in enumerate([*validation_sets("b"), empty]):
        options = {"domains": ["a", name], "held_out": held_out, "dirpath": tmp_path / str(number)}
        choosing = callback(tmp_path, **options)
        # Only the set that is held out is longer than that.
        running = trainer(tmp_path, choosing, max_epochs=1, limit_val_batches=len(source))
        running.fit(Forbidding(), training_set(), [source, target])
        assert choosing.selection.trajectory.domains == ("a",)


def test_a_training_in_the_folder_above_leaves_a_save_alone(tmp_path: Path) -> None:
    fit(tmp_path, callback(tmp_path, dirpath=tmp_path / "run" / "fold"), max_epochs=1)
    running = tmp_path / "run" / "fold" / ".epoch=1-step=8.ckpt"
    for part in (".saving", ".part"):
        Path(f"{running}{part}").touch()
    fit(tmp_path, callback(tmp_path), max_epochs=1)
    assert Path(f"{running}.saving").exists()
    assert Path(f"{running}.part").exists()


def test_a_save_that_fails_leaves_the_choice_as_it_was(tmp_path: Path) -> None:
    class Full(Classifier):
        def on_save_checkpoint(self, checkpoint: Any) -> None:
            if self.trainer.current_epoch == 1:
                raise OSError(28, "No space left on device")

    choosing = callback(tmp_path, delta_pp=0, rule="ac-nll")
    with pytest.raises(cw.InputError, match=r"epoch=1-step=8\.ckpt") as refused:
        trainer(tmp_path, choosing).fit(Full(rate=0.01), training_set(), validation_sets("a", "b"))
    assert refused.value.code == "system"
    assert step_of(choosing.best_model_path) == 4
    assert list(choosing.best_k_models) == [choosing.best_model_path]


def test_several_rows_per_example_are_refused_behind_a_distributed_sampler() -> None:
    sums = ValidationSums("a", own_rows=4)
    with pytest.raises(cw.InputError, match="one row of logits per example"):
        sums.update(torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))
