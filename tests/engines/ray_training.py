"""``python -m tests.engines.ray_training FOLDER WORKERS``: a real Ray Train, and a choice.

Two workers share 21 and 34 examples, so that one example of the first set is repeated. One worker
kills itself while it validates step 300. After step 400 the workers wait for somebody to kill the
driver. A training that goes on begins with the step that it saved last, so it reports that again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"a": 21, "b": 34}
DELTA_PP = 2
WORKER_DIES, DRIVER_DIES = 300, 400
REPORTS, WAITING = "reports", "waiting"
PATIENCE_SECONDS = 600
PREDICTIONS = "predictions"


def train(config: dict[str, Any]) -> None:
    import numpy as np
    import ray.train
    import torch
    from ray.train.torch import prepare_data_loader
    from torch.utils.data import DataLoader, TensorDataset

    from checkwise.integrations.ray_train import Validation

    folder, rank = Path(config["folder"]), ray.train.get_context().get_world_rank()
    loaders = {}
    for name, n in SIZES.items():
        x, y = examples(n, ord(name))
        data = TensorDataset(torch.tensor(x), torch.tensor(y))
        loaders[name] = prepare_data_loader(DataLoader(data, batch_size=8))
    for step, weight in weights():
        if step < _saved_step():
            continue
        validation = Validation(loaders, predictions=folder / PREDICTIONS)
        for name, loader in loaders.items():
            for x, y in loader:
                validation.update(name, x @ torch.tensor(weight), y)
        if step == WORKER_DIES and rank == 1 and _first(folder / "worker killed"):
            wait_for(lambda: WORKER_DIES - 100 in kept_steps(folder))
            os.kill(os.getpid(), signal.SIGKILL)
        with tempfile.TemporaryDirectory() as saved:
            checkpoint = None
            if rank == 0:
                np.save(Path(saved, "weight.npy"), weight)
                Path(saved, "step").write_text(str(step))
                checkpoint = ray.train.Checkpoint.from_directory(saved)
            validation.report(step, checkpoint=checkpoint, metrics={"loss": 1.0})
        if rank == 0:
            with (folder / REPORTS).open("a") as reports:
                print(step, file=reports)
        if step == DRIVER_DIES and rank == 0 and _first(folder / WAITING):
            time.sleep(PATIENCE_SECONDS)


def _saved_step() -> int:
    """The step of the checkpoint to go on from; 0 without one."""
    import ray.train

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as saved:
        return int(Path(saved, "step").read_text())


def kept_steps(folder: Path) -> set[int]:
    """The steps whose reports have reached Ray's driver and the disk."""
    snapshot = folder / "run" / "checkpoint_manager_snapshot.json"
    try:
        results = json.loads(snapshot.read_text())["checkpoint_results"]
    except (FileNotFoundError, ValueError):  # Ray is writing it
        return set()
    return {int(result["metrics"]["checkwise/step"]) for result in results}


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def _first(marker: Path) -> bool:
    """Whether nobody was here before."""
    there = marker.exists()
    marker.touch()
    return not there


def examples(n: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 6))
    return x, (x[:, :3] + draw.normal(size=(n, 3))).argmax(axis=1)


def weights() -> list[tuple[int, Any]]:
    """Step → the weights of a linear classifier; the fourth has diverged."""
    import numpy as np

    draw = np.random.default_rng(7)
    noise = draw.normal(size=(6, 3))
    scales = (
        (100, 0.2, 0.3),
        (200, 1.0, 0.1),
        (300, 3.0, 0.1),
        (400, np.nan, 0.0),
        (500, 8.0, 0.0),
    )
    return [(step, scale * (np.eye(6, 3) + share * noise)) for step, scale, share in scales]


def main(folder: Path, workers: int) -> None:
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from checkwise.integrations.ray_train import choose

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(
        train,
        train_loop_config={"folder": str(folder)},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="run", storage_path=str(folder), failure_config=FailureConfig(max_failures=1)
        ),
    )
    result = trainer.fit()
    kept = folder / PREDICTIONS
    chosen = choose(result, "ac-nc", delta_pp=DELTA_PP, predictions=kept, calibrator="ts-soften")
    run = chosen.trajectory
    facts = {
        "checkpoints": len(result.best_checkpoints),
        "step": chosen.step,
        "path": chosen.path,
        "steps": run.steps.tolist(),
        "digest": run.digest,
        "counts": [] if run.counts is None else run.counts.tolist(),
        "diverged": run.diverged.tolist(),
        "feasible": list(chosen.feasible_steps),
        "share": {str(step): share for step, share in chosen.stability(200).share.items()},
    }
    print(json.dumps(facts))
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
