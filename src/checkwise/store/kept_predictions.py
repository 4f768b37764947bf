"""The predictions that a live selection keeps beside its journal, of the checkpoints in it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.records import (
    CheckpointRecord,
    DomainRecord,
    Examples,
    IntArray,
    Outcomes,
    Trajectory,
)
from checkwise.store.deleting import Home, delete_checkpoint, remove_leftovers, sync_checkpoint
from checkwise.store.journal import encode_line
from checkwise.store.layout import check_domains
from checkwise.store.npz import write_npz
from checkwise.store.predictions import Saved, read_outputs
from checkwise.store.whole_files import sync_folder, writing
from checkwise.words import counted

_KEPT: Final = "every record before it is kept"
_PLACED: Final = re.compile(r"step-([0-9]{6,})")
_HIDDEN: Final = re.compile(r"\.step-([0-9]{6,})\.([0-9a-f]{16})\.part")


@dataclass(frozen=True)
class KeptPredictions:
    """The predictions of a run's records; one process writes them, the one that has the journal.

    Args:
        folder: holds nothing but these.
        home: where files may be deleted; without it they are only read.
        written: step → digests of what was written for it, as the journal has them. Nothing else
            is deleted under a step's name.
    """

    folder: Path
    home: Home = field(default_factory=Home)
    written: Mapping[int, Collection[str]] = field(default_factory=dict)

    def check_unused(self) -> None:
        """Refuse a folder that holds something else, before it is first written to."""
        if os.path.lexists(self.folder) and (
            not self.folder.is_dir() or any(self.folder.iterdir())
        ):
            raise InputError(
                f"Expected an empty folder for predictions, but {self.folder} holds something "
                "else: move it away, or name another folder in predictions=.",
                code="exists",
            )

    def check_free(self, step: int) -> None:
        """Refuse to replace what this journal did not write."""
        if os.path.lexists(self.placed(step)) and not self._is_ours(step):
            raise InputError(
                f"Expected no predictions of step {step} in {self.folder} but those that this "
                "journal has a record of, and others are there: another run keeps its own in this "
                "folder; give each run a folder of its own.",
                code="exists",
            )

    def write(
        self, record: CheckpointRecord, whole: CheckpointRecord, groups: Mapping[str, IntArray]
    ) -> str:
        """Write what every example said into a hidden folder; ``place`` makes it visible.

        Returns:
            A digest of the files, for the journal.

        Args:
            record: as the journal will hold it.
            whole: the same with what every example said.
            groups: domain → the independent unit of each example, where they were named.
        """
        check_domains(list(record.domains))
        hidden = self._hidden(record)
        delete_checkpoint(hidden, self.home)
        with writing(self.folder, f"predictions of step {record.step}", then=_KEPT):
            self.folder.mkdir(parents=True, exist_ok=True)
            hidden.mkdir()
            for name, domain in whole.domains.items():
                said = domain.said
                assert said is not None
                arrays = {
                    "logits": said.logits,
                    "labels": said.labels.astype(np.int32),
                    "correct": said.correct,
                    "nll": said.nll,
                    "groups": groups[name].astype(np.int32) if name in groups else None,
                }
                with (hidden / f"{name}.npz").open("wb") as file:
                    write_npz(file, {n: array for n, array in arrays.items() if array is not None})
        sync_checkpoint(hidden)
        return _digest(hidden)

    def place(self, record: CheckpointRecord) -> None:
        """Give the files of a record their name, once the journal has the record."""
        placed, hidden = self.placed(record.step), self._hidden(record)
        if self._is_ours(record.step) and (record.diverged or hidden.is_dir()):
            delete_checkpoint(placed, self.home)  # an earlier record of the same step
        if hidden.is_dir() and not os.path.lexists(placed):
            with writing(self.folder, then=_KEPT):
                hidden.rename(placed)
                sync_folder(self.folder)

    def set_aside(self, step: int) -> None:
        """Rename what is kept of a step, where no journal says who wrote it."""
        placed, number = self.placed(step), 1
        if not os.path.lexists(placed):
            return
        while os.path.lexists(aside := placed.with_name(f"earlier-{placed.name}-{number}")):
            number += 1
        with writing(self.folder, then=_KEPT):
            placed.rename(aside)

    def tidy(self, records: Mapping[int, CheckpointRecord], forgotten: Collection[int]) -> None:
        """Finish what a killed process began, and delete the files of ``forgotten`` steps.

        Nothing is deleted that this journal did not write: files of steps that it never had are
        somebody else's, and so are files that are not as they were written.
        """
        if not self.folder.is_dir() or not self.home.folders:
            return
        remove_leftovers(self.folder, self.home)
        for name in sorted(os.listdir(self.folder)):
            if match := _HIDDEN.fullmatch(name):
                record = records.get(int(match[1]))
                if record is not None and self._hidden(record).name == name:
                    self.place(record)
                elif _digest(self.folder / name):  # the journal never learned of these
                    delete_checkpoint(self.folder / name, self.home)
        for name in os.listdir(self.folder):
            if match := _PLACED.fullmatch(name):
                step = int(match[1])
                record = records.get(step)
                lost = step in forgotten if record is None else record.diverged
                if lost and self._is_ours(step):
                    delete_checkpoint(self.folder / name, self.home)

    def folder_of(self, record: CheckpointRecord) -> Path | None:
        """Where the files of a record are; None where none were written."""
        places = (self._hidden(record), self.placed(record.step))
        return next((place for place in places if place.is_dir()), None)

    def placed(self, step: int) -> Path:
        """Where the files of a step are in the end."""
        return self.folder / f"step-{step:06d}"

    def logits(self, record: CheckpointRecord) -> dict[str, tuple[Any, Any]]:
        """The logits and labels of a record by domain."""
        logits: dict[str, tuple[Any, Any]] = {}
        for name, domain in record.domains.items():
            saved = self._saved(record, name, outputs=True)
            classes = saved.outputs.shape[1]
            if classes != (domain.classes or classes):
                raise _other(
                    self._file(record, name), f"{classes} classes in place of {domain.classes}"
                )
            logits[name] = (saved.outputs, saved.labels.astype(np.int64))
        return logits

    def added_to(self, run: Trajectory, records: Mapping[int, CheckpointRecord]) -> Trajectory:
        """A run of some of the records, with what every example said; a note where some lack it.

        Files are read when they are first asked for. One that does not belong to its record is
        refused then.
        """
        rows = [records[step] for step in sorted(records)]
        finite = [row for row in rows if not row.diverged]
        there = sum(self.folder_of(row) is not None for row in finite)
        if not there:
            return run
        if there < len(finite):
            note = (
                f"predictions were kept of {there} of {counted(len(finite), 'record')}, and are "
                "used only where all have them"
            )
            return replace(run, notes=(*run.notes, note))
        examples = Examples(
            domains=tuple(rows[0].domains),
            steps=np.array([row.step for row in rows]),
            outcomes=lambda: self._outcomes(rows),
            logits=lambda step: self.logits(records[step]),
        )
        return replace(run, examples=examples.subset(run.steps.tolist()))

    def _outcomes(self, rows: Sequence[CheckpointRecord]) -> Outcomes:
        domains = tuple(rows[0].domains)
        saved = {
            name: [None if row.diverged else self._saved(row, name) for row in rows]
            for name in domains
        }
        first = {name: next(one for one in saved[name] if one is not None) for name in domains}
        groups = [one.astype(np.int64) for d in domains if (one := first[d].groups) is not None]
        return Outcomes(
            correct=tuple(_stacked(saved[name], 0, False) for name in domains),
            labels=tuple(first[name].labels.astype(np.int64) for name in domains),
            nll=tuple(_stacked(saved[name], 1, np.nan) for name in domains),
            groups=tuple(groups) if len(groups) == len(domains) else None,
            diverged=np.array([row.diverged for row in rows]),
        )

    def _saved(self, record: CheckpointRecord, name: str, *, outputs: bool = False) -> Saved:
        file = self._file(record, name)
        saved = read_outputs(file, "logits" if outputs else None, outputs=outputs)
        _check(saved, record.domains[name], file)
        return saved

    def _file(self, record: CheckpointRecord, name: str) -> Path:
        folder = self.folder_of(record)
        if folder is None or not (folder / f"{name}.npz").is_file():
            raise InputError(
                f"Expected the predictions of {name!r} at step {record.step}, but there are none "
                f"in {self.folder}: they were deleted; restore them.",
                code="missing",
            )
        return folder / f"{name}.npz"

    def _is_ours(self, step: int) -> bool:
        """Whether the journal has the digest of what is kept under a step's name."""
        return _digest(self.placed(step)) in self.written.get(step, ())

    def _hidden(self, record: CheckpointRecord) -> Path:
        token = hashlib.sha256(encode_line(record.as_dict())).hexdigest()[:16]
        return self.folder / f".step-{record.step:06d}.{token}.part"


