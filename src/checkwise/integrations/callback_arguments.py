"""Arguments that every callback takes: wrong kinds are refused before any training."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from checkwise.calibrators import DEFAULT, get_calibrator
from checkwise.errors import InputError
from checkwise.metrics import Groups
from checkwise.records import CheckpointRecord
from checkwise.selection import (
    MEMBERS_DELTA_PP,
    CalibratedChoice,
    KeepMembers,
    LiveSelection,
    Points,
    Policy,
    Selection,
    calibrate_choice,
    tolerance,
)
from checkwise.store import KeptPredictions, beside, write_text, writing
from checkwise.words import counted, listed, shown


def check_keep(keep: Any) -> None:
    """Refuse what is no policy of retention."""
    if keep is not None and not isinstance(keep, Policy):
        raise InputError(
            f"Expected a policy as keep, as KeepLast(2), but got {shown(keep)}: policies are in "
            "checkwise.selection.retention."
        )


def check_tracker(tracker: Any) -> None:
    """Refuse what cannot log a selection; also a class in place of an object."""
    if tracker is not None and (
        isinstance(tracker, type) or not callable(getattr(tracker, "log", None))
    ):
        raise InputError(
            f"Expected a tracker as MlflowLog(run_id), but got {shown(tracker)}: trackers are in "
            "checkwise.integrations."
        )


def check_log(log: Any) -> None:
    """Refuse what is no amount of logging."""
    if log not in ("main", "all"):
        raise InputError(f'Expected "main" or "all" as log, but got {shown(log)}.')


def check_function(function: Any, name: str, form: str) -> None:
    """Refuse what cannot be called."""
    if function is not None and not callable(function):
        raise InputError(
            f"Expected a function as {name}, as {form}, but got {shown(function)}: pass one, or "
            "leave it out."
        )


def check_text(text: Any, name: str, example: str) -> None:
    """Refuse what is not a text with something in it."""
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InputError(f"Expected a text as {name}, as {example!r}, but got {shown(text)}.")


def check_flag(flag: Any, name: str) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(flag, bool):
        raise InputError(f"Expected True or False as {name}, but got {shown(flag)}.")


def keeping(keep: Policy, average_within_pp: Points | None) -> Policy:
    """What a callback keeps, and the members of an average if there is to be one."""
    return keep if average_within_pp is None else keep | KeepMembers(average_within_pp)


def say_members(
    live: LiveSelection,
    average_within_pp: Points | None,
    folder: Path,
    *,
    calibrator: str | None = None,
    of_keras: bool = False,
) -> None:
    """Say at the end of a training which checkpoints are averaged, and how to deploy that."""
    if average_within_pp is None:
        return
    how: dict[str, Any] = {"calibrator": calibrator, "of_keras": of_keras}
    if sentence := described(live, average_within_pp, folder, **how):
        print(sentence, file=sys.stderr)


def described(
    live: LiveSelection,
    within_pp: Points,
    folder: Path,
    *,
    calibrator: str | None = None,
    of_keras: bool = False,
) -> str:
    """The members of the average, and what makes it; "" if there are none.

    ``deploy`` reads weights of PyTorch alone, so for Keras it is a function. ``deploy`` fits the
    calibrator to the average's own logits: that of one checkpoint would not do for it.
    """
    steps = live.members(delta_pp=within_pp)
    if not steps:
        return ""
    named = (
        f"checkwise: {counted(len(steps), 'checkpoint')} for an average: "
        f"{'step' if len(steps) == 1 else 'steps'} {listed([str(step) for step in steps])}."
    )
    if of_keras:
        call = f"load_chosen({str(folder)!r}, average_within_pp={_text(within_pp)})"
        return f"{named} Load it with checkwise.integrations.keras.{call}."
    other = "" if calibrator in (None, DEFAULT) else f" --calibrator {calibrator}"
    usual = tolerance(within_pp) == tolerance(MEMBERS_DELTA_PP)
    within = "" if usual else f" --within-pp {_text(within_pp)}"
    place = shlex.quote(str(folder))
    command = f"checkwise deploy {place} --average all{within}{other} -o MODEL"
    return f"{named} Deploy it with `{command}`, or with `--average weights`."


def _text(within_pp: Points) -> str:
    """The tolerance as it was written."""
    exact = isinstance(within_pp, str | Decimal | Fraction)
    return str(within_pp) if exact else repr(within_pp)


CALIBRATOR: Final = "calibrator.json"


@dataclass
class ChoiceCalibrator:
    """Fits one calibrator to the predictions of the choice, once for each record that is chosen.

    Args:
        name: of the calibrator.
        file: where it is kept; written whole or not at all.
    """

    name: str
    file: Path
    last: tuple[CheckpointRecord, CalibratedChoice] | None = None
    written: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, name: Any, journal: str | os.PathLike[str] | None, *, read_only: bool
    ) -> ChoiceCalibrator | None:
        """None where no calibrator was asked for, or in a process that only reads."""
        if name is None:
            return None
        known = get_calibrator(name).name
        if read_only or journal is None:
            return None
        return cls(known, beside(Path(os.path.abspath(journal)), CALIBRATOR))

    def calibrated(
        self,
        chosen: Selection,
        kept: KeptPredictions,
        records: Mapping[int, CheckpointRecord],
        groups: Groups,
    ) -> Selection:
        """The selection with its calibrator; with a note where its predictions were not kept."""
        record = records[chosen.step]
        if kept.folder_of(record) is None:
            run = chosen.trajectory
            note = f"no calibrator: the predictions of step {chosen.step} were not kept"
            return replace(chosen, trajectory=replace(run, notes=(*run.notes, note)))
        if self.last is None or self.last[0] != record:
            fitted = calibrate_choice(kept.logits(record), self.name, groups=groups or None)
            self.last = (record, fitted)
        return replace(chosen, calibration=self.last[1])

    def _step_of_file(self) -> int | None:
        """The step that the file is of; where its predictions are gone, it stays."""
        try:
            step = json.loads(self.file.read_text())["step"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return step if type(step) is int else None

    def write(self, chosen: Selection | None) -> None:
        """Let the file be that of the choice; there is none where none is calibrated."""
        with writing(self.file.parent, self.file.name, then="the calibrator is fitted again"):
            if chosen is None or chosen.calibration is None:
                if chosen is None or self._step_of_file() != chosen.step:
                    self.file.unlink(missing_ok=True)
                self.written = None
                return
            record = chosen.calibration.record(chosen, str(self.file.parent))
            text = json.dumps(record, indent=2, allow_nan=False) + "\n"
            if text != self.written:
                write_text(self.file, text)
                self.written = text
