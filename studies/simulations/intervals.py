"""Simulate the coverage of every interval under shared seeds and write it into statistics.md.

Clusters are independent here; ``crossed.py`` has those of a study.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkwise.statistics import bootstrap_interval
from checkwise.study.inference import Clusters, cluster_means, numbered, sign_patterns, wild_p_value
from studies.page import DOCS, fill
from studies.simulations import crossed

PAGE = DOCS / "statistics.md"
PART = "coverage"
STUDIES, RUNS_PER_CLUSTER, RESAMPLES, LEVEL = 2_000, 20, 2_000, 0.95
CLUSTERS = (3, 9, 30)
SCENARIOS = (
    ("nothing shared", 0.0, None),
    ("30% shared", 0.3, None),
    ("30% shared, heavy tails", 0.3, 3),
)


class Coverage(NamedTuple):
    """Share of studies whose interval holds the true difference, 0; and two median widths."""

    percentile: float
    bca: float
    cluster_percentile: float
    cluster_t: float
    wild: float | None
    width_percentile: float
    width_cluster_t: float


def studies(clusters: int, shared: float, df: int | None) -> np.ndarray:
    """Differences [runs, studies] of variance 1, a share of it common to the runs of a cluster."""
    rng = np.random.default_rng(20261115 + clusters)

    def noise(*shape: int) -> np.ndarray:
        if df is None:
            return rng.normal(size=shape)
        return np.asarray(rng.standard_t(df, shape) / np.sqrt(df / (df - 2)))

    common = np.repeat(noise(clusters, STUDIES), RUNS_PER_CLUSTER, axis=0)
    own = noise(clusters * RUNS_PER_CLUSTER, STUDIES)
    return np.asarray(np.sqrt(shared) * common + np.sqrt(1 - shared) * own)


def simulate(clusters: int, shared: float, df: int | None) -> Coverage:
    """Every interval on every simulated study."""
    values = studies(clusters, shared, df)
    of = np.repeat(np.arange(clusters), RUNS_PER_CLUSTER)
    groups: Clusters = numbered(of.tolist(), "simulated")
    by_cluster = groups.sums(values) / RUNS_PER_CLUSTER
    run = bootstrap_interval(values, resamples=RESAMPLES)
    bca = bootstrap_interval(values, resamples=RESAMPLES, method="bca")
    block = bootstrap_interval(by_cluster, resamples=RESAMPLES)
    student = cluster_means(values, groups).interval(LEVEL)
    bounded = 1 / len(sign_patterns(clusters)) <= 1 - LEVEL
    wild = float((wild_p_value(values, groups) > 1 - LEVEL).mean()) if bounded else None
    return Coverage(
        _covered(run),
        _covered(bca),
        _covered(block),
        _covered(student),
        wild,
        _width(run),
        _width(student),
    )


def _covered(ends: tuple[np.ndarray, np.ndarray]) -> float:
    return float(crossed.holds(ends).mean())


def _width(ends: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.median(ends[1] - ends[0]))


def row(name: str, clusters: int, found: Coverage) -> str:
    """One line of the table."""
    wild = "unbounded" if found.wild is None else f"{100 * found.wild:.0f}%"
    shares = (found.percentile, found.bca, found.cluster_percentile, found.cluster_t)
    wider = found.width_cluster_t / found.width_percentile
    cells = [f"{100 * share:.0f}%" for share in shares]
    return f"| {name} | {clusters} | {' | '.join([*cells, wild, f'{wider:.1f}×'])} |"


def table() -> str:
    """The whole table."""
    lines = [
        "| scenario | clusters | percentile, runs | BCa, runs | percentile, clusters | cluster-t "
        "| wild bootstrap-t | cluster-t is wider by |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, shared, df in SCENARIOS:
        lines += [row(name, clusters, simulate(clusters, shared, df)) for clusters in CLUSTERS]
    return "\n".join(lines)


def main() -> None:
    fill(PAGE, PART, table())
    fill(PAGE, crossed.PART, crossed.table())


if __name__ == "__main__":
    main()
