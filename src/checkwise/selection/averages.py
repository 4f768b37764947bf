"""The members of an average: the checkpoints near the best one, or a few spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from checkwise.metrics import whole
from checkwise.selection.choosing import guarded
from checkwise.selection.constraint import ACCURACY, Points
from checkwise.selection.result import Selection

# An average gains from more members than a choice has candidates.
NEAR_BEST = "ac-early"  # the rule whose feasible set depends on accuracy alone
MEMBERS_DELTA_PP: Final = "1"

Item = TypeVar("Item")


def members(
    selection: Selection, k: int | None = None, *, delta_pp: Points = MEMBERS_DELTA_PP
) -> tuple[int, ...]:
    """The steps whose probabilities or weights make up an average.

    They are those within ``delta_pp`` points of the best accuracy, whatever the rule. Where the
    selection keeps another score near its best, they are its feasible set. Where the guard is on
    and validation is saturated, the average is of one checkpoint, the guard's.

    Args:
        selection: any choice from the run.
        k: how many; by default all of them.
        delta_pp: the tolerance in percentage points.

    Example:
        >>> from checkwise.records import Trajectory
        >>> from checkwise.selection import select
        >>> run = Trajectory(steps=[10, 20, 30, 40, 50], domains=["val"],
        ...                  values={"accuracy": [[0.70], [0.895], [0.90], [0.899], [0.891]]})
        >>> chosen = select(run, "source-acc")
        >>> members(chosen), members(chosen, 2), members(chosen, delta_pp="0.2")
        ((20, 30, 40, 50), (20, 50), (30, 40))
    """
    if selection.guard is not None and (one := guarded(selection, averaged=True)).guard_acted:
        return (one.step,)
    steps = near_best(selection, delta_pp)
    return steps if k is None else tuple(spread(steps, k))


def near_best(selection: Selection, delta_pp: Points = MEMBERS_DELTA_PP) -> tuple[int, ...]:
    """The steps within a tolerance of the best, of which an average is made."""
    by_accuracy = selection.constraint == ACCURACY
    near = selection.columns.within_points(delta_pp) if by_accuracy else selection.feasible
    return tuple(selection.trajectory.steps[np.flatnonzero(near)].tolist())


def spread(items: Sequence[Item], k: int) -> list[Item]:
    """``k`` of the items at even distances, the first and the last among them; of one, the middle.

    Example:
        >>> spread("abcdefg", 3), spread("abcdefg", 1), spread("ab", 5)
        (['a', 'd', 'g'], ['d'], ['a', 'b'])
    """
    whole(k, "k", least=1)
    last = len(items) - 1
    if k > last:
        return list(items)
    if k == 1:
        return [items[last // 2]]
    gaps = k - 1
    return [items[(2 * i * last + gaps) // (2 * gaps)] for i in range(k)]
