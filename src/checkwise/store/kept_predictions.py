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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records.checkpoint_record import CheckpointRecord, DomainRecord
from checkwise.records.examples import IntArray
from checkwise.store.atomic_write import sync_folder, writing
from checkwise.store.deleting import delete_checkpoint, remove_leftovers, sync_checkpoint
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
    """

    folder: Path

    def check_unused(self) -> None:
        """Refuse a folder that holds something else, before it is first written to."""
        if os.path.lexists(self.folder) and (
            not self.folder.is_dir() or any(self.folder.iterdir())
        ):
            raise InputError(
                f"Expected an empty folder for predictions, but {self.folder} holds something "
                "else: move it away, or name another folder in predictions=."
            )

    def write(
        self, record: CheckpointRecord, whole: CheckpointRecord, groups: Mapping[str, IntArray]
    ) -> None:
        """Write what every example said into a hidden folder; ``place`` makes it visible.

        Args:
            record: as the journal will hold it.
            whole: the same with what every example said.
            groups: domain → the independent unit of each example, where they were named.
        """
        check_domains(list(record.domains))
        hidden = self._hidden(record)
        delete_checkpoint(hidden)
        with writing(self.folder, then=_KEPT):
            self.folder.mkdir(parents=True, exist_ok=True)
            hidden.mkdir()
            for name, domain in whole.domains.items():
                with (hidden / f"{name}.npz").open("wb") as file:
                    write_npz(file, _arrays(domain, groups.get(name)))
        sync_checkpoint(hidden)

    def place(self, record: CheckpointRecord) -> None:
        """Give the files of a record their name, once the journal has the record."""
        placed, hidden = self.placed(record.step), self._hidden(record)
        if record.diverged or hidden.is_dir():
            delete_checkpoint(placed)  # an earlier record of the same step
        if hidden.is_dir():
            with writing(self.folder, then=_KEPT):
                hidden.rename(placed)
                sync_folder(self.folder)

    def folder_of(self, record: CheckpointRecord) -> Path | None:
        """Where the files of a record are; None where none were written."""
        places = (self._hidden(record), self.placed(record.step))
        return next((place for place in places if place.is_dir()), None)

    def tidy(self, records: Mapping[int, CheckpointRecord], forgotten: Collection[int]) -> None:
        """Finish what a killed process began, and delete the files of ``forgotten`` steps.

        Nothing is deleted that this journal did not write: files of steps that it never had are
        somebody else's, and so is a folder that holds anything but predictions.
        """
        if not self.folder.is_dir():
            return
        remove_leftovers(self.folder)
        for name in sorted(os.listdir(self.folder)):
            if match := _HIDDEN.fullmatch(name):
                record = records.get(int(match[1]))
                if record is not None and self._hidden(record).name == name:
                    self.place(record)
                elif self._holds_predictions(name):
                    delete_checkpoint(self.folder / name)
        for name in os.listdir(self.folder):
            if match := _PLACED.fullmatch(name):
                step = int(match[1])
                record = records.get(step)
                lost = step in forgotten if record is None else record.diverged
                if lost and self._holds_predictions(name):
                    delete_checkpoint(self.folder / name)

    def _holds_predictions(self, name: str) -> bool:
        """Whether there is nothing but files of predictions in a step's folder."""
        inside = list((self.folder / name).iterdir())
        return all(file.suffix == ".npz" and file.is_file() for file in inside)

    def check_free(self, step: int) -> None:
        """Refuse to replace what another journal keeps for a step."""
        if self.placed(step).exists():
            raise InputError(
                f"Expected no predictions of step {step} in {self.folder}, which this journal has "
                "no record of, but some are there: another run keeps its own in this folder; give "
                "each run a folder of its own."
            )

    def placed(self, step: int) -> Path:
        """Where the files of a step are in the end."""
        return self.folder / f"step-{step:06d}"

    def _hidden(self, record: CheckpointRecord) -> Path:
        token = hashlib.sha256(encode_line(record.as_dict())).hexdigest()[:16]
        return self.folder / f".step-{record.step:06d}.{token}.part"


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
