"""Does the order of checkpoints on the source hold on the target? And what does a choice miss?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from checkwise.metrics import METRICS as REGISTERED
from checkwise.records import RunKey
from checkwise.selection import Columns, Selection, distance, normalise
from checkwise.statistics import kendall, partial_spearman, spearman, transfer
from checkwise.study import FloatArray, Pool, Row, label, marked
from checkwise.study.tables.cells import MAIN, mean_cell, mean_or_nan
from checkwise.study.tables.table import Cell, plain_cells

Among = Literal["all", "feasible"]

METRICS = ("accuracy", "nll", "ece", "cwece")
OBJECTIVES = ("nll", "cwece")
SMALLEST = 3
TIED = 1e-9  # distances closer than this are ties: below it η decides, not what was measured


@dataclass(frozen=True)
class LocalRanks:
    """Rank correlations inside Θ of one run; nan where they are not valid.

    A run is valid with at least three feasible checkpoints and none of the four vectors constant:
    source and target accuracy, source and target utility (−D∞ of NLL and CwECE normalised inside Θ
    on its own side; distances closer than 1e-9 are ties). ``nll_…`` are of source utility and
    target NLL, the lower the better.

    ``given_step`` is the correlation with the step number partialled out, because reliability on
    both sides changes with time; ``by_step`` is what the step number alone gives: its correlation
    with target accuracy or utility, later being ranked worse.
    """

    checkpoints: int
    valid: bool
    accuracy_rho: float
    accuracy_tau: float
    utility_rho: float
    utility_tau: float
    nll_rho: float
    nll_tau: float
    accuracy_given_step: float
    utility_given_step: float
    nll_given_step: float
    accuracy_by_step: float
    utility_by_step: float
    nll_by_step: float


CORRELATIONS = tuple(f.name for f in fields(LocalRanks) if f.name not in ("checkpoints", "valid"))
# What correlations are called in the table.
NAMES = {"rho": "rho", "tau": "tau", "given_step": "rho_given_step", "by_step": "rho_by_step"}
PROXIES = {"source accuracy": "accuracy", "AC utility": "utility", "AC utility, target NLL": "nll"}


def all_checkpoints(pool: Pool) -> dict[str, FloatArray]:
    """Kendall's τ_b of source and target over every checkpoint, metric → [runs]."""
    tau = {metric: np.full(len(pool), np.nan) for metric in METRICS}
    for i, key in enumerate(pool.keys):
        source, target = Columns.of(pool.trajectory(key)), pool.target(key)
        for metric in METRICS:
            if metric in source and metric in target:
                both = np.isfinite(source[metric]) & np.isfinite(target[metric])
                tau[metric][i] = kendall(source[metric][both], target[metric][both])
    return tau


def inside_feasible(pool: Pool) -> dict[RunKey, LocalRanks]:
    return {key: _local(pool, key, one) for key, one in pool.selections("ac-nc").items()}


def _local(pool: Pool, key: RunKey, selection: Selection) -> LocalRanks:
    source, target = selection.columns, pool.target(key)
    feasible = selection.ranking.eligible
    size = int(feasible.sum())
    sides = [
        {name: np.asarray(side[name][feasible]) for name in ("accuracy", *OBJECTIVES)}
        for side in (source, target)
    ]
    vectors = [sides[0]["accuracy"], sides[1]["accuracy"], *(_utility(side) for side in sides)]
    usable = all(np.isfinite(v).all() and np.ptp(v) > 0 for v in vectors)
    if size < SMALLEST or not usable:
        return LocalRanks(size, False, **dict.fromkeys(CORRELATIONS, float("nan")))
    step = np.asarray(source["step"][feasible], dtype=np.float64)
    found = {}
    for side, (x, y) in (
        ("accuracy", (vectors[0], vectors[1])),
        ("utility", (vectors[2], vectors[3])),
        ("nll", (vectors[2], -sides[1]["nll"])),
    ):
        found[f"{side}_rho"] = spearman(x, y)
        found[f"{side}_tau"] = float(kendall(x, y))
        found[f"{side}_given_step"] = partial_spearman(x, y, step)
        found[f"{side}_by_step"] = spearman(-step, y)
    return LocalRanks(size, True, **found)


def _utility(side: dict[str, FloatArray]) -> FloatArray:
    errors = np.stack([side[name] for name in OBJECTIVES])
    return -_with_ties(distance(normalise(errors, np.ones(errors.shape[1], dtype=bool)), np.inf))


def _with_ties(distances: FloatArray) -> FloatArray:
    """The distances, where neighbours closer than ``TIED`` are made equal."""
    if not np.isfinite(distances).all():
        return distances
    levels, of = np.unique(distances, return_inverse=True)
    first = np.concatenate([[True], np.diff(levels) >= TIED])
    return np.asarray(levels[first][np.cumsum(first) - 1][of])


