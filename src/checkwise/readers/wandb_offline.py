"""W&B's offline runs, ``wandb/offline-run-*/run-*.wandb``: nobody reads them but W&B."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.request import Request, first_bytes, names_in

MAGIC = b":W&B"


def recognises(path: Path) -> bool:
    """Whether a file is a transaction log of W&B, or a folder holds one."""
    files = [path / name for name in names_in(path) if name.endswith(".wandb")]
    return any(first_bytes(file, len(MAGIC)) == MAGIC for file in (files or [path]))


def read(path: Path, request: Request) -> NoReturn:
    """Refuse: the file is W&B's own journal of messages to its server."""
    folder = path if path.is_dir() else path.parent
    raise NoRecordsError(
        f"Expected a log of metrics, but {path} is a run in W&B's own format, which only W&B's "
        f"tools read: upload it with `wandb sync {folder}`, then export its metrics as CSV from "
        "the chart's menu, or with `wandb.Api().run(NAME).history(samples=10**6).to_csv(FILE)`.",
        code="unsupported",
    )
