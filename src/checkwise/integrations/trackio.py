"""A selection in Trackio: history, the choice, and an alias on the chosen weights."""

from __future__ import annotations

from dataclasses import dataclass

from checkwise.errors import InputError, naming_extras
from checkwise.integrations.tracker import PREFIX, STEP, Log, RunLog, Told
from checkwise.selection import Selection
from checkwise.words import shown


@dataclass(frozen=True)
class TrackioLog(RunLog):
    """Logs selections to a run of Trackio that you opened with ``trackio.init``.

    The run gets ``checkwise/<domain>/<metric>`` of every checkpoint at its step, and one record
    with the choice: ``checkwise/choice``, the rule, accuracy and path, and the explanation as
    Markdown. Trackio has no summary: the newest such record is the choice.

    Args:
        run: what ``trackio.init`` returned.
        upload: copy the weights of the choice into Trackio's store, as a version of an artifact.
        alias: the alias that moves to the version of the choice.
        artifact: the name of that artifact; by default ``run-<id>-checkwise``.
    """

    def __post_init__(self) -> None:
        with naming_extras():
            from trackio import Run
        if not isinstance(self.run, Run):
            raise InputError(
                f"Expected a run of Trackio, but got {shown(self.run)}: write "
                "TrackioLog(trackio.init(…))."
            )

    def log(self, selection: Selection, log: Log = "main") -> None:
        """Log a selection; ``log="all"``: with every metric."""
        from trackio import Markdown

        told = Told(selection, log)
        for step, row in told.new_rows(self._rows).items():
            self.run.log({STEP: float(step), **row}, step=step)
            self._rows[step] = row
        last = int(selection.trajectory.steps[-1])
        why = {f"{PREFIX}/why": Markdown(told.why)}
        self.run.log({STEP: float(last), **told.choice, **why}, step=last)
        self._upload(told)
