"""Source–target rank agreement of a pool's runs, over all checkpoints and inside Θ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS as REGISTERED
from checkwise.records import RunKey
from checkwise.selection import select_many
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import distance, normalise
from checkwise.statistics.bootstrap import SEED, percentile_interval
from checkwise.statistics.ranks import Transfer, kendall, spearman, transfer
from checkwise.study.compare import marked
from checkwise.study.pool import Group, Pool
from checkwise.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

METRICS = ("accuracy", "nll", "ece", "cwece")
OBJECTIVES = ("nll", "cwece")
SMALLEST = 3


@dataclass(frozen=True)
class LocalRanks:
    """Rank correlations inside Θ of one run; nan where they are not valid.

    A run is valid with at least three feasible checkpoints and none of the four vectors constant:
    source and target accuracy, source and target utility (−D∞ of NLL and CwECE normalised inside Θ
    on its own side).
    """

    checkpoints: int
    valid: bool
    accuracy_rho: float
    accuracy_tau: float
    utility_rho: float
    utility_tau: float


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
    """Rank correlations inside the feasible set at δ = 0.5."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    selections = select_many(runs, "ac-nc")
    return {key: _local(pool, key, s.ranking.eligible) for key, s in selections.items()}


def _local(pool: Pool, key: RunKey, feasible: BoolArray) -> LocalRanks:
    source, target = Columns.of(pool.trajectory(key)), pool.target(key)
    size = int(feasible.sum())
    sides = [
        {name: np.asarray(side[name][feasible]) for name in ("accuracy", *OBJECTIVES)}
        for side in (source, target)
    ]
    vectors = [sides[0]["accuracy"], sides[1]["accuracy"], *(_utility(side) for side in sides)]
    usable = all(np.isfinite(v).all() and np.ptp(v) > 0 for v in vectors)
    if size < SMALLEST or not usable:
        nan = float("nan")
        return LocalRanks(size, False, nan, nan, nan, nan)
    accuracy, utility = vectors[:2], vectors[2:]
    return LocalRanks(
        size,
        True,
        spearman(*accuracy),
        float(kendall(*accuracy)),
        spearman(*utility),
        float(kendall(*utility)),
    )


def _utility(side: dict[str, FloatArray]) -> FloatArray:
    errors = np.stack([side[name] for name in OBJECTIVES])
    return -distance(normalise(errors, np.ones(errors.shape[1], dtype=bool)), np.inf)


def transfers(pool: Pool, metric: str) -> dict[RunKey, Transfer]:
    """Ordering transfer of one metric over every checkpoint of every run."""
    sign = 1.0 if metric == "accuracy" else -1.0
    by_run = {}
    for key in pool.keys:
        source, target = Columns.of(pool.trajectory(key)), pool.target(key)
        both = np.isfinite(source[metric]) & np.isfinite(target[metric])
        by_run[key] = transfer(sign * source[metric][both], sign * target[metric][both])
    return by_run


def _is_carried(pool: Pool, metric: str) -> bool:
    """Whether every run has a metric on both sides; imported logs may lack some."""
    return all(metric in pool.trajectory(k).metrics and metric in pool.target(k) for k in pool.keys)


def rank_correlation(pool: Pool) -> Table:
    """Mean rank correlation inside Θ, per data set."""
    by_run = inside_feasible(pool)
    cells = []
    for group in pool.groups(["dataset"]):
        of_group = [by_run[key] for key in marked(pool.keys, group.keep)]
        valid = [ranks for ranks in of_group if ranks.valid]
        for proxy, side in (("source accuracy", "accuracy"), ("AC utility", "utility")):
            row = (*group.labels, proxy)
            for name in ("rho", "tau"):
                values = [getattr(ranks, f"{side}_{name}") for ranks in valid]
                mean = float(np.mean(values)) if values else float("nan")
                cells.append(Cell(row, name, mean, len(values), group.role))
            counts = {
                "checkpoints": sum(ranks.checkpoints for ranks in of_group),
                "valid": len(valid),
                "runs": len(of_group),
            }
            cells += [
                Cell(row, name, float(count), len(of_group), group.role)
                for name, count in counts.items()
            ]
    return table(
        "rank-correlation",
        "Rank correlation of source and target inside the feasible set at δ = 0.5",
        ("dataset", "source proxy"),
        cells,
        note=(
            "Source accuracy against target accuracy, source utility (−D∞ of NLL and CwECE) "
            "against target utility; runs with three or more feasible checkpoints and no constant "
            "side. Checkpoints are counted over all runs."
        ),
    )


def kendall_tau(pool: Pool) -> Table:
    """τ_b over all checkpoints, per data set and algorithm and over everything."""
    tau = all_checkpoints(pool)
    everything = [Group(("all", "all"), group.role, group.keep) for group in pool.by_role()]
    cells = []
    for group in [*pool.groups(["dataset", "algorithm"]), *everything]:
        for metric in METRICS:
            values = tau[metric][group.keep]
            values = values[np.isfinite(values)].reshape(-1, 1)
            low, high = percentile_interval(values)
            mean = float(values.mean()) if len(values) else float("nan")
            ends = (float(low[0]), float(high[0]))
            cells.append(
                Cell(group.labels, f"tau_{metric}", mean, len(values), group.role, 1, *ends, SEED)
            )
    return table(
        "kendall",
        "Kendall's τ_b of source and target over all checkpoints, means over runs",
        ("dataset", "algorithm"),
        cells,
        signed=True,
    )


def ordering_transfer(pool: Pool) -> Table:
    """Pairs whose source order holds on the target, and pairs for which it had to."""
    cells = []
    for metric in (name for name in METRICS if _is_carried(pool, name)):
        by_run = transfers(pool, metric)
        for group in pool.groups(["dataset"]):
            of_group = [by_run[key] for key in marked(pool.keys, group.keep)]
            row = (*group.labels, metric)
            factor = REGISTERED[metric].scale
            omega = factor * float(np.mean([t.omega for t in of_group]))
            pairs = sum(t.pairs for t in of_group)
            for name, value, scaled in (
                ("omega", omega, factor),
                ("pairs", float(pairs), 1),
                ("kept_share", 100 * sum(t.kept for t in of_group) / max(pairs, 1), 100),
                ("certain_share", 100 * sum(t.certain for t in of_group) / max(pairs, 1), 100),
            ):
                cells.append(Cell(row, name, value, len(of_group), group.role, scaled))
    return table(
        "ordering-transfer",
        "Does the source order of two checkpoints hold on the target? Over all checkpoints",
        ("dataset", "metric"),
        cells,
        note=(
            "ψ is fitted to the target by isotonic regression, so this explains and never selects. "
            "A pair is certain where ψ differs by more than ω, the range of the residuals."
        ),
    )
