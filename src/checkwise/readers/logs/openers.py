"""The kinds of logs that are recognised by more than their columns, in one list.

Each opener is a module with ``recognises(path)``, for a file or for the folder of one run, and
``open_logs(path)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkwise.readers.logs import tensorboard, trainer_state
from checkwise.readers.logs.log import Log
from checkwise.readers.logs.trackers import (
    mlflow_files,
    mlflow_store,
    ray_results,
    ray_train,
    trackio_store,
    wandb_export,
    wandb_offline,
)


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
    Opener(trainer_state.recognises, trainer_state.open_logs, own=trainer_state.checkpoints),
    Opener(mlflow_store.recognises, mlflow_store.open_logs),
    Opener(trackio_store.recognises, trackio_store.open_logs),
    Opener(mlflow_files.recognises, mlflow_files.open_logs, own=_all_names),
    Opener(ray_results.recognises, ray_results.open_logs),
    Opener(ray_train.recognises, ray_train.open_logs),
    Opener(wandb_offline.recognises, wandb_offline.open_logs),
    Opener(wandb_export.recognises, wandb_export.open_logs),
]
# Last among folders: the same run is often logged in a table beside its events.
EVENTS = Opener(
    tensorboard.recognises, tensorboard.open_logs, own=tensorboard.own_folders, beside=False
)
