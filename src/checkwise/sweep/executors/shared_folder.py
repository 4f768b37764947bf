"""How a launcher and its workers know that they see the same folder.

The launcher writes a random token into the cohort. A worker reads it there before it does anything
else and writes an answer beside it; where it cannot work, the answer says why.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from checkwise.errors import InputError
from checkwise.store.atomic_write import write_text, writing

WORKERS: Final = "workers"
TOKEN: Final = "token"
# A file server may show a new file to other machines only after a while (NFS: up to a minute).
VISIBLE_SECONDS: Final = 90.0


class NotSharedError(InputError):
    """A worker does not see the folder that its launcher sees."""


@dataclass(frozen=True)
class Answer:
    """What a worker said: where it runs, and, once it has ended, how."""

    host: str
    pid: int
    ended: bool = False
    failure: str | None = None


def invite(cohort: Path | str) -> Path:
    """A folder in the cohort, named like the token in it."""
    token = secrets.token_hex(8)
    folder = Path(cohort).absolute() / WORKERS / token
    with writing(folder):
        folder.mkdir(parents=True)
        write_text(folder / TOKEN, f"{token}\n")
    return folder


def check_shared(folder: Path, *, patience: float = VISIBLE_SECONDS) -> None:
    """Refuse to work where the launcher's token cannot be read."""
    end = time.monotonic() + patience
    while not _holds_token(folder):
        if time.monotonic() > end:
            raise not_shared(folder, socket.gethostname())
        time.sleep(min(1.0, patience / 10))


def answer(folder: Path, worker: str, *, ended: bool = False, failure: str | None = None) -> None:
    """Say that a worker reads the launcher's folder, or that it has ended."""
    told = Answer(socket.gethostname(), os.getpid(), ended, failure)
    with writing(folder):
        write_text(folder / f"{worker}.json", json.dumps(asdict(told)) + "\n")


def read_answer(folder: Path, worker: str) -> Answer | None:
    """What a worker said last; None if it has not spoken yet."""
    try:
        return Answer(**json.loads((folder / f"{worker}.json").read_text()))
    except FileNotFoundError:
        return None


def close(folder: Path) -> None:
    """Remove the folder, and with the last one the folder above."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.is_dir() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def not_shared(folder: Path, host: str) -> NotSharedError:
    """The error for a worker on ``host`` that does not see ``folder``."""
    cohort = folder.parents[1]
    return NotSharedError(
        f"Expected {cohort} on storage that every worker shares, but the token in "
        f"{WORKERS}/{folder.name} was not read on {host}: use an --out that is the same folder on "
        "all machines.",
        code="system",
    )


def _holds_token(folder: Path) -> bool:
    try:
        return (folder / TOKEN).read_text().strip() == folder.name
    except OSError:
        return False
