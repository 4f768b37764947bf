"""The history of one of MLflow's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.logs.log import Points
from checkwise.text import shown


def points_of(steps: Sequence[float], cells: Sequence[Any], name: str, where: str) -> Points:
    """The cells of a metric in the order of their times.

    MLflow writes step 0 where none was given. Several values that all stand there have no step,
    and nothing tells which values of another metric belong to them.

    Raises:
        InputError: unlike values, all at step 0.
    """
    if not any(steps) and len(set(map(repr, cells))) > 1:
        raise InputError(
            f"Expected the step of every value, but the {len(cells)} values of {shown(name)} in "
            f"{where} all stand at step 0, where MLflow puts them without one: log them with "
            "mlflow.log_metric(name, value, step=step).",
            code="missing",
        )
    return Points(np.array(steps, np.float64), np.full(len(steps), nan), cells)
