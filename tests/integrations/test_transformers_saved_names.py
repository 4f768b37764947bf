"""Checkpoints whose weights a Trainer would not load by their names: the callback loads them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import available

available("transformers", "accelerate")

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Trainer, ViTConfig, ViTForImageClassification

import checkwise as cw
from checkwise.integrations.transformers import ReliabilityCallback
from checkwise.integrations.transformers.checkpoints import difference
from tests.integrations.transformers_runs import Scripted, arguments, script, scripted_trainer


class Renamed(Scripted):
    """Saves its weight under another name, and reads it back if ``reads``, as some models do."""

    reads = True
    before: Any = None

    def save_pretrained(self, folder: Any, **keywords: Any) -> None:
        super().save_pretrained(folder, **keywords)
        path = Path(folder, "model.safetensors")
        save_file({"inner.step": load_file(path)["step"]}, path)

    @classmethod
    def from_pretrained(cls, folder: Any, **keywords: Any) -> Any:
        if not cls.reads:
            return super().from_pretrained(folder, **keywords)
        saved = deepcopy(cls.before)
        saved.step.data.copy_(load_file(Path(folder, "model.safetensors"))["inner.step"])
        return saved, {"missing_keys": set()}


def _trainer(folder: Path, steps: int, **changes: Any) -> Trainer:
    table, labels = script([0.1, 0.5, 0.9, 0.6, 0.5, 0.4, 0.3])
    arguments_ = arguments(folder, steps=steps, **changes)
    trainer = scripted_trainer(arguments_, table, labels, ReliabilityCallback())
    trainer.model.__class__ = Renamed
    Renamed.before = trainer.model
    return trainer


def test_the_model_that_leaves_training_is_the_choice_whatever_its_weights_are_called(
    tmp_path: Path,
) -> None:
    for steps, resumed in ((8, None), (10, True)):
        trainer = _trainer(tmp_path, steps)
        trainer.train(resume_from_checkpoint=resumed)
        chosen = Path(trainer.state.best_model_checkpoint)
        saved = load_file(chosen / "model.safetensors")["inner.step"]
        assert chosen.name == "checkpoint-4"
        assert trainer.model.step.item() == saved.item() == 4
    # Resumed training went on from the weights that were saved, and did not begin again.
    assert load_file(tmp_path / "checkpoint-10" / "model.safetensors")["inner.step"].item() == 10


def test_weights_that_cannot_be_loaded_are_refused_at_the_first_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renamed, "reads", False)
    trainer = _trainer(tmp_path / "a", 8)
    with pytest.raises(cw.InputError, match=r"inner\.step") as refusal:
        trainer.train()
    assert refusal.value.code == "unsupported"
    assert trainer.state.global_step == 2
    _trainer(tmp_path / "b", 8, load_best_model_at_end=False).train()


def test_a_vision_transformer_leaves_training_as_the_choice(tmp_path: Path) -> None:
    """Whose names differ in some versions of transformers."""
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape = {"image_size": 4, "patch_size": 4, "num_channels": 1, "intermediate_size": 8}
    model = ViTForImageClassification(ViTConfig(num_labels=3, **shape, **size))
    rows = [{"pixel_values": torch.randn(1, 4, 4), "labels": n % 3} for n in range(6)]
    callback = ReliabilityCallback("ac-early", delta_pp=100)
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, steps=3, every=1, learning_rate=0.5),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=callback.compute_metrics,
        callbacks=[callback],
    )
    trainer.train()
    chosen = str(trainer.state.best_model_checkpoint)
    assert chosen.endswith("checkpoint-1")
    loaded = ViTForImageClassification.from_pretrained(chosen).state_dict()
    assert all(torch.equal(weight, loaded[name]) for name, weight in model.state_dict().items())


def test_tied_weights_and_shards_are_whole(tmp_path: Path) -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    assert difference(tmp_path, model) is None  # no weights of a whole model, as with adapters
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(("a.weight", "a.bias"), "1")}))
    assert str(difference(tmp_path, model)).startswith("1 of the model's 4 weights are not in")
    index.write_text(json.dumps({"weight_map": dict.fromkeys(("a.weight", "a.bias", "b.bias"), 1)}))
    assert difference(tmp_path, model) is None
