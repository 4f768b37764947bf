"""What the callback relies on in Lightning, and what Lightning and its loggers rely on in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import available, package, requires

available("lightning")

import torch
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint

from checkwise.integrations.lightning import ReliabilityCheckpoint
from tests.integrations.lightning_models import fit

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


def test_it_is_a_model_checkpoint_with_all_that_loggers_read(tmp_path: Path) -> None:
    choosing = ReliabilityCheckpoint(domains=["a", "b"], dirpath=tmp_path, package="lightning")
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
        "_domains", "_outputs", "_partial", "_bins", "_bandwidth", "_checkpoints", "_sums",
        "_outcome", "_params", "_resumes", "_saved_in", "_trained_in", "_newest",
        "_followed",
    }  # fmt: skip
    base = set(dir(ModelCheckpoint)) | set(vars(ModelCheckpoint()))
    private = {name for name in own & base if name.startswith("_") and not name.endswith("__")}
    assert private == set()


def test_the_trainer_has_what_the_callback_asks_it_for(tmp_path: Path) -> None:
    choosing = ReliabilityCheckpoint(dirpath=tmp_path, package="lightning")
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
def test_the_other_package_works_alone_and_beside_the_first_one_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import pytorch_lightning\n"
        "from tests.integrations.lightning_models import train_in\n"
        "train_in(Path(sys.argv[1]))\n"
        "assert 'lightning' not in sys.modules\n"
        "import lightning.pytorch\n"
        "from checkwise.integrations.lightning import ReliabilityCheckpoint\n"
        "try:\n"
        "    ReliabilityCheckpoint()\n"
        "except ValueError as error:\n"
        "    print(error)\n"
        "for package in (lightning.pytorch, pytorch_lightning):\n"
        "    name = package.__name__.partition('.')[0]\n"
        "    choosing = ReliabilityCheckpoint(package=name)\n"
        "    assert isinstance(choosing, package.callbacks.ModelCheckpoint)\n"
        "    assert package.Trainer(callbacks=[choosing]).checkpoint_callback is choosing\n"
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
    assert "it imports both: pass package='lightning' or" in done.stdout


@pytest.mark.parametrize("when", [True, "all"])
def test_a_logger_uploads_what_is_kept(tmp_path: Path, when: bool | str) -> None:
    mlflow = package("mlflow")
    from lightning.pytorch.loggers import MLFlowLogger

    store = f"sqlite:///{tmp_path / 'store.db'}"
    logger = MLFlowLogger(
        "trial", tracking_uri=store, log_model=when, artifact_location=str(tmp_path / "artifacts")
    )
    choosing: Any = ReliabilityCheckpoint(
        delta_pp=2,
        domains=["a", "b"],
        dirpath=tmp_path / "run",
        filename="{step}",
        package="lightning",
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
