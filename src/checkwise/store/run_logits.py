"""Logits that a run saved. Those of source validation are what a calibrator may be fitted on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import Groups, Logits
from checkwise.store import layout
from checkwise.store.done import finished, read_mark
from checkwise.store.run import read_run
from checkwise.store.run_examples import read_groups, read_logits
from checkwise.store.validation import Validation, is_second

SAVE_SOURCE = 'train with `logits = "source"` (or "all") under [records] of the study'
SAVE_ALL = 'train with `logits = "all"` under [records] of the study'
LEFT_BEHIND = "packing left the logits behind; name the study that it was packed from"


def source_logits(folder: Path, step: int, validation: Validation | None = None) -> Logits:
    """Logits and labels of every source domain's validation split at one step.

    ``validation`` is one of two validation sets, for runs that have both. Held-out logits lie in
    other files, which are not opened.
    """
    folder = Path(folder)
    name = _source_file(folder, step, validation)
    what = f"source logits of step {step}"
    logits = read_logits(folder, name, what=what, advice=lambda: remedy(folder))
    if set(logits) & set(read_run(folder).key.held_out):
        raise InputError(
            f"Expected source domains only, but got a held-out one in {folder / name}: the file "
            "does not belong to this run.",
            code="held-out",
        )
    return logits


def source_groups(folder: Path, step: int, validation: Validation | None = None) -> Groups | None:
    """The independent unit of every example of the same files; None where the data have none."""
    folder = Path(folder)
    name = _source_file(folder, step, validation)
    what = f"groups of the examples of step {step}"
    return read_groups(folder, name, what=what, advice=lambda: remedy(folder)) or None


def _source_file(folder: Path, step: int, validation: Validation | None) -> str:
    second = validation is not None and is_second(read_run(folder).config, validation, folder)
    return (layout.groups_predictions_file if second else layout.source_predictions_file)(step)


def remedy(folder: Path, *, heldout: bool = False) -> str:
    """What to do about logits that a run lacks: save them, or name the cohort that has them."""
    saved = read_run(folder).config.get("logits")
    if saved != "all" and (heldout or saved not in ("source", "source-half")):
        return SAVE_ALL if heldout else SAVE_SOURCE
    if left_behind(folder):
        return LEFT_BEHIND
    return "`checkwise study status --verify` says what happened to it"


def left_behind(folder: Path) -> bool:
    """Whether a finished run saved logits that did not come along when it was packed."""
    return (
        read_run(folder).config.get("logits") in ("source", "source-half", "all")
        and finished(folder)
        and not any(name.startswith(layout.PREDICTIONS_FOLDER) for name in read_mark(folder).files)
    )


def saved_at(folder: Path, steps: Iterable[int]) -> bool:
    """Whether the source logits of all these checkpoints were saved."""
    return all((folder / layout.source_predictions_file(step)).is_file() for step in steps)


def mean_metrics(entries: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Equal means over domains."""
    per_domain = list(entries)
    names = [name for name in per_domain[0] if name not in ("n", "correct")]
    return {name: float(np.mean([entry[name] for entry in per_domain])) for name in names}
