"""W&B's offline runs, ``wandb/offline-run-*/run-*.wandb``: nobody reads them but W&B."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from checkwise.readers.json_lines import NoRecordsError
from checkwise.store import open_regular

MAGIC = b":W&B"
SUFFIX = ".wandb"


def recognises(path: Path) -> bool:
    """Whether a file is a transaction log of W&B, or a folder holds one."""
    if path.is_dir():
        return _transaction_log(path) is not None
    return _is_transaction_log(path)


def open_logs(path: Path) -> NoReturn:
    """Refuse: the file is W&B's own journal of messages to its server."""
    folder = path if path.is_dir() else path.parent
    raise NoRecordsError(
        f"Expected a log of metrics, but {path} is a run in W&B's own format, which only W&B's "
        f"tools read: upload it with `wandb sync {folder}`, then export its metrics as CSV from "
        "the chart's menu, or with `wandb.Api().run(NAME).history(samples=10**6).to_csv(FILE)`.",
        code="unsupported",
    )


def _transaction_log(folder: Path) -> Path | None:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX))
    except OSError:
        return None
    return next((folder / name for name in names if _is_transaction_log(folder / name)), None)


def _is_transaction_log(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False
