"""What every validation example said, from the predictions that a live selection kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.predictions import SavedOutputs, read_outcomes, read_outputs
from checkwise.records import CheckpointRecord, DomainRecord, Examples, Outcomes, Trajectory
from checkwise.store import KeptPredictions
from checkwise.words import counted


def kept_examples(
    kept: KeptPredictions, records: Mapping[int, CheckpointRecord]
) -> Examples | None:
    """The examples of all records, read when they are first asked for; None where some lack.

    A file that does not belong to its record is refused when it is read.
    """
    rows = [records[step] for step in sorted(records)]
    finite = [row for row in rows if not row.diverged]
    if not finite or any(kept.folder_of(row) is None for row in finite):
        return None
    return Examples(
        domains=tuple(rows[0].domains),
        steps=np.array([row.step for row in rows]),
        outcomes=partial(_outcomes, kept, rows),
        logits=lambda step: logits_of(kept, records[step]),
    )


def with_kept(
    run: Trajectory, kept: KeptPredictions, records: Mapping[int, CheckpointRecord]
) -> Trajectory:
    """A run of some of the records, with what every example said; a note where some lack it."""
    examples = kept_examples(kept, records)
    if examples is not None:
        return replace(run, examples=examples.subset(run.steps.tolist()))
    finite = [record for record in records.values() if not record.diverged]
    there = sum(kept.folder_of(record) is not None for record in finite)
    if not there:
        return run
    note = (
        f"predictions were kept of {there} of {counted(len(finite), 'record')}, and are used only "
        "where all have them"
    )
    return replace(run, notes=(*run.notes, note))


def logits_of(kept: KeptPredictions, record: CheckpointRecord) -> dict[str, tuple[Any, Any]]:
    """The logits and labels of a record by domain."""
    logits: dict[str, tuple[Any, Any]] = {}
    for name, domain in record.domains.items():
        file = _file(kept, record, name)
        saved = read_outputs(file, "logits")
        _check(saved, domain, file)
        if saved.outputs.shape[1] != (domain.classes or saved.outputs.shape[1]):
            raise _other(file, f"{saved.outputs.shape[1]} classes in place of {domain.classes}")
        logits[name] = (saved.outputs, saved.labels.astype(np.int64))
    return logits


def _outcomes(kept: KeptPredictions, rows: Sequence[CheckpointRecord]) -> Outcomes:
    domains = tuple(rows[0].domains)
    saved = {name: [_saved(kept, row, name) for row in rows] for name in domains}
    first = {name: next(one for one in saved[name] if one is not None) for name in domains}
    groups = [first[name].groups for name in domains]
    return Outcomes(
        correct=tuple(_stacked(saved[name], 0, False) for name in domains),
        labels=tuple(first[name].labels.astype(np.int64) for name in domains),
        nll=tuple(_stacked(saved[name], 1, np.nan) for name in domains),
        groups=None
        if any(one is None for one in groups)
        else tuple(one.astype(np.int64) for one in groups if one is not None),
        diverged=np.array([row.diverged for row in rows]),
    )


def _stacked(saved: Sequence[SavedOutputs | None], part: int, blank: Any) -> Any:
    """Correctness or NLL [T, n]; ``blank`` where a checkpoint diverged."""
    arrays = [None if one is None or one.outcomes is None else one.outcomes[part] for one in saved]
    n = next(len(array) for array in arrays if array is not None)
    return np.stack([np.full(n, blank) if array is None else array for array in arrays])


def _saved(kept: KeptPredictions, record: CheckpointRecord, name: str) -> SavedOutputs | None:
    if record.diverged:
        return None
    file = _file(kept, record, name)
    saved = read_outcomes(file)
    _check(saved, record.domains[name], file)
    return saved


def _file(kept: KeptPredictions, record: CheckpointRecord, name: str) -> Path:
    folder = kept.folder_of(record)
    if folder is None or not (folder / f"{name}.npz").is_file():
        raise InputError(
            f"Expected the predictions of {name!r} at step {record.step}, but there are none in "
            f"{kept.folder}: they were deleted; restore them.",
            code="missing",
        )
    return folder / f"{name}.npz"


def _check(saved: SavedOutputs, domain: DomainRecord, file: Path) -> None:
    """Refuse a file of another record than the journal's."""
    if saved.outcomes is None:
        raise _other(file, "no correct and nll")
    correct, nll = saved.outcomes
    labels = hashlib.sha256(saved.labels.astype(np.int64).tobytes()).hexdigest()
    if domain.labels is not None and labels != domain.labels:
        raise _other(file, "other labels")
    if domain.correct is not None and int(correct.sum()) != domain.correct:
        raise _other(file, f"{int(correct.sum())} correct examples in place of {domain.correct}")
    recorded = domain.values.get("nll")
    if recorded is not None and not isclose(
        float(nll.mean()), recorded, rel_tol=1e-9, abs_tol=1e-9
    ):
        raise _other(file, f"an NLL of {float(nll.mean()):.6g} in place of {recorded:.6g}")


def _other(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected the predictions that the journal recorded, but {file} has {came}: it was "
        "replaced after the record was written; restore it.",
        code="damaged",
    )
