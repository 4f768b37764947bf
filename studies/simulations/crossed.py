"""Coverage in the design of a study: draws and splits that serve more than one block of seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkwise.records import RunKey
from checkwise.statistics import bootstrap_interval
from checkwise.study import SEED_UNITS, clusters, unit_means

PART = "crossed-coverage"
STUDIES, RESAMPLES, LEVEL, SEED = 2_000, 2_000, 0.95, 20261116
SEEDS, RUNS_PER_BLOCK = range(3), 20


class Shared(NamedTuple):
    """Shares of a difference's variance that runs have in common; the rest is a run's own."""

    draw: float
    trial: float
    block: float = 0.0


SCENARIOS = {
    "30% shared by draw": Shared(0.3, 0.0),
    "20% by draw, 10% by trial": Shared(0.2, 0.1),
    "15% by draw, 15% by trial": Shared(0.15, 0.15),
    "30% by block alone": Shared(0.0, 0.0, 0.3),
}


def keys() -> list[RunKey]:
    """3 hparams seeds × 3 trial seeds, each with the same runs."""
    return [
        RunKey("simulated", f"algorithm {a}", ("target",), h, t)
        for h in SEEDS
        for t in SEEDS
        for a in range(RUNS_PER_BLOCK)
    ]


def studies(shared: Shared) -> np.ndarray:
    """Differences [runs, studies] of mean 0 and variance 1."""
    rng = np.random.default_rng(SEED)
    runs = keys()
    values: np.ndarray = np.sqrt(1 - sum(shared)) * rng.normal(size=(len(runs), STUDIES))
    for unit, share in shared._asdict().items():
        groups = clusters(runs, unit)
        values += np.sqrt(share) * rng.normal(size=(groups.count, STUDIES))[groups.of]
    return values


def cluster_t(values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The ends of cluster-t by every unit."""
    found = unit_means(values, keys())
    return [found[unit].interval(LEVEL) for unit in SEED_UNITS]


def simulate(shared: Shared) -> list[float]:
    """The share of studies whose interval holds 0: percentile, cluster-t, any of the cluster-t."""
    values = studies(shared)
    by_unit = [holds(ends) for ends in cluster_t(values)]
    over_runs = holds(bootstrap_interval(values, resamples=RESAMPLES))
    every = [over_runs, *by_unit, np.any(by_unit, axis=0)]
    return [float(held.mean()) for held in every]


def holds(ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Whether the interval of every study holds the true difference, 0."""
    return np.asarray((ends[0] <= 0) & (ends[1] >= 0))


def row(name: str) -> str:
    """One line of the table."""
    cells = [f"{100 * share:.0f}%" for share in simulate(SCENARIOS[name])]
    return f"| {name} | {' | '.join(cells)} |"


def table() -> str:
    """The whole table."""
    counts = [clusters(keys(), unit).count for unit in SEED_UNITS]
    units = [f"cluster-t, {n} {unit}s" for unit, n in zip(SEED_UNITS, counts, strict=True)]
    heads = ["scenario", "percentile, runs", *units, "any of these three"]
    lines = [f"| {' | '.join(heads)} |", f"|:--|{(len(heads) - 1) * '--:|'}"]
    return "\n".join([*lines, *map(row, SCENARIOS)])
