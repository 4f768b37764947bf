"""The kinds of logs that are recognised by more than their columns, in one list.

Each opener is a module with ``recognises(path)``, for a file or for the folder of one run, and
``open_logs(path)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkwise.readers import (
    mlflow_db,
    mlflow_folder,
    ray_train,
    ray_tune,
    tensorboard,
    trackio,
    transformers,
    wandb_csv,
    wandb_offline,
)
from checkwise.readers.log import Log


@dataclass(frozen=True)
class Opener:
    """How logs of one kind are recognised and opened.

    Args:
        recognises: whether a file, or a folder as a whole, is of this kind.
        open_logs: its logs, one per run.
        own: names of the folders in a folder that belong to its runs.
        beside: whether runs of this kind may lie in the folder of a run of another kind; event
            files there are a second account of that run.
    """

    recognises: Callable[[Path], bool]
    open_logs: Callable[[Path], list[Log]]
    own: Callable[[Path], set[str]] = lambda folder: set()
    beside: bool = True


def _all_names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


# In order; the first that recognises a path opens it.
OPENERS: list[Opener] = [
    Opener(transformers.recognises, transformers.open_logs, own=transformers.checkpoints),
    Opener(mlflow_db.recognises, mlflow_db.open_logs),
    Opener(trackio.recognises, trackio.open_logs),
    Opener(mlflow_folder.recognises, mlflow_folder.open_logs, own=_all_names),
    Opener(ray_tune.recognises, ray_tune.open_logs),
    Opener(ray_train.recognises, ray_train.open_logs),
    Opener(wandb_offline.recognises, wandb_offline.open_logs),
    Opener(wandb_csv.recognises, wandb_csv.open_logs),
]
# Last among folders: the same run is often logged in a table beside its events.
EVENTS = Opener(
    tensorboard.recognises, tensorboard.open_logs, own=tensorboard.own_folders, beside=False
)
