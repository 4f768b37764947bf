"""The argument ``calibrator`` of live selection: the choice is calibrated whenever it changes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checkwise.calibrators.examples import Groups
from checkwise.calibrators.registry import get_calibrator
from checkwise.readers.kept_predictions import logits_of
from checkwise.records.checkpoint_record import CheckpointRecord
from checkwise.selection.calibrated import CalibratedChoice, calibrate_choice
from checkwise.selection.result import Selection
from checkwise.store.atomic_write import write_text, writing
from checkwise.store.kept_predictions import KeptPredictions
from checkwise.store.live_journal import beside

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
            fitted = calibrate_choice(logits_of(kept, record), self.name, groups=groups or None)
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
