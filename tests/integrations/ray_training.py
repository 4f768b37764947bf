"""``python -m tests.integrations.ray_training FOLDER WORKERS``: a real Ray Train, and a choice.

Two workers share 21 and 34 examples, so that one example of the first set is repeated.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

SIZES = {"a": 21, "b": 34}


def train(config: dict[str, Any]) -> None:
    import numpy as np
    import ray.train
    import torch
    from ray.train.torch import prepare_data_loader
    from torch.utils.data import DataLoader, TensorDataset

    from checkwise.integrations.ray_train import Validation

    loaders = {}
    for name, n in SIZES.items():
        x, y = examples(n, ord(name))
        data = TensorDataset(torch.tensor(x), torch.tensor(y), torch.arange(n))
        loaders[name] = prepare_data_loader(DataLoader(data, batch_size=8))
    rank = ray.train.get_context().get_world_rank()
    for step, weight in weights():
        validation = Validation(loaders)
        for name, loader in loaders.items():
            for x, y, _ in loader:
                validation.update(name, x @ torch.tensor(weight), y)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                np.save(Path(folder, "weight.npy"), weight)
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            validation.report(step, checkpoint=checkpoint, metrics={"loss": 1.0})


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
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from checkwise.integrations.ray_train import choose

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name="run", storage_path=str(folder)),
    )
    result = trainer.fit()
    chosen = choose(result, "ac-nc", delta_pp=2)
    run = chosen.trajectory
    facts = {
        "step": chosen.step,
        "path": chosen.path,
        "digest": run.digest,
        "counts": [] if run.counts is None else run.counts.tolist(),
        "diverged": run.diverged.tolist(),
        "feasible": list(chosen.feasible_steps),
    }
    print(json.dumps(facts))
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
