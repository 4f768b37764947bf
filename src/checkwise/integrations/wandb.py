"""A selection in Weights & Biases: history, summary, and an alias on the chosen weights."""

from __future__ import annotations

from dataclasses import dataclass

from checkwise.errors import InputError, naming_extras
from checkwise.integrations.tracker import PREFIX, STEP, Log, RunLog, Told
from checkwise.selection import Selection
from checkwise.words import shown


@dataclass(frozen=True)
class WandbLog(RunLog):
    """Logs selections to a run of W&B that you opened with ``wandb.init``.

    The history gets ``checkwise/<domain>/<metric>`` of every checkpoint over ``checkwise/step``.
    The summary gets the choice: ``checkwise/choice``, the rule, accuracy and path. Logging again
    replaces the summary, and adds to the history what is new.

    In offline mode W&B keeps everything on this machine until you call ``wandb sync``;
    ``checkwise select`` reads the folder of such a run.

    Args:
        run: what ``wandb.init`` returned.
        upload: copy the weights of the choice to W&B, as a version of an artifact.
        alias: the alias that moves to the version of the choice.
        artifact: the name of that artifact; by default ``run-<id>-checkwise``.
    """

    def __post_init__(self) -> None:
        with naming_extras():
            from wandb import Run
        if not isinstance(self.run, Run):
            raise InputError(
                f"Expected a run of W&B, but got {shown(self.run)}: write WandbLog(wandb.init(…))."
            )
        # W&B's own step only grows, and a checkpoint is logged when training has gone on.
        self.run.define_metric(STEP)
        self.run.define_metric(f"{PREFIX}/*", step_metric=STEP)

    def log(self, selection: Selection, log: Log = "main") -> None:
        """Log a selection; ``log="all"``: with every metric."""
        told = Told(selection, log)
        for step, row in told.new_rows(self._rows).items():
            self.run.log({STEP: float(step), **row})
            self._rows[step] = row
        self.run.summary.update({**told.choice, f"{PREFIX}/why": selection.explain()})
        self._upload(told)
