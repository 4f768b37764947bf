"""Which transformers states are of one training: each repeats the records of those before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkwise.readers.logs.json_log import HISTORY, is_state, whole_document


def history(state: Any) -> frozenset[str]:
    """The records of a state's log; none where it is no state."""
    return frozenset(map(json.dumps, state[HISTORY])) if is_state(state) else frozenset()


def history_in(path: Path) -> frozenset[str]:
    """The records of the state in a file; none where it holds no state."""
    return history(whole_document(path)) if path.is_file() else frozenset()


def of_one_training(first: frozenset[str], second: frozenset[str]) -> bool:
    """Whether one log goes on where the other ends; so it is where one has no records."""
    return first <= second or second <= first


def of_another_training(checkpoints: Sequence[Path], name: str, log_path: Path) -> list[Path]:
    """The checkpoints whose own state, in a file of this name, contradicts the log."""
    logged = history_in(log_path)
    return [
        folder for folder in checkpoints if not of_one_training(history_in(folder / name), logged)
    ]
