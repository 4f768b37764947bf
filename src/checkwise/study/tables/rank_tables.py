"""Rank agreement between source and target: over all checkpoints, inside Θ, and what is certain."""

from __future__ import annotations

import numpy as np

from checkwise.metrics import METRICS as REGISTERED
from checkwise.study.bootstrap import SEED, percentile_interval
from checkwise.study.pool import Group, Pool
from checkwise.study.ranks import METRICS, all_checkpoints, inside_feasible, transfers
from checkwise.study.tables.table import Cell, Table, table


def rank_correlation(pool: Pool) -> Table:
    """Mean rank correlation inside Θ, per data set."""
    found = inside_feasible(pool)
    cells = []
    for group in pool.groups(["dataset"]):
        mine = [found[pool.keys[i]] for i in np.flatnonzero(group.keep).tolist()]
        valid = [ranks for ranks in mine if ranks.valid]
        for proxy, side in (("source accuracy", "accuracy"), ("AC utility", "utility")):
            row = (*group.labels, proxy)
            for name in ("rho", "tau"):
                values = [getattr(ranks, f"{side}_{name}") for ranks in valid]
                mean = float(np.mean(values)) if values else float("nan")
                cells.append(Cell(row, name, mean, len(values), group.role))
            counts = {
                "checkpoints": sum(ranks.checkpoints for ranks in mine),
                "valid": len(valid),
                "runs": len(mine),
            }
            cells += [
                Cell(row, name, float(count), len(mine), group.role)
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
    scopes = [Group(("all", "all"), scope.role, scope.keep) for scope in pool.scopes()]
    cells = []
    for group in [*pool.groups(["dataset", "algorithm"]), *scopes]:
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
    for metric in METRICS:
        found = transfers(pool, metric)
        for group in pool.groups(["dataset"]):
            mine = [found[pool.keys[i]] for i in np.flatnonzero(group.keep).tolist()]
            row = (*group.labels, metric)
            factor = REGISTERED[metric].scale
            omega = factor * float(np.mean([t.omega for t in mine]))
            pairs = sum(t.pairs for t in mine)
            for name, value, scaled in (
                ("omega", omega, factor),
                ("pairs", float(pairs), 1),
                ("kept_share", 100 * sum(t.kept for t in mine) / max(pairs, 1), 100),
                ("certain_share", 100 * sum(t.certain for t in mine) / max(pairs, 1), 100),
            ):
                cells.append(Cell(row, name, value, len(mine), group.role, scaled))
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
