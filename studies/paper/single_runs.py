"""Changes of NLL in single runs: a few of them can make a mean, so medians stand beside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from checkwise.study.inference import trimmed_mean
from checkwise.words import number
from studies.paper.beside import grid
from studies.paper.cohorts import with_five
from studies.paper.outcomes import Outcomes

NLL, DECIMALS = "target_nll", 3
COLUMN = "single runs"
MEANING = "median / 5%-trimmed mean of the change of target NLL over runs"
Contrast = tuple[str, str]  # recipe, reference


def spread(kept: Outcomes, recipe: str, reference: str = "source-acc") -> str:
    """The median and the 5%-trimmed mean of a change, each run by itself."""
    found = changes(kept, recipe, reference)
    return f"{_signed(np.median(found))} / {_signed(trimmed_mean(found))}"


def typical(kept: Outcomes, recipe: str, reference: str = "source-acc") -> tuple[str, ...]:
    """Mean, median, trimmed mean, and how many runs are better, the same and worse."""
    found = changes(kept, recipe, reference)
    counts = ((found < 0).sum(), (found == 0).sum(), (found > 0).sum())
    return (
        *map(_signed, (np.mean(found), np.median(found), trimmed_mean(found))),
        " / ".join(str(int(count)) for count in counts),
    )


def medians(kept: Outcomes, recipe: str, reference: str = "source-acc") -> str:
    """The median NLL of a recipe and, in brackets, of its reference on the same runs."""
    table = kept.differences(recipe, reference, [NLL])
    sides = (np.median(table.of_rule[:, 0]), np.median(table.of_reference[:, 0]))
    ours, theirs = (number(float(side), DECIMALS) for side in sides)
    return f"{ours} ({theirs})"


def changes(kept: Outcomes, recipe: str, reference: str) -> np.ndarray:
    """The change of NLL in every run that has both."""
    return kept.differences(recipe, reference, [NLL]).values[:, 0]


def table(contrasts: Mapping[str, Contrast]) -> str:
    """Cohorts by contrasts (title → recipe, reference), and what a cell is."""
    rows = []
    for described, kept in with_five():
        cells = [
            spread(kept, *contrast) if all(name in kept.values for name in contrast) else ""
            for contrast in contrasts.values()
        ]
        if any(cells):
            rows.append((described.data, described.role, str(len(kept.keys)), *cells))
    shown = grid(("data", "role", "runs", *contrasts), rows, 3)
    return f"Each cell: {MEANING}.\n\n{shown}"


def _signed(value: float) -> str:
    return number(float(value), DECIMALS, signed=True)
