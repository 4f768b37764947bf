"""Source–target rank agreement of a pool's runs, over all checkpoints and inside Θ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS as REGISTERED
from checkwise.records import RunKey
from checkwise.selection import Columns, distance, normalise, select_many
from checkwise.statistics import Transfer, kendall, partial_spearman, spearman, transfer
from checkwise.study import Group, Pool, marked
from checkwise.study.tables.means_and_changes import mean_cell
from checkwise.study.tables.table import Cell, Table, table

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

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
PROXIES = {
    "source accuracy": "accuracy",
    "AC utility": "utility",
    "AC utility, target NLL": "nll",
}


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
    selections = select_many(runs, "ac-nc", guard=False)
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
        for proxy, side in PROXIES.items():
            row = (*group.labels, proxy)
            cells += [_mean(row, name, side, valid, group.role) for name in NAMES]
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
            "against target utility, or against target NLL; runs with three or more feasible "
            "checkpoints and no constant side. Given the step: with the step number partialled "
            "out of both sides, over runs where neither follows it exactly. Earlier first: the "
            "correlation of the target side with the order of steps alone. Checkpoints are counted "
            "over all runs."
        ),
    )


def _mean(
    row: tuple[str, ...], name: str, side: str, ranks: Sequence[LocalRanks], role: str
) -> Cell:
    values = np.array([getattr(one, f"{side}_{name}") for one in ranks])
    values = values[np.isfinite(values)]
    mean = float(values.mean()) if len(values) else float("nan")
    return Cell(row, NAMES[name], mean, len(values), role)


def kendall_tau(pool: Pool) -> Table:
    """τ_b over all checkpoints, per data set and algorithm and over everything."""
    tau = all_checkpoints(pool)
    everything = [Group(("all", "all"), group.role, group.keep) for group in pool.by_role()]
    cells = []
    for group in [*pool.groups(["dataset", "algorithm"]), *everything]:
        keys = marked(pool.keys, group.keep)
        cells += [
            mean_cell(group.labels, f"tau_{metric}", tau[metric][group.keep], keys, group.role)
            for metric in METRICS
        ]
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
