"""What trackers are told of a selection: numbers of every checkpoint, the choice, and files.

`checkwise select` reads ``checkwise/<set>/<metric>`` again from what a tracker kept. How to choose
is in the journal alone: from a tracker's numbers the default rule chooses.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics import MAIN
from checkwise.records import Trajectory
from checkwise.selection import Selection

PREFIX: Final = "checkwise"
STEP: Final = f"{PREFIX}/step"  # where a tracker counts its own calls
CHOSEN: Final = f"{PREFIX}/chosen"
Numbers = dict[str, float]
Log = Literal["main", "all"]


class Tracker(Protocol):
    """Something that keeps a selection; ``MlflowLog`` is one."""

    def log(self, selection: Selection, log: Log = "main") -> object:
        """Keep a selection, in place of an earlier one of the same run.

        ``log``: "main" for accuracy, NLL and soft CwECE of each set, what else the rule looks at,
        and the choice; "all" for every metric.
        """


@dataclass(frozen=True)
class Told:
    """A selection, as trackers keep it."""

    selection: Selection
    log: Log = "main"

    @property
    def numbers(self) -> dict[int, Numbers]:
        """Step → its metrics, and whether it is chosen, as 1 or 0."""
        chosen = self.selection
        run, looks_at = chosen.trajectory, chosen.rule_used.looks_at(chosen.params)
        rows = {}
        for row, step in enumerate(run.steps.tolist()):
            found = measured(run, row, looks_at, self.log)
            if self.log == "all":
                found["feasible"] = float(chosen.ranking.eligible[row])
            rows[step] = {f"{PREFIX}/{name}": value for name, value in found.items()}
            rows[step][CHOSEN] = float(row == chosen.index)
        return rows

    def new_rows(self, before: Mapping[int, Numbers]) -> dict[int, Numbers]:
        """The numbers that a tracker that only appends has not had, or had otherwise."""
        return {step: row for step, row in self.numbers.items() if before.get(step) != row}

    @property
    def choice(self) -> dict[str, Any]:
        """The choice in a few facts, under the names of a summary."""
        chosen = self.selection
        facts = {
            "choice": chosen.step,
            "rule": chosen.rule,
            "score": chosen.score,
            "accuracy": chosen.accuracy,
            "gap_pp": chosen.gap_pp,
            "path": chosen.path or "",
        }
        return {f"{PREFIX}/{name}": value for name, value in facts.items() if value is not None}

    @property
    def why(self) -> str:
        """Why this checkpoint, and the ranked table, as Markdown."""
        ranked = self.selection.ranked
        cells = zip(*(column.tolist() for column in ranked.values()), strict=True)
        rows = [[*ranked], ["---"] * len(ranked), *cells]
        lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
        return "\n".join([self.selection.explain(), "", *lines])

    @property
    def weights(self) -> Path:
        """The file or folder of the chosen weights, which has to be there."""
        path, step = self.selection.path, self.selection.step
        if path is None or not Path(path).exists():
            raise InputError(
                f"Expected the checkpoint of step {step} to upload, but "
                + (f"there is nothing at {path}." if path else "it is not known where it is."),
                code="missing",
            )
        return Path(path)


def measured(run: Trajectory, row: int, looks_at: Sequence[str], log: Log = "main") -> Numbers:
    """``<set>/<metric>`` of one checkpoint and its counts; nothing of one that diverged."""
    if run.diverged[row]:
        return {}
    told = run.values if log == "all" else [n for n in run.values if n in (*MAIN, *looks_at)]
    metrics = {
        f"{domain}/{metric}": float(run.values[metric][row, column])
        for metric in told
        for column, domain in enumerate(run.domains)
    }
    counts = () if run.counts is None else zip(run.domains, run.counts.tolist(), strict=True)
    metrics |= {f"{domain}/n": float(n) for domain, n in counts}
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def report_to(tracker: Tracker | None, selection: Selection | None, log: Log = "main") -> None:
    """Log a selection, if there is one; a tracker that cannot be reached ends no program."""
    if tracker is None or selection is None:
        return
    try:
        tracker.log(selection, log)
    except Exception as error:
        warnings.warn(
            f"Expected to log the selection, but {type(tracker).__name__} failed: {error} Log it "
            "again with log(cw.LiveSelector.from_journal(JOURNAL).selection).",
            CheckwiseWarning,
            stacklevel=2,
        )


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


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

    def _upload(self, told: Told) -> None:
        """Copy the weights of the choice, where that is wanted; the alias moves to this version."""
        if self.upload:
            self.run.log_artifact(
                str(told.weights),
                name=self.artifact or f"run-{self.run.id}-checkwise",
                type="model",
                aliases=[self.alias, f"step-{told.selection.step}"],
            )
