"""What the lines of a live selection's journal add up to: records, and checkpoints on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.records.checkpoint_record import CheckpointRecord, Records, unpacked_numbers
from checkwise.records.examples import IntArray
from checkwise.store.live_journal import damaged
from checkwise.store.safe_read import LONGEST_NAME

_LONGEST: Final = 4000  # bytes of a path; systems allow 4096, with the folder before it


@dataclass
class LiveHistory:
    """The state after every line so far.

    Attributes:
        folder: where the journal is; paths in it begin here.
        records: step → record.
        checkpoints: step → file or folder of its weights, in the order of saving.
        states: step → the state of its checkpoint when it was saved, as far as it was recorded.
        without_weights: steps whose weights were deleted.
        groups: domain → the independent unit of each example, where they were named.
        predictions: the folder with the predictions of every record, if they are kept.
        written: step → digests of the predictions that were written for it.
        forgotten: steps that had a record which a resume took back.
    """

    folder: Path
    records: Records = field(default_factory=Records)
    checkpoints: dict[int, Path] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    without_weights: set[int] = field(default_factory=set)
    groups: dict[str, IntArray] = field(default_factory=dict)
    predictions: Path | None = None
    written: dict[int, set[str]] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    _saved_to: dict[Path, int] = field(default_factory=dict, repr=False)

    @classmethod
    def replay(
        cls, lines: Iterable[Mapping[str, Any]], path: Path, held_out: Iterable[str]
    ) -> LiveHistory:
        """The state that a journal at ``path`` describes, which has no record of ``held_out``."""
        aside = frozenset(held_out)
        history = cls(path.parent)
        for number, line in enumerate(lines, start=2):
            try:
                if not aside.isdisjoint(line.get("domains", ())):
                    raise ValueError("a set that is held out")
                history.apply(line)
            except (KeyError, TypeError, ValueError, InputError):
                raise damaged(path, number, line) from None
        return history

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take one line into account."""
        if "domains" in line:
            record = CheckpointRecord.from_dict(line)
            self.records.check_alike(record)
            self.records[record.step] = record
            self.forgotten.discard(record.step)
            if "predictions" in line:
                self.written.setdefault(record.step, set()).add(_text(line["predictions"]))
        elif "groups" in line:
            named = dict(line["groups"])
            self.groups |= {str(name): unpacked_numbers(text) for name, text in named.items()}
        elif "predictions" in line:
            self.predictions = self.folder / _path(line["predictions"])
        elif "saved" in line:
            step, place = _whole(line["step"]), self.folder / _path(line["saved"])
            state = _text(line.get("state", ""))
            self.checkpoints.pop(step, None)  # the one saved last comes last
            if self.checkpoints.get(before := self._saved_to.get(place, step)) == place:
                self.forget_weights([before])
            self.checkpoints[step], self.states[step], self._saved_to[place] = place, state, step
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
    if type(step) is not int or step < 0:
        raise ValueError("no step")
    return step


def _path(value: object) -> Path:
    path = Path(_text(value))
    if len(os.fsencode(path)) > _LONGEST or any(
        len(os.fsencode(name)) > LONGEST_NAME for name in path.parts
    ):
        raise ValueError("no path that a system has")
    return path


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("no text")
    return value
