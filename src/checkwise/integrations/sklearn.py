"""Near the best on one score, then best on another, as ``refit`` of scikit-learn's searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import select
from checkwise.words import shown

ONE_SE: Final = "1se"


def near_best(
    score: str, *, then: str, delta: float | str = 0.005
) -> Callable[[Mapping[str, Any]], int]:
    """What ``GridSearchCV(…, refit=…)`` calls to pick one row of its results.

    It keeps the rows whose mean ``score`` over the folds is near the best, and of these takes the
    one with the best mean ``then``; of exact ties the one with the better ``score``, then the
    first. As in scikit-learn, higher is better for both.

    Args:
        score: the name of a scorer, as in ``scoring=["accuracy", "neg_log_loss"]``.
        then: the name of the other.
        delta: how near: in units of ``score`` (0.005), relative to the best ("1%"), or "1se", the
            standard error of the best row's score over the folds.
    """

    def choose(results: Mapping[str, Any]) -> int:
        first, second = _means(results, score), _means(results, then)
        rows = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
        if not len(rows):
            raise InputError(
                f"Expected a row with finite {score} and {then}, but every row has a fold that "
                "failed: set error_score='raise' to see why.",
                code="empty",
            )
        run = Trajectory.from_frame(
            {"step": [int(row) for row in rows], score: first[rows], then: second[rows]},
            metrics=[score, then],
        )
        near = _one_se(results, score, first) if delta == ONE_SE else delta
        return select(
            run,
            "ac",
            constraint=score,
            delta=near,
            objectives=[then],
            directions={score: "higher", then: "higher"},
            guard=False,  # rows are settings: none of them is the earliest
        ).step

    return choose


def _means(results: Mapping[str, Any], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The mean of a score over the folds, for every row."""
    key = f"mean_test_{name}"
    if key not in results:
        there = [shown(k.removeprefix("mean_test_")) for k in results if k.startswith("mean_test_")]
        raise InputError(
            f"Expected the score {shown(name)} among those of the search, but it has "
            f"{', '.join(there)}: name both in scoring=[…].",
            code="missing",
        )
    return np.asarray(results[key], dtype=np.float64)


def _one_se(results: Mapping[str, Any], name: str, means: np.ndarray[Any, Any]) -> float:
    """The standard error over the folds, at the best row."""
    best = int(np.nanargmax(means))
    folds: list[float] = []
    while (key := f"split{len(folds)}_test_{name}") in results:
        folds.append(float(results[key][best]))
    if len(folds) < 2:
        raise InputError(
            f'Expected two folds or more for delta="{ONE_SE}", but the search has {len(folds)}: '
            "give a delta such as 0.005, or more folds.",
            code="unsupported",
        )
    return float(np.std(folds, ddof=1) / np.sqrt(len(folds)))