def _digest(folder: Path) -> str:
    """Of the files of a step; empty where there are none, or there is anything else."""
    digest = hashlib.sha256()
    if folder.is_symlink() or not folder.is_dir():
        return ""
    for file in sorted(folder.iterdir()):
        if file.suffix != ".npz" or file.is_symlink() or not file.is_file():
            return ""
        digest.update(f"{file.name}\0".encode(errors="surrogateescape"))
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _stacked(saved: Sequence[Saved | None], part: int, blank: Any) -> Any:
    """Correctness or NLL [T, n]; ``blank`` where a checkpoint diverged."""
    arrays = [None if one is None or one.outcomes is None else one.outcomes[part] for one in saved]
    n = next(len(array) for array in arrays if array is not None)
    return np.stack([np.full(n, blank) if array is None else array for array in arrays])


def _check(saved: Saved, domain: DomainRecord, file: Path) -> None:
    """Refuse a file of another record than the journal's."""
    if saved.outcomes is None:
        raise _other(file, "no correct and nll")
    correct, nll = int(saved.outcomes.correct.sum()), float(saved.outcomes.nll.mean())
    labels = hashlib.sha256(saved.labels.astype(np.int64).tobytes()).hexdigest()
    if labels != (domain.labels or labels):
        raise _other(file, "other labels")
    if domain.correct not in (None, correct):
        raise _other(file, f"{correct} correct examples in place of {domain.correct}")
    recorded = domain.values.get("nll", nll)
    if not isclose(nll, recorded, rel_tol=1e-9, abs_tol=1e-9):
        raise _other(file, f"an NLL of {nll:.6g} in place of {recorded:.6g}")


def _other(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected the predictions that the journal recorded, but {file} has {came}: it was "
        "replaced after the record was written; restore it.",
        code="damaged",
    )