def _is_carried(pool: Pool, metric: str) -> bool:
    """Whether every run has a metric on both sides; imported logs may lack some."""
    return all(metric in pool.trajectory(k).metrics and metric in pool.target(k) for k in pool.keys)


def rank_correlation(pool: Pool) -> Iterator[Cell]:
    by_run = inside_feasible(pool)
    for group in pool.groups(["dataset"]):
        of_group = [by_run[key] for key in marked(pool.keys, group.keep)]
        valid = [ranks for ranks in of_group if ranks.valid]
        for proxy, side in PROXIES.items():
            row = (*group.labels, proxy)
            for name, called in NAMES.items():
                values = np.array([getattr(ranks, f"{side}_{name}") for ranks in valid])
                values = values[np.isfinite(values)]
                yield Cell(row, called, mean_or_nan(values), len(values), group.role)
            counts = {
                "checkpoints": sum(ranks.checkpoints for ranks in of_group),
                "valid": len(valid),
                "runs": len(of_group),
            }
            yield from plain_cells(row, counts, len(of_group), group.role)


def kendall_tau(pool: Pool) -> Iterator[Cell]:
    tau = all_checkpoints(pool)
    for group in pool.groups(["dataset", "algorithm"], whole=True):
        keys = marked(pool.keys, group.keep)
        for metric in METRICS:
            values = tau[metric][group.keep]
            yield mean_cell(group.labels, f"tau_{metric}", values, keys, group.role)


def ordering_transfer(pool: Pool) -> Iterator[Cell]:
    """Pairs whose source order holds on the target, and pairs for which it had to."""
    for metric in (name for name in METRICS if _is_carried(pool, name)):
        sign, factor = 1.0 if metric == "accuracy" else -1.0, REGISTERED[metric].scale
        by_run = {}
        for key in pool.keys:
            sides = (Columns.of(pool.trajectory(key))[metric], pool.target(key)[metric])
            both = np.isfinite(sides[0]) & np.isfinite(sides[1])
            by_run[key] = transfer(*(sign * values[both] for values in sides))
        for group in pool.groups(["dataset"]):
            found = [by_run[key] for key in marked(pool.keys, group.keep)]
            row, n, role = (*group.labels, metric), len(found), group.role
            pairs = sum(t.pairs for t in found)
            omega = factor * float(np.mean([t.omega for t in found]))
            kept, certain = (sum(getattr(t, of) for t in found) for of in ("kept", "certain"))
            shares = {"kept_share": 100 * kept / max(pairs, 1)}
            shares["certain_share"] = 100 * certain / max(pairs, 1)
            yield Cell(row, "omega", omega, n, role, factor)
            yield Cell(row, "pairs", float(pairs), n, role)
            yield from plain_cells(row, shares, n, role, 100)


def oracle(pool: Pool, metric: str, among: Among = "all") -> FloatArray:
    """The best target value of any checkpoint, or of any feasible one, per run (fractions)."""
    selections = pool.selections("ac-nc") if among == "feasible" else {}
    best = np.full(len(pool), np.nan)
    for i, key in enumerate(pool.keys):
        values = pool.target(key)[metric]
        values = values[selections[key].ranking.eligible] if among == "feasible" else values
        values = values[np.isfinite(values)]
        if len(values):
            higher = REGISTERED[metric].direction == "higher"
            best[i] = values.max() if higher else values.min()
    return best


def regrets(pool: Pool) -> Iterator[Cell]:
    """Mean shortfall of a choice to the best checkpoint in hindsight; negative only outside Θ."""
    rules: tuple[Row, ...] = ("source-acc", "ac-nc", "ac-mean", "pure-nll")
    oracles: dict[str, Among] = {"any checkpoint": "all", "in Θ": "feasible"}
    groups = pool.groups(["dataset"], whole=True)
    for measure in MAIN:
        metric = measure.removeprefix("target_")
        sign = 1 if REGISTERED[metric].direction == "higher" else -1
        factor = REGISTERED[metric].scale
        for name, among in oracles.items():
            best = oracle(pool, metric, among)
            for rule in rules:
                shortfall = sign * (best - pool.columns(rule)[measure])
                for group in groups:
                    values = shortfall[group.keep & np.isfinite(shortfall)]
                    row, n, role = (*group.labels, name, label(rule)), len(values), group.role
                    mean = factor * mean_or_nan(values)
                    yield Cell(row, f"regret_{metric}", mean, n, role, factor)
                    if metric == "nll":
                        median = float(np.median(values)) if n else float("nan")
                        yield Cell(row, "regret_nll_median", median, n, role)
