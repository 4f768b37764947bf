"""A folder of predictions: what every validation example said at a checkpoint, a file for each set.

    predictions/
      predictions.json           what ``checkwise predict`` was told and read, if it wrote them
      step-000100/photo.npz      logits (or probs) [n, C], labels [n]; groups, correct, nll [n]

A live selection keeps such a folder beside its journal. Files of a step are written into a hidden
folder, which takes the name of the step once the journal has its record.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isclose
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import CountedExamples
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
from checkwise.store.npz import Saved, read_outputs, write_npz
from checkwise.store.predict_record import PredictionsRecord
from checkwise.store.whole_files import sync_folder, writing
from checkwise.words import counted

_STEP: Final = re.compile(r"step[-_]?([0-9]{1,15})")
_PLACED: Final = re.compile(r"step-([0-9]{6,})")
_HIDDEN: Final = re.compile(r"\.step-([0-9]{6,})\.([0-9a-f]{16})\.part")
_WEIGHTS: Final = (".safetensors", ".pt", ".pth", ".ckpt")
_KEPT: Final = "every record before it is kept"


@dataclass(frozen=True)
class Predictions:
    """A folder of predictions; what is in it, as it was when it was first asked.

    Args:
        folder: the folder.
        home: where files may be deleted; without it they are only read.
        written: step → digests of what a live selection wrote for it, as its journal has them.
            Nothing else is deleted under a step's name.
    """

    folder: Path
    home: Home = field(default_factory=Home)
    written: Mapping[int, Collection[str]] = field(default_factory=dict)

    @cached_property
    def folders(self) -> dict[int, Path]:
        """Step → folder, in order of steps; two folders of one step are refused."""
        folders: dict[int, Path] = {}
        for name in sorted(os.listdir(self.folder)):
            match = _STEP.fullmatch(name)
            if match is None or not (self.folder / name).is_dir():
                continue
            step = int(match[1])
            if step in folders:
                raise InputError(
                    f"Expected one folder per step, but {self.folder} holds {folders[step].name} "
                    f"and {name}: remove one.",
                    code="ambiguous",
                )
            folders[step] = self.folder / name
        return dict(sorted(folders.items()))

    @cached_property
    def files(self) -> dict[int, dict[str, Path]]:
        """Step → set → file, without hidden files."""
        return {
            step: {
                file.stem: file
                for file in sorted(folder.glob("*.npz"))
                if not file.name.startswith(".") and file.is_file()
            }
            for step, folder in self.folders.items()
        }

    @property
    def sets(self) -> set[str]:
        """The names of all sets."""
        return {name for files in self.files.values() for name in files}

    @property
    def set_aside(self) -> set[str]:
        """Folders inside the folders of steps, and the files in them: by name, never opened."""
        inner = [entry for folder in self.folders.values() for entry in folder.iterdir()]
        folders = [entry for entry in inner if entry.is_dir()]
        files = {file.stem for folder in folders for file in folder.glob("*.npz")}
        return {folder.name for folder in folders} | files

    def of_step(self, step: int) -> Path:
        """The folder into which outputs of a step are written."""
        return self.folder / f"step-{step:06d}"

    def place(self, step: int, name: str) -> Path:
        """Where outputs are written."""
        return self.of_step(step) / f"{name}.npz"

    def logits(self, step: int, names: Collection[str]) -> dict[str, tuple[Any, Any]]:
        """The logits and labels of one step on these sets; no other file is opened."""
        found = {name: read_outputs(self.files[step][name], "logits") for name in names}
        return {name: (saved.outputs, saved.labels) for name, saved in found.items()}

    def outputs(self, names: Collection[str]) -> dict[int, Mapping[str, tuple[Any, ...]]]:
        """Step → set → outputs, labels, and groups and outcomes where they were saved.

        A file is read when it is asked for, and as the kind that the first of all files has.
        """
        kind = self.kind(names)
        return {
            step: _Outputs({name: file for name, file in files.items() if name in names}, kind)
            for step, files in self.files.items()
        }

    def kind(self, names: Collection[str]) -> str:
        """What the first file of these sets holds."""
        files = (files[name] for files in self.files.values() for name in files if name in names)
        return read_outputs(next(files), outputs=False).kind

    def weights(self) -> tuple[dict[int, str | None], tuple[str, ...]]:
        """The checkpoint of every step, by the record or beside the outputs; and notes on them."""
        record = PredictionsRecord.read(self.folder)
        if record is None:
            return {step: _weights(folder) for step, folder in self.folders.items()}, ()
        paths, notes = record.locate(self.folder, self.folders)
        return {step: paths.get(step) for step in self.folders}, notes

    # Beside a journal: one process writes, the one that has it.

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
        if os.path.lexists(self.of_step(step)) and not self._is_ours(step):
            raise InputError(
                f"Expected no predictions of step {step} in {self.folder} but those that this "
                "journal has a record of, and others are there: another run keeps its own in this "
                "folder; give each run a folder of its own.",
                code="exists",
            )

    def write(
        self, record: CheckpointRecord, whole: CheckpointRecord, groups: Mapping[str, IntArray]
    ) -> str:
        """Write what every example said into a hidden folder; ``publish`` makes it visible.

        ``whole`` is the record, which the journal will hold, with what every example said. Returns
        a digest of the files, for the journal.
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

    def publish(self, record: CheckpointRecord) -> None:
        """Give the files of a record their name, once the journal has the record."""
        placed, hidden = self.of_step(record.step), self._hidden(record)
        if self._is_ours(record.step) and (record.diverged or hidden.is_dir()):
            delete_checkpoint(placed, self.home)  # an earlier record of the same step
        if hidden.is_dir() and not os.path.lexists(placed):
            with writing(self.folder, then=_KEPT):
                hidden.rename(placed)
                sync_folder(self.folder)

    def move_aside(self, step: int) -> None:
        """Rename what is kept of a step, where no journal says who wrote it."""
        placed, number = self.of_step(step), 1
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
                    self.publish(record)
                elif _digest(self.folder / name):  # the journal never learned of these
                    delete_checkpoint(self.folder / name, self.home)
        for name in os.listdir(self.folder):
            if match := _PLACED.fullmatch(name):
                step = int(match[1])
                record = records.get(step)
                lost = step in forgotten if record is None else record.diverged
                if lost and self._is_ours(step):
                    delete_checkpoint(self.folder / name, self.home)

    def has(self, record: CheckpointRecord) -> bool:
        """Whether files of a record were written."""
        return self._folder_of(record) is not None

    def logits_of(self, record: CheckpointRecord) -> dict[str, tuple[Any, Any]]:
        """The logits and labels of a record by domain."""
        logits: dict[str, tuple[Any, Any]] = {}
        for name, domain in record.domains.items():
            saved = self._saved(record, name, kind="logits")
            classes = saved.outputs.shape[1]
            if classes != (domain.classes or classes):
                came = f"{classes} classes in place of {domain.classes}"
                raise _other(self._file(record, name), came)
            logits[name] = (saved.outputs, saved.labels.astype(np.int64))
        return logits

    def added_to(self, run: Trajectory, records: Mapping[int, CheckpointRecord]) -> Trajectory:
        """A run of some of the records, with what every example said; a note where some lack it.

        Files are read when they are first asked for. One that does not belong to its record is
        refused then.
        """
        rows = [records[step] for step in sorted(records)]
        finite = [row for row in rows if not row.diverged]
        there = sum(map(self.has, finite))
        if not there:
            return run
        if there < len(finite):
            note = (
                f"predictions were kept of {there} of {counted(len(finite), 'record')}, and are "
                "used only where all have them"
            )
            return replace(run, notes=(*run.notes, note))
        domains = tuple(rows[0].domains)

        def outcomes() -> Outcomes:
            saved = [
                None if row.diverged else {name: self._saved(row, name) for name in domains}
                for row in rows
            ]
            first = next(one for one in saved if one is not None)
            groups = {n: one.groups for n, one in first.items() if one.groups is not None}
            return Outcomes.stacked(
                domains,
                [None if one is None else _counted(one) for one in saved],
                groups={name: numbers.astype(np.int64) for name, numbers in groups.items()},
            )

        examples = Examples(
            domains=domains,
            steps=np.array([row.step for row in rows]),
            outcomes=outcomes,
            logits=lambda step: self.logits_of(records[step]),
        )
        return replace(run, examples=examples.subset(run.steps.tolist()))

    def _saved(self, record: CheckpointRecord, name: str, kind: str | None = None) -> Saved:
        file = self._file(record, name)
        saved = read_outputs(file, kind, outputs=kind is not None)
        _check(saved, record.domains[name], file)
        return saved

    def _file(self, record: CheckpointRecord, name: str) -> Path:
        folder = self._folder_of(record)
        if folder is None or not (folder / f"{name}.npz").is_file():
            raise InputError(
                f"Expected the predictions of {name!r} at step {record.step}, but there are none "
                f"in {self.folder}: they were deleted; restore them.",
                code="missing",
            )
        return folder / f"{name}.npz"

    def _folder_of(self, record: CheckpointRecord) -> Path | None:
        places = (self._hidden(record), self.of_step(record.step))
        return next((place for place in places if place.is_dir()), None)

    def _is_ours(self, step: int) -> bool:
        """Whether the journal has the digest of what is kept under a step's name."""
        return _digest(self.of_step(step)) in self.written.get(step, ())

    def _hidden(self, record: CheckpointRecord) -> Path:
        token = hashlib.sha256(encode_line(record.as_dict())).hexdigest()[:16]
        return self.folder / f".step-{record.step:06d}.{token}.part"


class _Outputs(Mapping[str, tuple[Any, ...]]):
    """The sets of one step; a file is opened when its set is asked for."""

    def __init__(self, files: Mapping[str, Path], kind: str) -> None:
        self._files = files
        self._kind = kind

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        _, *said = read_outputs(self._files[name], self._kind)
        while said[-1] is None:
            said.pop()
        return tuple(said)

    def __contains__(self, name: object) -> bool:
        return name in self._files  # the inherited one would open the file

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _weights(folder: Path) -> str | None:
    """The weights saved with a step, by name only: one file of the first suffix that occurs."""
    for place, pattern in ((folder, "*"), (folder.parent, f"{folder.name}.*")):
        for suffix in _WEIGHTS:
            files = sorted(f for f in place.glob(pattern) if f.suffix == suffix and f.is_file())
            named = [file for file in files if file.stem in ("weights", "model")]
            if len(files) == 1 or named:
                return str((named or files)[-1])
    return None


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


def _counted(saved: Mapping[str, Saved]) -> dict[str, CountedExamples]:
    return {
        name: CountedExamples(one.outcomes.correct, one.labels.astype(np.int64), one.outcomes.nll)
        for name, one in saved.items()
        if one.outcomes is not None  # _check has seen to it
    }


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
