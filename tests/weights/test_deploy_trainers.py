"""Checkpoints that Lightning and transformers wrote: deployed, loaded, and the same outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import checkwise as cw
from checkwise.calibrators import fit
from checkwise.deployed import Calibrated, load
from tests.refusals import refused
from tests.requirements import package
from tests.weights.deployments import contents

CLASSES, TOKENS = 3, 12
TRAINING = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin")


def tiny_model(seed: int) -> Any:
    transformers = package("transformers")
    torch.manual_seed(seed)
    config = transformers.DistilBertConfig(
        vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=32, num_labels=CLASSES,
        max_position_embeddings=TOKENS,
    )  # fmt: skip
    return transformers.DistilBertForSequenceClassification(config).eval()


@pytest.fixture
def trainer_folder(tmp_path: Path) -> Path:
    """What a Trainer leaves: three checkpoints near each other, with the states of training."""
    folder = tmp_path / "run"
    history = []
    for step, accuracy in ((10, 0.900), (20, 0.905), (30, 0.902)):
        place = folder / f"checkpoint-{step}"
        tiny_model(step).save_pretrained(place)
        for name in TRAINING:
            (place / name).write_bytes(b"a pickle that nobody opens")
        history.append(
            {"step": step, "epoch": 1.0, "eval_loss": 0.3 + step / 1000, "eval_accuracy": accuracy}
        )
        state = {"log_history": history, "global_step": step, "epoch": 1.0}
        (place / "trainer_state.json").write_text(json.dumps(state))
    return folder


def batch() -> dict[str, Any]:
    tokens = torch.randint(50, (8, TOKENS), generator=torch.Generator().manual_seed(0))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def test_a_transformers_folder_is_loaded_by_from_pretrained(
    trainer_folder: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification

    done = cw.deploy(trainer_folder, tmp_path / "model")
    assert (done.info["format"], done.info["members"]) == ("transformers", ["model"])
    assert any("checkwise predict" in note for note in done.notes)
    names = contents(tmp_path / "model")
    assert not [name for name in names if Path(name).name in (*TRAINING, "trainer_state.json")]
    deployed = load(tmp_path / "model")
    model = deployed.pretrained(AutoModelForSequenceClassification)
    with torch.no_grad():
        expected = tiny_model(done.info["steps"][0])(**batch()).logits
        assert torch.allclose(model(**batch()), expected, atol=1e-6)
        z = np.random.default_rng(0).normal(0, 3, (200, CLASSES))
        fitted = fit({"val": (z, np.arange(200) % CLASSES)})
        warm = Calibrated(model.members[0], fitted)
        assert fitted.temperature is not None
        softened = (expected / fitted.temperature).softmax(1)
        assert torch.allclose(warm.probabilities(**batch()), softened, atol=1e-6)


@pytest.mark.parametrize("average", ["probabilities", "weights"])
def test_transformers_members_are_averaged(
    trainer_folder: Path, average: Any, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification

    done = cw.deploy(trainer_folder, tmp_path / "model", average=average)
    assert done.info["steps"] == [10, 20, 30]
    model = load(tmp_path / "model").pretrained(AutoModelForSequenceClassification)
    members = [tiny_model(step) for step in done.info["steps"]]
    with torch.no_grad():
        if average == "probabilities":
            expected = torch.stack([m(**batch()).logits.softmax(1) for m in members]).mean(0)
        else:
            states = [member.state_dict() for member in members]
            mean = tiny_model(0)
            mean.load_state_dict(
                {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}
            )
            expected = mean(**batch()).logits.softmax(1)
        assert torch.allclose(model.probabilities(**batch()), expected, atol=1e-5)
    again = cw.deploy(trainer_folder, tmp_path / "again", average=average)
    assert again.info == done.info


def test_a_folder_without_weights_is_left_to_export(trainer_folder: Path, tmp_path: Path) -> None:
    for path in trainer_folder.glob("*/model.safetensors"):
        path.unlink()
    with refused("missing"):
        cw.deploy(trainer_folder, tmp_path / "model")


def test_a_lightning_training_is_deployed(tmp_path: Path) -> None:
    lightning: Any = package("lightning")

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, CLASSES)
            )

        def forward(self, x: Any) -> Any:
            return self.layers(x)

        def training_step(self, rows: Any, _: int) -> Any:
            return torch.nn.functional.cross_entropy(self(rows[0]), rows[1])

        def validation_step(self, rows: Any, _: int) -> None:
            z = self(rows[0])
            self.log("val_loss", torch.nn.functional.cross_entropy(z, rows[1]))
            self.log("val_acc", (z.argmax(1) == rows[1]).float().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.05)

    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    torch.manual_seed(0)
    y = torch.arange(96) % CLASSES
    x = torch.eye(4)[y] + 0.7 * torch.randn(96, 4)
    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=96)
    trainer = lightning.Trainer(
        max_epochs=4, accelerator="cpu", logger=CSVLogger(tmp_path, "logs"), log_every_n_steps=1,
        callbacks=[ModelCheckpoint(save_top_k=-1, every_n_epochs=1)],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Net(), rows, rows)
    (folder,) = (tmp_path / "logs").iterdir()
    done = cw.deploy(folder, tmp_path / "model", rule="source-acc")
    (path,) = [
        p for p in folder.glob("checkpoints/*.ckpt")
        if int(p.stem.rpartition("=")[2]) == done.info["steps"][0]
    ]  # fmt: skip
    expected = Net.load_from_checkpoint(path, weights_only=True).eval()
    model = load(tmp_path / "model").module(Net())
    with torch.no_grad():
        assert torch.equal(model(x), expected(x))
