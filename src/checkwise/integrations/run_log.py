"""A selection in a run of a tracker that only appends: W&B and Trackio.

The user opens the run, so where it is kept and what is sent is the user's word. Weights are sent
only where that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.integrations.arguments import check_flag, check_text
from checkwise.integrations.tracked_metrics import STEP, history
from checkwise.selection.result import Selection


@dataclass(frozen=True)
class RunLog:
    """What both have in common.

    Args:
        run: the run, open.
        upload: copy the weights of the choice to the tracker, as an artifact.
        alias: the alias that moves to the version of the choice.
        artifact: the name of that artifact; by default ``run-<id>-checkwise``.
    """

    run: Any
    upload: bool = False
    alias: str = "checkwise"
    artifact: str | None = None
    _logged: dict[int, dict[str, float]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_flag(self.upload, "upload")
        check_text(self.alias, "alias", "checkwise")
        check_text(self.artifact, "artifact", "digits-checkwise")

    def _new_rows(self, selection: Selection) -> dict[int, dict[str, float]]:
        """Step → what this object has not logged yet, or logged otherwise."""
        rows = {step: {STEP: float(step), **row} for step, row in history(selection).items()}
        return {step: row for step, row in rows.items() if self._logged.get(step) != row}

    def _upload(self, selection: Selection) -> Any:
        """Copy the weights of the choice; the alias moves to this version."""
        path = selection.path
        if path is None or not Path(path).exists():
            raise InputError(
                f"Expected the checkpoint of step {selection.step} to upload, but "
                + (f"there is nothing at {path}." if path else "it is not known where it is."),
                code="missing",
            )
        return self.run.log_artifact(
            path,
            name=self.artifact or f"run-{self.run.id}-checkwise",
            type="model",
            aliases=[self.alias, f"step-{selection.step}"],
        )
