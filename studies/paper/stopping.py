"""When recipes stop on the 24 places, beside one stop for every run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from checkwise.study import scale
from studies.paper.beside import grid
from studies.paper.effects import Effect, of_values
from studies.paper.outcomes import Outcomes, read
from studies.paper.packed import packed_cohorts

COHORT = "taicam-sites"
RULES = ("source-acc", "ac-nc", "ac-early", "pure-nll")
STOPS = (100, 300, 500, 800, 1000, 1500, 2000, 3000, 4000)
NLL, ACCURACY = "target_nll", "target_accuracy"
IMAGES, SITES = "source-acc", "source-acc@groups"


def chosen() -> str:
    """The update at which every rule stops, by either validation."""
    kept = read(COHORT)
    rows = [
        (f"`{rule}`", *(_quartiles(kept, name) for name in (rule, f"{rule}@groups")))
        for rule in RULES
    ]
    return grid(("rule", "by images", "by sites"), rows, 1)


def _quartiles(kept: Outcomes, name: str) -> str:
    low, middle, high = np.percentile(kept.values[name]["step"], (25, 50, 75))
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def fixed() -> str:
    """The same stop for every run, against the most accurate checkpoint by either validation."""
    rows = [
        (
            f"{stop:,}",
            *(str(against(stop, name, metric)) for name in (IMAGES, SITES) for metric in METRICS),
        )
        for stop in STOPS
    ]
    titles = [
        f"{what} − `source-acc` {how}"
        for how in ("by images", "by sites")
        for what in ("NLL", "accuracy, points")
    ]
    return grid(("every run stops at update", *titles), rows, 1)


METRICS = (NLL, ACCURACY)


def against(stop: int, reference: str, metric: str = NLL) -> Effect:
    """One stop for every run − a recipe."""
    kept = read(COHORT)
    values = scale(metric) * (_targets()[stop][metric] - kept.values[reference][metric])
    return of_values(metric, kept.keys, values)


@cache
def _targets() -> Mapping[int, Mapping[str, np.ndarray]]:
    """Target metrics of every run at every stop, from the packed journals."""
    keys = read(COHORT).keys
    with packed_cohorts((COHORT,)) as cohorts:
        at = [cohorts[COHORT].target_at(key, STOPS) for key in keys]
    columns = {name: np.stack([run[name.partition("_")[2]] for run in at]) for name in METRICS}
    return {
        stop: {name: column[:, i] for name, column in columns.items()}
        for i, stop in enumerate(STOPS)
    }
