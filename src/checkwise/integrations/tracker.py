"""Where a callback reports its selection when training ends."""

from __future__ import annotations

import warnings
from typing import Protocol

from checkwise.errors import CheckwiseWarning
from checkwise.selection.result import Selection


class Tracker(Protocol):
    """Something that keeps a selection; ``MlflowLog`` is one."""

    def log(self, selection: Selection) -> object:
        """Keep a selection, in place of an earlier one of the same run."""


def report_to(tracker: Tracker | None, selection: Selection | None) -> None:
    """Log a selection, if there is one and somebody to log it to.

    A tracker that cannot be reached is a warning: the training is over, its checkpoints and its
    journal are on the disk, and whatever comes next in the program should run.
    """
    if tracker is None or selection is None:
        return
    try:
        tracker.log(selection)
    except Exception as error:
        warnings.warn(
            f"Expected to log the selection, but {type(tracker).__name__} failed: {error} Log it "
            "again with log(cw.LiveSelector.from_journal(JOURNAL).selection).",
            CheckwiseWarning,
            stacklevel=2,
        )
