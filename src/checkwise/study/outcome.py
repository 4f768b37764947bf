"""What a rule or method gave on one run, and, once the study opens them, its held-out results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators.source_temperatures import Calibration
from checkwise.records import RunKey, Trajectory
from checkwise.selection.columns import Columns

KEY_COLUMNS = ("dataset", "algorithm", "held_out", "hparams_seed", "trial_seed")


@dataclass(frozen=True)
class Outcome:
    """One rule or method on one run; metrics are fractions.

    Args:
        key: the run that rows are paired by.
        steps: the chosen step, every feasible one for an expectation over them, or those averaged.
        source: metric → mean over source domains (and over ``steps``).
        gap_pp: points of source accuracy below the best checkpoint.
        eligible: how many checkpoints the rule could have chosen.
        score: what the rule minimised; nan for an expectation.
        targets: held-out domain → metric → value. Empty unless evaluated.
        run: where the model comes from, if hyperparameters were chosen among several runs.
        calibration: how its logits are rescaled, if they are.
        in_sample: whether ``source`` is on the examples that something was fitted on.
        seconds: what the choice took, measured; nan if unknown.
    """

    key: RunKey
    steps: tuple[int, ...]
    source: Mapping[str, float]
    gap_pp: float
    eligible: int
    score: float
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: RunKey | None = None
    calibration: Calibration | None = None
    in_sample: bool = False
    seconds: float = float("nan")

    @property
    def deployed(self) -> RunKey:
        """The run that the model comes from."""
        return self.run or self.key

    def value(self, metric: str) -> float:
        """``source_<metric>``, ``target_<metric>`` (mean over held-out domains) or ``gap_pp``."""
        if metric == "gap_pp":
            return self.gap_pp
        side, _, name = metric.partition("_")
        if side == "source":
            return self.source[name]
        each = [values[name] for values in self.targets.values()]
        return float(np.mean(each))


def outcome_at(
    key: RunKey, run: Trajectory, steps: tuple[int, ...], *, options: Mapping[str, Any]
) -> Outcome:
    """The source side of an outcome: what a run's own validation says about some of its steps."""
    columns = Columns.of(run, **options)
    at = np.searchsorted(run.steps, steps)
    metrics = [name for name in run.metrics if name in columns]
    return Outcome(
        key=key,
        steps=steps,
        source={name: mean_at(columns[name], at) for name in metrics},
        gap_pp=mean_at(columns["gap_pp"], at),
        eligible=0,
        score=float("nan"),
        run=run.key if run.key is not None and run.key != key else None,
    )


def mean_at(column: NDArray[Any], rows: NDArray[np.int64]) -> float:
    """Mean of a column over some rows; the usual single row is just read."""
    return float(column[rows[0]] if len(rows) == 1 else column[rows].mean(dtype=np.float64))


def timed(found: tuple[Outcome, ...], seconds: float) -> tuple[Outcome, ...]:
    """Outcomes that together took ``seconds``, each with its share on top of what it has."""
    share = seconds / max(len(found), 1)
    return tuple(
        replace(each, seconds=share if np.isnan(each.seconds) else each.seconds + share)
        for each in found
    )


def key_columns(key: RunKey) -> dict[str, Any]:
    """A run key as columns of a table."""
    return {**key.as_dict(), "held_out": "+".join(key.held_out)}
