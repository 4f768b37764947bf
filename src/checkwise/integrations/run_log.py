"""A selection in a run that the user opened: W&B and Trackio.

Where the run is kept and what is sent is the user's word. Weights are sent only where that was
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checkwise.integrations.arguments import check_flag, check_text
from checkwise.integrations.tracker import Numbers, Told


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
    _rows: dict[int, Numbers] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_flag(self.upload, "upload")
        check_text(self.alias, "alias", "checkwise")
        check_text(self.artifact, "artifact", "digits-checkwise")

    def _upload(self, told: Told) -> None:
        """Copy the weights of the choice, where that is wanted; the alias moves to this version."""
        if self.upload:
            self.run.log_artifact(
                str(told.weights),
                name=self.artifact or f"run-{self.run.id}-checkwise",
                type="model",
                aliases=[self.alias, f"step-{told.selection.step}"],
            )
