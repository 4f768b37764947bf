"""A checkpoint whose weights a Trainer would not load by their names: warned about once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import available

available("transformers", "accelerate")

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Trainer, ViTConfig, ViTForImageClassification

from checkwise.integrations.transformers import ReliabilityCallback
from checkwise.integrations.transformers.saved_names import difference
from tests.integrations.transformers_runs import Scripted, arguments, script, scripted_trainer


class Renamed(Scripted):
    """Saves its weight under another name, and reads it back, as some models do."""

    def save_pretrained(self, folder: Any, **keywords: Any) -> None:
        super().save_pretrained(folder, **keywords)
        path = Path(folder, "model.safetensors")
        save_file({"inner.step": load_file(path)["step"]}, path)


def test_weights_under_other_names_are_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, labels = script([0.1, 0.5, 0.6, 0.9])
    for steps, resumed in ((4, None), (6, True)):
        callback = ReliabilityCallback()
        trainer = scripted_trainer(arguments(tmp_path, steps=steps), table, labels, callback)
        trainer.model.__class__ = Renamed
        trainer.train(resume_from_checkpoint=resumed)
        (warning,) = [r.getMessage() for r in caplog.records if "from_pretrained" in r.getMessage()]
        assert "1 of the model's 1 weights" in warning
        assert "as step; other names are there, as inner.step" in warning
        caplog.clear()


def test_weights_under_their_names_are_not_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, labels = script([0.1, 0.5, 0.6])
    scripted_trainer(arguments(tmp_path, steps=4), table, labels, ReliabilityCallback()).train()
    assert "from_pretrained" not in caplog.text


def test_the_advice_restores_a_vision_transformer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose names differ in some versions of transformers."""
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape = {"image_size": 4, "patch_size": 4, "num_channels": 1, "intermediate_size": 8}
    model = ViTForImageClassification(ViTConfig(num_labels=3, **shape, **size))
    rows = [{"pixel_values": torch.randn(1, 4, 4), "labels": n % 3} for n in range(6)]
    callback = ReliabilityCallback()
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, steps=1, every=1, load_best_model_at_end=False),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=callback.compute_metrics,
        callbacks=[callback],
    )
    trainer.train()
    folder = tmp_path / "checkpoint-1"
    differs = set(load_file(folder / "model.safetensors")) != set(model.state_dict())
    assert ("ViTForImageClassification.from_pretrained" in caplog.text) == differs
    loaded = ViTForImageClassification.from_pretrained(folder).state_dict()
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
