"""What the callback relies on in Lightning, and what Lightning and its loggers rely on in it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import available, package, requires

available("lightning")

import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint

import checkwise as cw
from checkwise.integrations.lightning import ReliabilityCheckpoint
from tests.integrations.lightning_models import (
    Classifier,
    fit,
    trainer,
    training_set,
    validation_sets,
)
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
SEARCHED = os.pathsep.join(filter(None, sys.path))
# Importing it here would leave both packages imported.
other_package = requires(
    "packages",
    find_spec("pytorch_lightning") is not None,
    "pytorch_lightning is not installed",
)
READ_BY_LOGGERS = (
    "save_top_k",
    "best_model_score",
    "current_score",
    "last_model_path",
    "best_k_models",
    "monitor",
    "mode",
    "save_last",
    "save_weights_only",
)


def test_it_takes_a_whole_choice(tmp_path: Path) -> None:
    one = ReliabilityCheckpoint("ac-nll", delta_pp=1, guard=False, dirpath=tmp_path)
    choice = cw.Choice.of("ac-nll", delta_pp=1, guard=False)
    assert ReliabilityCheckpoint(choice, dirpath=tmp_path).state_key == one.state_key
    with refused("ambiguous: weights"):
        ReliabilityCheckpoint(choice, weights="sample", dirpath=tmp_path)


def test_it_is_a_model_checkpoint_with_all_that_loggers_read(tmp_path: Path) -> None:
    choosing = ReliabilityCheckpoint(domains=["a", "b"], dirpath=tmp_path)
    assert isinstance(choosing, ModelCheckpoint)
    assert isinstance(choosing, Checkpoint)
    assert choosing.best_model_path == ""
    running, _ = fit(tmp_path, choosing, max_epochs=2)
    assert running.checkpoint_callbacks == [choosing]  # no other is added
    assert all(hasattr(choosing, name) for name in READ_BY_LOGGERS)
    assert choosing.best_k_models[choosing.best_model_path] == choosing.best_model_score
    assert choosing.monitor in running.callback_metrics
    # The private method by which Lightning finds `ckpt_path="last"`.
    assert choosing._find_last_checkpoints(running) == {choosing.last_model_path}


def test_nothing_private_of_the_base_class_is_replaced() -> None:
    own = set(vars(ReliabilityCheckpoint)) | {
        "_domains", "_outputs", "_options", "_checkpoints", "_sums", "_outcome",
        "_resumes", "_saved_in", "_trained_in", "_newest", "_followed",
    }  # fmt: skip
    base = set(dir(ModelCheckpoint)) | set(vars(ModelCheckpoint()))
    private = {name for name in own & base if name.startswith("_") and not name.endswith("__")}
    assert private == set()


def test_the_trainer_has_what_the_callback_asks_it_for(tmp_path: Path) -> None:
    choosing = ReliabilityCheckpoint(dirpath=tmp_path)
    running, _ = fit(tmp_path, choosing, names="a", max_epochs=1)
    asked = (
        "callback_metrics checkpoint_callbacks ckpt_path current_epoch enable_validation fit_loop "
        "fast_dev_run global_step is_global_zero limit_val_batches loggers num_val_batches "
        "optimizers sanity_checking save_checkpoint state strategy val_dataloaders world_size"
    )
    assert [name for name in asked.split() if not hasattr(running, name)] == []
    assert running.state.fn == "fit"
    assert running.fit_loop.total_batch_idx + 1 == running.global_step == 4


@other_package
def test_the_package_that_was_imported_first_is_the_base_and_a_trainer_of_another_is_refused(
    tmp_path: Path,
) -> None:
    code = (
        "import sys; from pathlib import Path; import pytorch_lightning\n"
        "from tests.integrations.lightning_models import train_in\n"
        "train_in(Path(sys.argv[1]))\n"
        "assert 'lightning' not in sys.modules\n"
        "import lightning.pytorch\n"
        "from lightning.pytorch.demos.boring_classes import BoringModel\n"
        "from tests.integrations.lightning_models import ReliabilityCheckpoint\n"
        "assert issubclass(ReliabilityCheckpoint, pytorch_lightning.callbacks.ModelCheckpoint)\n"
        "choosing = ReliabilityCheckpoint(dirpath=Path(sys.argv[1]) / 'other')\n"
        "try:\n"
        "    trainer = lightning.Trainer(accelerator='cpu', callbacks=[choosing], logger=False)\n"
        "    trainer.fit(BoringModel())\n"
        "except ValueError as error:  # of Lightning 2.5 itself, or ours\n"
        "    print(getattr(error, 'code', 'trainer'), error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), SEARCHED]),
            "CHECKWISE_LIGHTNING": "pytorch_lightning",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    torch.load((tmp_path / "done").read_text(), weights_only=True)
    said = done.stdout.splitlines()[-1]
    ours = said.startswith("differs ") and "import lightning before" in said
    assert ours or said == "trainer Expected a parent", said


def test_the_class_is_a_callback_and_importing_checkwise_stays_light() -> None:
    assert issubclass(ReliabilityCheckpoint, Callback)
    assert issubclass(ReliabilityCheckpoint, ModelCheckpoint)
    assert inspect.signature(ReliabilityCheckpoint).parameters["delta_pp"].default is None
    code = "import sys, checkwise; sys.exit('lightning' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Trained(Classifier):
    """With its data, as LightningCLI trains it; its step returns nothing, as most do."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return self.net(x)

    def validation_step(self, *arguments: Any) -> None:
        super().validation_step(*arguments)

    def train_dataloader(self) -> Any:
        return training_set()

    def val_dataloader(self) -> Any:
        return validation_sets("a", "b")


