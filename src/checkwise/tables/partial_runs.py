"""Choices from some checkpoints of every run, or by other metrics than the recorded ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection
from checkwise.study.outcome import RunColumns, as_columns
from checkwise.study.pool import Pool


def part_of(run: Trajectory, keep: NDArray[np.bool_], metrics: Collection[str]) -> Trajectory:
    """The marked checkpoints of a run, with its accuracy and those of the metrics that it has."""
    wanted = {"accuracy", *metrics}
    return replace(
        run,
        steps=run.steps[keep],
        values={name: values[keep] for name, values in run.values.items() if name in wanted},
        pooled={name: values[keep] for name, values in run.pooled.items() if name in wanted},
        correct=None if run.correct is None else run.correct[keep],
        diverged=run.diverged[keep],
        paths=None,
        examples=None if run.examples is None else run.examples.subset(run.steps[keep].tolist()),
    )


def columns_of(pool: Pool, selections: Mapping[RunKey, Selection]) -> RunColumns:
    """Choices with the held-out results at their steps, as columns like those of a rule.

    ``step``, ``eligible``, ``gap_pp`` and ``target_<metric>`` (fractions); nan for a run without a
    choice.
    """
    return as_columns(
        [_row(pool, selections[key]) if key in selections else {} for key in pool.keys]
    )


def _row(pool: Pool, selection: Selection) -> dict[str, Any]:
    key = selection.run
    assert key is not None  # the runs of a cohort have keys
    at = int(np.searchsorted(pool.trajectory(key).steps, selection.step))
    return {
        "step": selection.step,
        "eligible": int(selection.ranking.eligible.sum()),
        "gap_pp": selection.gap_pp,
        **{f"target_{name}": values[at] for name, values in pool.target(key).items()},
    }
