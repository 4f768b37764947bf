"""Sealed results: whoever sees one leaves a mark, and derived ones are as they were recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import outside
from checkwise.store import (
    Fingerprint,
    damaged_file,
    fingerprint_of,
    has_file,
    heldout_file,
    heldout_predictions_file,
    is_fingerprint,
    is_plain_path,
    metric_columns,
    outer_cohorts,
    parse,
    read_file,
    read_json,
    read_records,
    steps_of,
)
from checkwise.study.folder.cohort import is_cohort
from checkwise.study.folder.registration import mark_opened

RECORD: Final = "record.json"
AGAIN: Final = "remove the folder of this result and run the same `checkwise study derive` again"


def recorded_files(folder: Path) -> Mapping[str, Fingerprint]:
    """Size and SHA-256 of every file of a result; none if an earlier version wrote it."""
    path = folder / RECORD
    files: dict[str, Fingerprint] = read_json(path).get("files", {})
    plain = isinstance(files, dict) and all(
        is_plain_path(name) and is_fingerprint(one) for name, one in files.items()
    )
    if not plain:
        raise InputError(
            f"Expected files with their size and SHA-256, but got {files!r:.80} in {path}: "
            f"{AGAIN}.",
            code="damaged",
        )
    return files


def read_derived(folder: Path, name: str, recorded: Fingerprint | None) -> bytes:
    try:
        content = read_file(folder, name)
    except OSError as error:
        raise InputError(
            f"Expected {folder / name}, but it cannot be read ({error.strerror}): {AGAIN}.",
            code="system",
        ) from None
    if fingerprint_of(content) != recorded:
        raise InputError(
            f"Expected what `checkwise study derive` wrote, but {folder / name} was changed since: "
            f"{AGAIN}.",
            code="damaged",
        )
    return content


def derived_entry(folder: Path, name: str, recorded: Fingerprint | None) -> dict[str, Any]:
    """The JSON object in a file of a result."""
    content = read_derived(folder, name, recorded)
    try:
        entry = parse(content)
    except ValueError as error:
        entry = error
    if not isinstance(entry, dict):
        raise InputError(
            f"Expected a JSON object, but got {entry} in {folder / name}: {AGAIN}.", code="damaged"
        )
    return entry


Content = TypeVar("Content")


def unseal(place: Path) -> None:
    """Mark the cohort around a run, or around a file of one, as opened.

    For held-out results that are in no file, such as those computed again from weights. Inner runs
    show the targets of the cohort around them, so that one is marked too, first.
    """
    paths = {place.absolute(), place.resolve()}  # a run may be a link to its folder
    nearest = (next(filter(is_cohort, path.parents), None) for path in paths)
    cohorts = {cohort for cohort in nearest if cohort is not None}
    if not cohorts:
        raise InputError(
            f"Expected held-out results inside a study, but {place} is in none: name the run in "
            "the study where `checkwise study run` trained it.",
            code="missing",
        )
    for cohort in cohorts:
        _mark(cohort)


def sealed_results(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    """Every record on one held-out domain: ``step``, ``diverged``, ``n``, ``correct``, metrics.

    Metrics of a diverged checkpoint are nan, and so are those that an imported log lacks. Where
    an imported log has no counts there is no ``n`` and no ``correct``.
    """
    name = heldout_file(domain)
    return _opened(Path(folder) / name, lambda: _columns(Path(folder), domain))


def read_pseudo_target(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    """Every record on a domain that an inner run leaves out. For the outer run that domain is
    validation, so reading it leaves no mark.
    """
    return _columns(Path(folder), domain)


def sealed_entry(folder: Path, name: str, recorded: Fingerprint | None) -> dict[str, Any]:
    """The result of a derived model on one held-out domain: ``diverged``, ``n``, metrics.

    ``name`` is the file inside the result's folder, which has to be as it was ``recorded``.
    """
    return _opened(folder / name, lambda: derived_entry(folder, name, recorded))


def has_sealed_logits(folder: Path, domain: str, step: int) -> bool:
    """Whether the logits of a held-out domain at a step were saved."""
    return has_file(folder, heldout_predictions_file(domain, step))


def sealed_logits(
    folder: Path, domain: str, step: int, *, read: Callable[[Path, str], Content]
) -> Content:
    """What ``read`` returns for the saved logits of a held-out domain at a step.

    ``read`` gets the run's folder and the name of the file inside it.
    """
    name = heldout_predictions_file(domain, step)
    return _opened(Path(folder) / name, lambda: read(Path(folder), name))


def _mark(cohort: Path) -> None:
    for outer in outer_cohorts(cohort):
        _mark(outer)
    mark_opened(cohort)


def _opened(path: Path, read: Callable[[], Content]) -> Content:
    """What ``read`` returns for a held-out file. A file that cannot be read leaves no mark."""
    content = read()
    unseal(path)
    return content


def _columns(folder: Path, domain: str) -> dict[str, NDArray[Any]]:
    path = folder / heldout_file(domain)
    try:
        lines = read_records(folder, heldout_file(domain))
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.jsonl"))) or "none"
        raise InputError(
            f"Expected results on the held-out domain {domain!r}, but {path.parent} has "
            f"{known}: check the name, or let the run train.",
            code="missing",
        ) from None
    if not lines:
        raise InputError(
            f"Expected at least one record, but got none in {path}: wait for its first checkpoint.",
            code="empty",
        )
    return checked_columns(lines, path)


def checked_columns(lines: Sequence[Mapping[str, Any]], path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a journal; what no metric can be is refused."""
    steps, diverged = steps_of(lines, path)
    columns = metric_columns(lines, diverged, steps, str(path), gaps=True)
    for name, column in columns.items():
        if name == "n":
            bad = column < 1
        elif name == "correct":
            bad = (column < 0) | (column > columns["n"])
        else:
            bad = outside(column, name) & ~np.isnan(column)
        for row in np.flatnonzero(bad & ~diverged).tolist():
            where = f"{path} at step {steps[row]}"
            raise damaged_file(f"a possible value of {name}", column[row].item(), where)
    return {"step": steps, "diverged": diverged, **columns}
