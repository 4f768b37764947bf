"""The predictions folder of a live selection: ``step-000100/<domain>.npz`` of every record.

A step's files are written into a hidden folder, then the journal learns of the record, then the
folder gets its name. The hidden name carries a hash of the record, so that after a kill it is known
whether the journal has the record that the files belong to.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records.checkpoint_record import CheckpointRecord, DomainRecord
from checkwise.records.examples import IntArray
from checkwise.store.atomic_write import sync_folder, writing
from checkwise.store.deleting import (
    Home,
    delete_checkpoint,
    remove_leftovers,
    sync_checkpoint,
)
from checkwise.store.journal import encode_line
from checkwise.store.layout import check_domains
from checkwise.store.npz import write_npz

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
                with (hidden / f"{name}.npz").open("wb") as file:
                    write_npz(file, _arrays(domain, groups.get(name)))
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

    def folder_of(self, record: CheckpointRecord) -> Path | None:
        """Where the files of a record are; None where none were written."""
        places = (self._hidden(record), self.placed(record.step))
        return next((place for place in places if place.is_dir()), None)

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

    def _is_ours(self, step: int) -> bool:
        """Whether the journal has the digest of what is kept under a step's name."""
        return _digest(self.placed(step)) in self.written.get(step, ())

    def check_free(self, step: int) -> None:
        """Refuse to replace what this journal did not write."""
        if os.path.lexists(self.placed(step)) and not self._is_ours(step):
            raise InputError(
                f"Expected no predictions of step {step} in {self.folder} but those that this "
                "journal has a record of, and others are there: another run keeps its own in this "
                "folder; give each run a folder of its own.",
                code="exists",
            )

    def placed(self, step: int) -> Path:
        """Where the files of a step are in the end."""
        return self.folder / f"step-{step:06d}"

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


def _arrays(domain: DomainRecord, groups: IntArray | None) -> dict[str, NDArray[Any]]:
    said = domain.said
    assert said is not None
    arrays = {
        "logits": said.logits,
        "labels": said.labels.astype(np.int32),
        "correct": said.correct,
        "nll": said.nll,
        "groups": None if groups is None else groups.astype(np.int32),
    }
    return {name: array for name, array in arrays.items() if array is not None}
