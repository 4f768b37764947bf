"""Results on unseen domains. Only ``checkwise.study`` may import this; a test sees to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store import layout, rows
from checkwise.store.journal import read_journal


def read_heldout(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    """Every record on one held-out domain: ``step``, ``diverged``, ``n``, ``correct``, metrics.

    Metrics of a diverged checkpoint are nan.
    """
    path = Path(folder) / layout.heldout_file(domain)
    try:
        lines = read_journal(path)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.jsonl"))) or "none"
        raise InputError(
            f"Expected results on the held-out domain {domain!r}, but {path.parent} has {known}: "
            "check the name, or let the run train."
        ) from None
    if not lines:
        raise InputError(f"Expected at least one record, but got none in {path}: let it train.")
    steps, diverged = rows.steps_of(lines, path), rows.diverged_of(lines)
    columns = rows.metric_columns(lines, diverged, steps, str(path))
    return {"step": steps, "diverged": diverged, **columns}


def read_entry(path: Path) -> dict[str, Any]:
    """The result of a derived model on one held-out domain: ``diverged``, ``n``, metrics."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        found = error
    if not isinstance(found, dict):
        raise InputError(
            f"Expected the result on a held-out domain, but got {found} in {path}: remove the "
            "folder of the derived result and make it again."
        )
    return found


def heldout_logits_file(folder: Path, domain: str, step: int) -> Path:
    """Where the logits of a held-out domain at a step are."""
    return Path(folder) / layout.heldout_predictions_file(domain, step)
