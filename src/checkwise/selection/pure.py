"""Rules without a tolerance around the best accuracy."""

from __future__ import annotations

import numpy as np

from checkwise.errors import InputError
from checkwise.selection.ranking import Ranking
from checkwise.selection.table import Table


def pure(table: Table, *, metric: str) -> Ranking:
    """The smallest error over the whole trajectory, whatever the accuracy.

    Uniform predictions are perfectly calibrated, so ECE and CwECE alone tend to choose step 0.
    """
    return Ranking(table.error(metric), ~table["diverged"])


def wald(table: Table, *, threshold_pp: object = None) -> Ranking:
    """The lowest mean source-domain ECE among checkpoints above an absolute accuracy.

    Wald et al. (2021), without recalibrating the candidates first. With the threshold set to the
    best accuracy minus δ this is ac-ece.
    """
    if threshold_pp is None:
        raise InputError(
            "Rule wald needs threshold_pp, the least accuracy in points (for example 80); "
            "for a tolerance below the best accuracy use ac-ece."
        )
    eligible = table.at_least(threshold_pp)
    if not np.all(eligible.any(axis=-1)):
        best = 100 * np.nanmax(table["accuracy"], axis=-1).min()
        raise InputError(
            f"No checkpoint reaches threshold_pp = {threshold_pp}: the best mean source accuracy "
            f"is {best:.2f} points; choose a lower threshold."
        )
    return Ranking(table.error("ece"), eligible)
