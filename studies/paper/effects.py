"""One recipe against another on one cohort, with the held-out domain (place) as the unit.

Where runs of several domains share seeds, blocks of seeds are a unit too: blocks × domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import bootstrap_interval
from checkwise.study import (
    SEED_UNITS,
    LeadingMeans,
    LeadingUnit,
    clusters,
    deciding,
    group_names,
    higher_is_better,
    is_crossed,
    leading_means,
    scale,
    unit_intervals,
)
from checkwise.study.inference import PlaceMeans, numbered, over_places
from checkwise.words import number
from studies.paper.outcomes import Outcomes, read

FEW = 3  # places below which no interval is printed
DECIMALS: Mapping[str, int] = {"target_nll": 3, "target_accuracy": 2}


@dataclass(frozen=True, eq=False)
class Effect:
    """A mean change; accuracy in points.

    Args:
        metric: what changes.
        names: the held-out domains.
        over: their means, and what they say of other places.
        keys, by_run: the runs, and the change of each.
        worse: runs that lose.
    """

    metric: str
    names: tuple[str, ...]
    over: PlaceMeans
    keys: tuple[RunKey, ...]
    by_run: np.ndarray
    worse: int

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.keys)

    @property
    def counts(self) -> str:
        """How many domains and runs, as tables have it."""
        return f"{len(self.names)}, {self.runs}"

    @property
    def values(self) -> np.ndarray:
        """The change of every place."""
        return self.over.by_place

    @property
    def places_worse(self) -> int:
        """Places that lose; kept values have seven decimals, so a smaller loss is none."""
        sign = 1 if higher_is_better(self.metric) else -1
        return int((sign * self.values < -2e-7 * scale(self.metric)).sum())

    @property
    def unit(self) -> LeadingUnit:
        """What the interval counts, as in the tables of a report."""
        return self._leading.unit

    @property
    def mean(self) -> float:
        """Every place weighs the same; every run where blocks of seeds are counted too."""
        return float(self._leading.means.mean[0]) if len(self.names) >= FEW else self.over.mean

    @property
    def interval(self) -> tuple[float, float]:
        """Over places; over blocks × domains where runs of several domains share seeds."""
        low, high = self._leading.means.interval()
        return float(low[0]), float(high[0])

    @cached_property
    def _leading(self) -> LeadingMeans:
        return leading_means(self.by_run[:, None], _of_one_data_set(self.keys))

    @property
    def worst(self) -> tuple[str, float]:
        """The place that loses most, or gains least."""
        sign = 1 if higher_is_better(self.metric) else -1
        at = int(np.argmin(sign * self.values))
        return self.names[at], float(self.values[at])

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        low, high = self.interval
        return len(self.names) >= FEW and (low > 0 or high < 0)

    @cached_property
    def units(self) -> dict[str, tuple[float, float]]:
        """The interval over runs and that of every unit that decides, as ``compare`` has them."""
        low, high = bootstrap_interval(self.by_run[:, None])
        keys = _of_one_data_set(self.keys)
        units = deciding(unit_intervals(self.by_run, keys), crossed=is_crossed(keys))
        return {
            "run": (float(low[0]), float(high[0])),
            **{unit: (one.low, one.high) for unit, one in units.items()},
        }

    def named(self, units: Sequence[str]) -> list[str]:
        """What some units group; where every run has seeds of its own, these groups are runs."""
        alone = [unit for unit in SEED_UNITS if clusters(self.keys, unit).count == self.runs]
        own = dict.fromkeys("run" if unit in alone else unit for unit in units)
        return [_WEIGHTED.get(name, name) for name in group_names(tuple(own))]

    def __str__(self) -> str:
        """The mean and its interval; in bold where it excludes zero."""
        return f"**{self.plain}**" if self.excludes_zero else self.plain

    @property
    def plain(self) -> str:
        """The mean and its interval."""
        if len(self.names) < FEW:
            return self.text(self.mean)
        low, high = (self.end(value) for value in self.interval)
        return f"{self.text(self.mean)} [{low}, {high}]"

    def text(self, value: float, more: int = 0) -> str:
        """A change with its sign."""
        return number(value, DECIMALS.get(self.metric, 2) + more, signed=True)

    def end(self, value: float) -> str:
        """An end of an interval."""
        return end(value, DECIMALS.get(self.metric, 2))


def end(value: float, decimals: int) -> str:
    """An end of an interval; near zero with the digits that tell on which side it is."""
    texts = [number(value, decimals + more, signed=True) for more in (0, 1, 2)]
    return next((text for text in texts if text.strip("+−0.")), texts[0])


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
    """The mean of a number that every run has.

    A held-out domain is one place, also where several class subsets of it are problems of their
    own.
    """
    sign = 1 if higher_is_better(metric) else -1
    keys = tuple(keys)
    places = ["+".join(key.held_out) for key in keys]
    names = tuple(dict.fromkeys(places))
    over = over_places(values, numbered(places, "domain"))
    return Effect(metric, names, over, keys, values, int((sign * values < 0).sum()))


# The printed interval counts domains once; the unit of the library counts every run once.
_WEIGHTED = {"domains": "domains by their runs"}


def _of_one_data_set(keys: Sequence[RunKey]) -> list[RunKey]:
    """The runs with one name of data: several class subsets of a domain are one place."""
    return [replace(key, dataset="data") for key in keys]
