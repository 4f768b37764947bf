"""Which runs share their random draws, so that they do not count as independent.

A hyperparameter draw depends only on (hparams seed, trial seed) and a split only on the trial seed:
the same ones serve every algorithm, data set and held-out domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import LEVEL
from checkwise.study.inference import (
    ClusterMeans,
    Clusters,
    cluster_means,
    numbered,
    over_places,
    two_way_means,
)
from checkwise.study.outcome import FloatArray, key_labels
from checkwise.words import counted

UNITS: dict[str, str] = {
    "run": "every run by itself",
    "block": "runs with the same hparams seed and trial seed",
    "draw": "runs with the same hyperparameters; seed 0 is the same in every trial",
    "trial": "runs with the same trial seed, hence the same splits",
    "domain": "runs with the same held-out domain",
}
SEED_UNITS: Final = ("block", "draw", "trial")
DOMAIN_UNITS: Final = ("domain", "block_domain")
ENOUGH_GROUPS: Final = 3  # an interval over fewer groups says nothing
MANY_PLACES: Final = 6  # from here on held-out domains are called places, and are not few


def clusters(keys: Sequence[RunKey], by: str | Sequence[str] = "block") -> Clusters:
    """Group runs by what they share: a name from ``UNITS``, or columns of the run key.

    Example:
        >>> keys = [RunKey("PACS", "ERM", ("art",), h, t) for h in range(3) for t in range(3)]
        >>> [clusters(keys, by).count for by in ("run", "block", "draw", "trial", "domain")]
        [9, 9, 7, 3, 1]
    """
    if isinstance(by, str):
        return numbered([_label(key, by) for key in keys], by)
    return numbered(key_labels(keys, by), "+".join(by))


def _label(key: RunKey, by: str) -> Hashable:
    if by == "draw" and key.hparams_seed == 0:
        return 0
    both = key.hparams_seed, key.trial_seed
    shared = {"run": key, "block": both, "draw": both, "trial": key.trial_seed}
    if by == "domain":
        return key.dataset, key.held_out
    return shared[by]


@dataclass(frozen=True)
class UnitInterval:
    """The cluster-t interval of a mean difference with one kind of group as the unit."""

    groups: int
    low: float  # nan ends below two groups
    high: float
    p: float  # two-sided, of no difference; nan without any spread

    @property
    def decides(self) -> bool:
        """Whether there are enough groups to say anything."""
        return self.groups >= ENOUGH_GROUPS

    @property
    def includes_zero(self) -> bool:
        """Whether no difference is within the interval."""
        return not (self.low > 0 or self.high < 0)


def is_crossed(keys: Sequence[RunKey]) -> bool:
    """Whether runs of several held-out domains share seeds: some block lies in two domains.

    Example:
        >>> is_crossed([RunKey("PACS", "ERM", (d,), 0, 0) for d in "ab"])
        True
        >>> is_crossed([RunKey("PACS", a, (d,), 0, ord(d)) for a in ("ERM", "IRM") for d in "ab"])
        False
    """
    both = {(_label(key, "block"), _label(key, "domain")) for key in keys}
    return len(both) > len({block for block, _ in both})


def deciding(units: Mapping[str, UnitInterval], *, crossed: bool) -> dict[str, UnitInterval]:
    """The units that decide about a mean: all with more than two groups.

    Where no two domains share seeds, blocks × domains are no unit beside domains.

    Example:
        >>> nine, two = UnitInterval(9, -2.0, -1.0, 0.01), UnitInterval(2, -9.0, 6.0, 0.5)
        >>> units = {"block": nine, "trial": two, "domain": nine, "block_domain": nine}
        >>> [list(deciding(units, crossed=crossed)) for crossed in (True, False)]
        [['block', 'domain', 'block_domain'], ['block', 'domain']]
    """
    return {
        unit: interval
        for unit, interval in units.items()
        if interval.decides and (crossed or unit != "block_domain")
    }


@dataclass(frozen=True)
class PlaceInterval:
    """A mean difference in which every held-out place counts once, with its t interval."""

    places: int
    mean: float
    low: float  # nan ends below two places
    high: float
    p: float
    new_low: float  # where the difference at one new place of the same kind is expected
    new_high: float

    @property
    def many(self) -> bool:
        """Whether there are enough places not to call them few."""
        return self.places >= MANY_PLACES

    @property
    def decides(self) -> bool:
        """Whether there are enough places to say anything."""
        return self.places >= ENOUGH_GROUPS


def place_interval(
    values: FloatArray, keys: Sequence[RunKey], level: float = LEVEL
) -> PlaceInterval:
    """The mean of ``values`` [n] over held-out places.

    Example:
        >>> keys = [RunKey("PACS", "ERM", (d,), 0, t) for d in "abc" for t in range(2)]
        >>> found = place_interval(np.array([1.0, 3.0, 2.0, 4.0, 3.0, 5.0]), keys)
        >>> found.places, found.mean, found.many
        (3, 3.0, False)
    """
    if not len(values):
        return PlaceInterval(0, *[float("nan")] * 6)
    found = over_places(values, clusters(keys, "domain"))
    low, high = found.interval(level)
    return PlaceInterval(found.places, found.mean, low, high, found.p, *found.new_place(level))


@dataclass(frozen=True)
class LeadingUnit:
    """The unit of the interval or test that leads where none is named."""

    name: str  # "domain", "block_domain" or "block"
    blocks: int
    domains: int

    def __str__(self) -> str:
        """``9 blocks × 4 domains``, ``4 domains``, ``24 places`` or ``9 blocks``."""
        blocks = counted(self.blocks, "block")
        domains = counted(self.domains, "place" if self.domains >= MANY_PLACES else "domain")
        both = f"{blocks} × {domains}"
        return {"block": blocks, "domain": domains, "block_domain": both}[self.name]

    @property
    def decides(self) -> bool:
        """Whether there are enough groups to say anything."""
        return self.name != "block" or self.blocks >= ENOUGH_GROUPS


def leading_unit(blocks: int, domains: int, *, crossed: bool) -> LeadingUnit:
    """Blocks × domains where runs of several domains share seeds; else domains, or blocks.

    Example:
        >>> [str(leading_unit(*counts, crossed=True)) for counts in ((9, 24), (9, 4), (2, 4))]
        ['9 blocks × 24 places', '9 blocks × 4 domains', '4 domains']
        >>> str(leading_unit(9, 2, crossed=True)), str(leading_unit(36, 4, crossed=False))
        ('9 blocks', '4 domains')
    """
    if domains < ENOUGH_GROUPS:
        return LeadingUnit("block", blocks, domains)
    both = crossed and blocks >= ENOUGH_GROUPS
    return LeadingUnit("block_domain" if both else "domain", blocks, domains)


def usual_unit(keys: Sequence[RunKey]) -> LeadingUnit:
    """The unit of a test where none is named."""
    blocks, domains = (clusters(keys, unit).count for unit in ("block", "domain"))
    return leading_unit(blocks, domains, crossed=is_crossed(keys))


@dataclass(frozen=True, eq=False)
class LeadingMeans:
    """Means of K columns in the unit that leads."""

    unit: LeadingUnit
    means: ClusterMeans
    # Values and clusters whose signs may be flipped together; two for blocks × domains.
    lines: tuple[tuple[FloatArray, Clusters], ...]


def leading_means(values: FloatArray, keys: Sequence[RunKey]) -> LeadingMeans:
    """The columns of ``values`` [n, K] in their leading unit; over domains, each counts once.

    Example:
        >>> keys = [RunKey("PACS", "ERM", (d,), 0, t) for t, d in enumerate("aabc")]
        >>> found = leading_means(np.array([[1.0], [1.0], [2.0], [3.0]]), keys)
        >>> str(found.unit), found.means.mean
        ('3 domains', array([2.]))
    """
    unit = usual_unit(keys)
    if unit.name == "domain":
        domains = clusters(keys, "domain")
        places = np.stack([domains.sums(column) / domains.sizes for column in values.T], axis=1)
        alone = numbered(range(len(places)), "domain")
        return LeadingMeans(unit, cluster_means(places, alone), ((places, alone),))
    names = ("block", "domain") if unit.name == "block_domain" else (unit.name,)
    lines = tuple((values, clusters(keys, name)) for name in names)
    return LeadingMeans(unit, unit_means(values, keys)[unit.name], lines)


def told(units: Mapping[str, UnitInterval], runs: int) -> dict[str, UnitInterval]:
    """The units as people are told of them: seeds that no two runs share are single runs, once.

    Example:
        >>> eight, four = UnitInterval(8, -2.0, -1.0, 0.01), UnitInterval(4, -2.0, -1.0, 0.01)
        >>> units = {"block": eight, "draw": eight, "trial": eight, "domain": four}
        >>> list(told(units, 8)), list(told(units, 32))
        (['single_run', 'domain'], ['block', 'draw', 'trial', 'domain'])
    """
    named: dict[str, UnitInterval] = {}
    for unit, interval in units.items():
        single = unit in SEED_UNITS and interval.groups == runs
        named.setdefault("single_run" if single else unit, interval)
    return named


def unit_means(values: FloatArray, keys: Sequence[RunKey]) -> dict[str, ClusterMeans]:
    """Means of the columns of ``values`` [n, K] with standard errors by each unit.

    Example:
        >>> keys = [RunKey("PACS", "ERM", (d,), 0, t) for d in "abcd" for t in range(3)]
        >>> by_unit = unit_means(np.arange(12.0).reshape(12, 1), keys)
        >>> {unit: means.clusters for unit, means in by_unit.items()}
        {'block': 3, 'draw': 1, 'trial': 3, 'domain': 4, 'block_domain': 3}
    """
    groups = {unit: clusters(keys, unit) for unit in (*SEED_UNITS, "domain")}
    by_unit = {unit: cluster_means(values, group) for unit, group in groups.items()}
    return {**by_unit, "block_domain": two_way_means(values, groups["block"], groups["domain"])}


def unit_intervals(
    values: FloatArray, keys: Sequence[RunKey], level: float = LEVEL
) -> dict[str, UnitInterval]:
    """The interval of the mean of ``values`` [n] by each unit."""
    intervals = {}
    for unit, means in unit_means(values[:, None], keys).items():
        (low,), (high,), (p,) = (*means.interval(level), means.p_value())
        intervals[unit] = UnitInterval(means.clusters, float(low), float(high), float(p))
    return intervals