def test_lightning_cli_builds_it_from_yaml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    available("jsonargparse")
    from lightning.pytorch.cli import LightningCLI

    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    keep = {"class_path": "checkwise.selection.KeepLast", "init_args": {"n": 2}}
    chosen = {"rule": "ac-nc", "delta_pp": 2, "domains": ["a", "b"], "weights": {"a": 1, "b": 2}}
    chosen |= {"outputs": "forward", "predictions": True}
    callback = {
        "class_path": "checkwise.integrations.lightning.ReliabilityCheckpoint",
        "init_args": {**chosen, "dirpath": str(tmp_path / "run"), "keep": keep},
    }
    settings = {"accelerator": "cpu", "max_epochs": 2, "callbacks": [callback], **quiet}
    (tmp_path / "config.yaml").write_text(json.dumps({"trainer": settings}))
    arguments = ["fit", "--config", str(tmp_path / "config.yaml")]
    with pytest.raises(SystemExit, match="0"):
        LightningCLI(Trained, args=[*arguments, "--print_config"])
    assert "delta_pp: 2" in capsys.readouterr().out
    cli = LightningCLI(Trained, args=arguments, save_config_callback=None)
    made = cli.trainer.checkpoint_callback
    assert type(made) is ReliabilityCheckpoint
    assert made.selection is not None
    assert made.selection.params["delta_pp"] == 2
    run = cw.Trajectory.from_predictions(cli.model.predictions())
    assert made.selection.step == cw.select(run, "ac-nc", delta_pp=2, weights={"a": 1, "b": 2}).step
    np.testing.assert_allclose(made.selection.trajectory.values["nll"], run.values["nll"], 1e-6)
    assert Path(made.best_model_path).parent == tmp_path / "run"


def test_hydra_builds_it_from_yaml_and_says_the_disk_before_the_first_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    available("hydra")
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    (tmp_path / "config.yaml").write_text(
        "callbacks:\n"
        "  checkpoint:\n"
        "    _target_: checkwise.integrations.lightning.ReliabilityCheckpoint\n"
        f"    dirpath: {tmp_path / 'run'}\n"
        "    delta_pp: 1\n"
        "    domains: [a, b]\n"
        "    outputs: forward\n"
        "    weights: {a: 1, b: 2}\n"
        "    keep: {_target_: checkwise.selection.KeepLast, n: 2}\n"
    )
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose("config", overrides=["callbacks.checkpoint.delta_pp=2"])
    made: Any = instantiate(config.callbacks)["checkpoint"]
    assert isinstance(made, ReliabilityCheckpoint)

    class Early(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            self.said = getattr(self, "said", "") + capsys.readouterr().err

    early = Early()
    running = trainer(tmp_path, early, made, max_epochs=3)
    running.fit(Trained())
    assert "a checkpoint takes about 84 bytes" in early.said  # 6 * 3 + 3 weights
    assert "at most 3, 252 bytes" in early.said
    assert made.selection is not None
    assert made.selection.params["delta_pp"] == 2
    assert made.selection.trajectory.domains == ("a", "b")


def test_a_logger_uploads_what_is_kept(tmp_path: Path) -> None:
    mlflow = package("mlflow")
    from lightning.pytorch.loggers import MLFlowLogger

    store = f"sqlite:///{tmp_path / 'store.db'}"
    logger = MLFlowLogger(
        "trial", tracking_uri=store, log_model="all", artifact_location=str(tmp_path / "artifacts")
    )
    choosing: Any = ReliabilityCheckpoint(
        delta_pp=2,
        domains=["a", "b"],
        dirpath=tmp_path / "run",
        filename="{step}",
    )
    fit(tmp_path, choosing, max_epochs=4, logger=logger)
    client = mlflow.MlflowClient(store)
    uploaded = {item.path for item in client.list_artifacts(logger.run_id)}
    assert {Path(path).stem for path in choosing.best_k_models} <= uploaded
    best = Path(choosing.best_model_path).stem
    aliases = (
        tmp_path / "artifacts" / logger.run_id / "artifacts" / best / "aliases.txt"
    ).read_text()
    assert "best" in aliases
    history = client.get_metric_history(logger.run_id, "checkwise/choice")
    assert len(history) == 4
    assert history[-1].value == choosing.selection.step
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "run" / "checkwise.jsonl").read_text().splitlines()
        if '"domains"' in line
    ]
    assert steps == [4, 8, 12, 16]
