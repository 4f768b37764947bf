"""Target accuracy that recipes lose in single runs and at single places."""

from __future__ import annotations

from functools import cache

import numpy as np

from studies.paper.beside import Paper, grid
from studies.paper.cohorts import with_five
from studies.paper.effects import Effect, effect

# Validation by whole sites, or by whole domains.
OTHER_VALIDATION = ("source-acc@groups", "ac-nc@groups", "pure-nll@groups", "lodo-acc", "ac-lodo")
RECIPES = ("ac-nc", "ac-early", "pure-nll", "mean-probs", *OTHER_VALIDATION)
POINT = 1.0
HEADER = (
    *("data", "recipe", "runs that lose a point", "5th percentile", "worst run"),
    *("domains lower", "worst domain"),
)


def table() -> str:
    """Recipes against source-acc, points of target accuracy."""
    rows = [
        (described.data, f"`{name}`", *_row(effect(kept, name, metric="target_accuracy")))
        for described, kept in with_five()
        for name in RECIPES
        if name in kept.values
    ]
    return grid(HEADER, rows, 2)


def _row(found: Effect) -> tuple[str, ...]:
    place, value = found.worst
    return (
        f"{lost(found)} of {found.runs}",
        found.text(float(np.percentile(found.by_run, 5))),
        found.text(float(found.by_run.min())),
        f"{found.places_worse} of {len(found.names)}",
        f"{place}: {found.text(value)}",
    )


def lost(found: Effect) -> int:
    """Runs that lose a point or more; kept values have seven decimals."""
    return int((np.round(found.by_run, 4) <= -POINT).sum())


def gained(found: Effect) -> int:
    """Runs that gain a point or more."""
    return int((np.round(found.by_run, 4) >= POINT).sum())


@cache
def of_the_paper() -> str:
    """How many runs of the paper do."""
    paper, key = Paper(), ("losses", "all", "", "ac-nc", "source-acc", "lose_1pp")
    share = paper.text((*key[:-1], f"{key[-1]}_share"), signed=False)
    return f"{paper.text(key, signed=False)} of {paper.runs(key)}, {share}%"
