"""What the lines of a live selection's journal add up to: records, and checkpoints on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records.checkpoint_record import CheckpointRecord, check_alike, unpacked_numbers
from checkwise.records.examples import IntArray
from checkwise.store.live_journal import damaged


@dataclass
class LiveHistory:
    """The state after every line so far.

    Attributes:
        folder: where the journal is; paths in it begin here.
        records: step → record.
        checkpoints: step → file or folder of its weights, in the order of saving.
        without_weights: steps whose weights were deleted.
        groups: domain → the independent unit of each example, where they were named.
        predictions: the folder with the predictions of every record, if they are kept.
        forgotten: steps that had a record which a resume took back.
    """

    folder: Path
    records: dict[int, CheckpointRecord] = field(default_factory=dict)
    checkpoints: dict[int, Path] = field(default_factory=dict)
    without_weights: set[int] = field(default_factory=set)
    groups: dict[str, IntArray] = field(default_factory=dict)
    predictions: Path | None = None
    forgotten: set[int] = field(default_factory=set)

    @classmethod
    def replay(cls, lines: Iterable[Mapping[str, Any]], path: Path) -> LiveHistory:
        """The state that a journal at ``path`` describes."""
        history = cls(path.parent)
        for number, line in enumerate(lines, start=2):
            try:
                history.apply(line)
            except (KeyError, TypeError, ValueError, InputError):
                raise damaged(path, number, line) from None
        return history

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take one line into account."""
        if "domains" in line:
            record = CheckpointRecord.from_dict(line)
            check_alike(record, islice(reversed(self.records.values()), 1))
            self.records[record.step] = record
            self.forgotten.discard(record.step)
        elif "groups" in line:
            named = dict(line["groups"])
            self.groups |= {str(name): unpacked_numbers(text) for name, text in named.items()}
        elif "predictions" in line:
            self.predictions = self.folder / str(line["predictions"])
        elif "saved" in line:
            step, place = _whole(line["step"]), self.folder / str(line["saved"])
            self.checkpoints.pop(step, None)  # the one saved last comes last
            self.forget_weights([s for s, other in self.checkpoints.items() if other == place])
            self.checkpoints[step] = place
            self.without_weights.discard(step)
        elif "resumed" in line:
            self._forget_after(_whole(line["resumed"]))
        else:
            self.forget_weights([_whole(step) for step in line["deleted"]])

    def forget_weights(self, steps: Iterable[int]) -> None:
        """The weights of these steps are gone."""
        for step in steps:
            self.checkpoints.pop(step, None)
            self.without_weights.add(step)

    def _forget_after(self, step: int) -> None:
        for later in [s for s in self.records if s > step]:
            del self.records[later]
            self.forgotten.add(later)
        for later in [s for s in self.checkpoints if s > step]:
            del self.checkpoints[later]
        self.without_weights = {s for s in self.without_weights if s <= step}


def _whole(step: object) -> int:
    if type(step) is not int:
        raise ValueError(f"{step!r} is no step")
    return step
