"""What one rule gave on one run: source facts always, target facts where asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, select_many
from checkwise.study.setting import Setting

KEY_COLUMNS = ("dataset", "algorithm", "held_out", "hparams_seed", "trial_seed")


@dataclass(frozen=True)
class Outcome:
    """One rule on one run; metrics are fractions.

    Args:
        key: the run.
        steps: the chosen step, or every feasible one for an expectation over them.
        source: metric → mean over source domains (and over ``steps``).
        gap_pp: points of source accuracy below the best checkpoint.
        eligible: how many checkpoints the rule could have chosen.
        score: what the rule minimised; nan for an expectation.
        targets: held-out domain → metric → value. Empty unless evaluated.
    """

    key: RunKey
    steps: tuple[int, ...]
    source: Mapping[str, float]
    gap_pp: float
    eligible: int
    score: float
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def value(self, metric: str) -> float:
        """``source_<metric>``, ``target_<metric>`` (mean over held-out domains) or ``gap_pp``."""
        if metric == "gap_pp":
            return self.gap_pp
        side, _, name = metric.partition("_")
        if side == "source":
            return self.source[name]
        each = [values[name] for values in self.targets.values()]
        return float(np.mean(each))


def outcomes(
    runs: Mapping[RunKey, Trajectory], setting: Setting, **options: Any
) -> tuple[Outcome, ...]:
    """Apply a rule to every run; nothing but source validation is read."""
    chosen = select_many(runs, setting.found, **options, **setting.params)
    return tuple(_outcome(key, s, expected=setting.expected) for key, s in chosen.items())


def _outcome(key: RunKey, selection: Selection, *, expected: bool) -> Outcome:
    at = np.flatnonzero(selection.ranking.eligible) if expected else np.array([selection.index])
    columns = selection.view.columns
    metrics = [name for name in selection.trajectory.metrics if name in columns]
    return Outcome(
        key=key,
        steps=tuple(selection.trajectory.steps[at].tolist()),
        source={name: float(columns[name][at].mean()) for name in metrics},
        gap_pp=float(columns["gap_pp"][at].mean()),
        eligible=len(selection.feasible_steps),
        score=float("nan") if expected else selection.score,
    )


def key_columns(key: RunKey) -> dict[str, Any]:
    """A run key as columns of a table."""
    return {**key.as_dict(), "held_out": "+".join(key.held_out)}
