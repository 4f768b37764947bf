"""What the script of the page starts from: runs, rules, held-out results and settings.

The script computes a rule anew where it knows how the rule ranks and has a control for every
parameter that was set. Of another rule, such as a user's own, each run carries the choice that was
made for the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.page import BUDGET, explored, payload
from checkwise.records import RunKey
from checkwise.selection import (
    Selection,
)
from checkwise.statistics import LEVEL
from checkwise.study import Cohort

FloatArray = NDArray[np.float64]
Chosen = Mapping[str, Mapping[RunKey, Selection]]


def cohort_data(
    cohort: Cohort,
    chosen: Chosen,
    *,
    rule: str,
    reference: str,
    first: RunKey,
    budget: int = BUDGET,
) -> dict[str, Any]:
    """The data of a cohort's page, which opens on the run ``first``.

    Args:
        chosen: rule → the choice it made in every run; the rules of the report.
        rule, reference: the leading rule, and what it is compared with.
    """
    keys = sorted(cohort.usable)
    runs = {str(key): cohort.usable[key] for key in keys}
    data = payload(runs, [_targets(cohort, key) for key in keys], budget=budget)
    by_rule = {name: [selections[key] for key in keys] for name, selections in chosen.items()}
    return {
        **explored(data, by_rule, rule, reference, keys.index(first)),
        "quantiles": quantiles(len(keys)),
    }


def _targets(cohort: Cohort, key: RunKey) -> dict[str, FloatArray]:
    """Every target metric at every step of a run: the mean over its held-out domains."""
    return cohort.target_at(key, cohort.usable[key].steps.tolist())


def quantiles(runs: int) -> list[float]:
    """Of Student's t at the level of the intervals: with 1, 2, … degrees of freedom."""
    from scipy.special import stdtrit

    share = (1 + LEVEL) / 2
    return [float(stdtrit(df, share)) for df in range(1, runs)]
