"""One recipe against another on one cohort, with the held-out domain (place) as the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from outcomes import Outcomes, read

from checkwise.records import RunKey
from checkwise.statistics.clusters import numbered
from checkwise.statistics.places import PlaceMeans, over_places
from checkwise.study.compare import higher_is_better
from checkwise.text import number

FEW = 3  # places below which no interval is printed
DECIMALS: Mapping[str, int] = {"target_nll": 3, "target_accuracy": 2}


@dataclass(frozen=True, eq=False)
class Effect:
    """A mean change over places; accuracy in points.

    Args:
        metric: what changes.
        names: the held-out domains.
        over: their means, and what they say of other places.
        runs: how many runs there are.
        better, worse: runs that gain and that lose.
    """

    metric: str
    names: tuple[str, ...]
    over: PlaceMeans
    runs: int
    better: int
    worse: int

    @property
    def values(self) -> np.ndarray:
        """The change of every place."""
        return self.over.by_place

    @property
    def mean(self) -> float:
        """Every place weighs the same."""
        return self.over.mean

    @property
    def worst(self) -> tuple[str, float]:
        """The place that loses most, or gains least."""
        sign = 1 if higher_is_better(self.metric) else -1
        at = int(np.argmin(sign * self.values))
        return self.names[at], float(self.values[at])

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        low, high = self.over.interval()
        return len(self.names) >= FEW and (low > 0 or high < 0)

    def __str__(self) -> str:
        """The mean and its interval; in bold where it excludes zero."""
        return f"**{self.plain}**" if self.excludes_zero else self.plain

    @property
    def plain(self) -> str:
        """The mean and its interval."""
        if len(self.names) < FEW:
            return self.text(self.mean)
        low, high = self.over.interval()
        return f"{self.text(self.mean)} [{self.text(low)}, {self.text(high)}]"

    def text(self, value: float) -> str:
        """A change with its sign."""
        return number(value, DECIMALS.get(self.metric, 2), signed=True)


def effect(
    cohort: str | Outcomes,
    recipe: str,
    reference: str = "source-acc",
    metric: str = "target_nll",
    keep: np.ndarray | None = None,
) -> Effect:
    """A recipe − another one on the runs that have both."""
    kept = read(cohort) if isinstance(cohort, str) else cohort
    table = kept.differences(recipe, reference, [metric], keep)
    return of_values(metric, table.keys, table.values[:, 0])


def of_values(metric: str, keys: Sequence[RunKey], values: np.ndarray) -> Effect:
    """The mean over places of a number that every run has.

    A held-out domain is one place, also where several class subsets of it are problems of their
    own.
    """
    sign = 1 if higher_is_better(metric) else -1
    places = ["+".join(key.held_out) for key in keys]
    names = tuple(dict.fromkeys(places))
    over = over_places(values, numbered(places, "domain"))
    better, worse = int((sign * values > 0).sum()), int((sign * values < 0).sum())
    return Effect(metric, names, over, len(values), better, worse)
