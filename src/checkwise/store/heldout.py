"""Results on unseen domains: the one door to them.

Whatever is read here has left its mark in the cohort before the caller gets it, so that what is
registered afterwards is late. Only ``checkwise.study`` may import this; a test sees to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store import layout, rows
from checkwise.store.cohort import is_cohort
from checkwise.store.journal import read_journal
from checkwise.store.registration import mark_opened

Content = TypeVar("Content")


def unseal(place: Path) -> None:
    """Mark the cohort around a run, or around a file of one, as opened.

    For results on unseen domains that lie in no file, such as those made again from weights.
    """
    for path in {place.absolute(), place.resolve()}:  # a run may be a link to its folder
        cohort = next((folder for folder in path.parents if is_cohort(folder)), None)
        if cohort is not None:
            mark_opened(cohort)


def read_heldout(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    """Every record on one held-out domain: ``step``, ``diverged``, ``n``, ``correct``, metrics.

    Metrics of a diverged checkpoint are nan.
    """
    return _opened(Path(folder) / layout.heldout_file(domain), _columns)


def read_pseudo_target(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    """The same of a domain that an inner run leaves out: for its outer run that is validation.

    It leaves no mark.
    """
    return _columns(Path(folder) / layout.heldout_file(domain))


def read_entry(path: Path) -> dict[str, Any]:
    """The result of a derived model on one held-out domain: ``diverged``, ``n``, metrics."""
    return _opened(path, _entry)


def has_logits(folder: Path, domain: str, step: int) -> bool:
    """Whether the logits of a held-out domain at a step were saved."""
    return _logits_file(folder, domain, step).is_file()


def read_logits(
    folder: Path, domain: str, step: int, *, read: Callable[[Path], Content]
) -> Content:
    """What ``read`` makes of the saved logits of a held-out domain at a step."""
    return _opened(_logits_file(folder, domain, step), read)


def _opened(path: Path, read: Callable[[Path], Content]) -> Content:
    """What ``read`` makes of a held-out file. What cannot be read leaves no mark."""
    content = read(path)
    unseal(path)
    return content


def _columns(path: Path) -> dict[str, NDArray[Any]]:
    try:
        lines = read_journal(path)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.jsonl"))) or "none"
        raise InputError(
            f"Expected results on the held-out domain {path.stem!r}, but {path.parent} has "
            f"{known}: check the name, or let the run train."
        ) from None
    if not lines:
        raise InputError(f"Expected at least one record, but got none in {path}: let it train.")
    steps, diverged = rows.steps_of(lines, path), rows.diverged_of(lines)
    columns = rows.metric_columns(lines, diverged, steps, str(path))
    return {"step": steps, "diverged": diverged, **columns}


def _entry(path: Path) -> dict[str, Any]:
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


def _logits_file(folder: Path, domain: str, step: int) -> Path:
    return Path(folder) / layout.heldout_predictions_file(domain, step)
