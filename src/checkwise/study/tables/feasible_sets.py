"""What near-best checkpoints hold, and in how many runs rules choose differently among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from checkwise.records import RunKey
from checkwise.selection import nondominated
from checkwise.study import FloatArray, Method, Pool, Row, marked, method
from checkwise.study.inference import spread
from checkwise.study.tables.cells import MAIN, Pairs, changes, mean_or_nan, means
from checkwise.study.tables.table import NAN, Cell, plain_cells

COMPARED_RULES = ("source-acc", "ac-nll", "ac-cwece", "ac-ece", "ac-nc")
OBJECTIVES = ("nll", "cwece")
PURE = ("source-acc", "pure-ece", "pure-cwece", "pure-nll")
VARIANTS = {
    "η = 0": method("ac-nc", eta=0.0),
    "Pareto filter": method("ac-nc", pareto=True),
    "hard-bin CwECE": method("ac", objectives=("nll", "hard_cwece")),
    "Brier score for NLL": method("ac", objectives=("brier", "cwece")),
}


@dataclass(frozen=True)
class FeasibleSet:
    """One run's feasible set at δ = 0.5."""

    size: int
    nondominated: int  # how many of them no other matches or beats in NLL and CwECE
    opposed: bool  # of exactly two, whether NLL and CwECE rank them in opposite order


def feasible_sets(pool: Pool) -> dict[RunKey, FeasibleSet]:
    sets = {}
    for key, selection in pool.selections("ac-nc").items():
        feasible = selection.ranking.eligible
        errors = np.stack([selection.columns[name] for name in OBJECTIVES])
        size, inside = int(feasible.sum()), errors[:, feasible]
        opposed = size == 2 and float(np.prod(inside[:, 0] - inside[:, 1])) < 0
        sets[key] = FeasibleSet(size, int(nondominated(errors, feasible).sum()), opposed)
    return sets


def composition(pool: Pool) -> Iterator[Cell]:
    sets = feasible_sets(pool)
    differ = _steps(pool, "ac-nc") != _steps(pool, "source-acc")
    for group in pool.groups(["dataset"], whole=True):
        of_group = [sets[key] for key in marked(pool.keys, group.keep)]
        many = np.array([s.size > 1 for s in of_group])
        differs = differ[group.keep]
        counts = {
            "runs": len(of_group),
            "feasible_total": sum(s.size for s in of_group),
            "singletons": sum(s.size == 1 for s in of_group),
            "multi": int(many.sum()),
            "differs": int(differs.sum()),
            "nondominated_one": sum(s.nondominated == 1 for s in of_group),
            "nondominated_many": sum(s.nondominated > 1 for s in of_group),
            "pairs": sum(s.size == 2 for s in of_group),
            "pairs_opposed": sum(s.opposed for s in of_group),
        }
        yield from plain_cells(group.labels, counts, len(of_group), group.role)
        share = 100 * float(differs[many].mean()) if many.any() else NAN
        yield Cell(group.labels, "differs_share", share, int(many.sum()), group.role, 100)


def disagreement(pool: Pool) -> Iterator[Cell]:
    sets = feasible_sets(pool)
    many = np.array([sets[key].size > 1 for key in pool.keys])
    for group in pool.groups(["dataset"], whole=True):
        at = group.keep & many
        for first, second in combinations(COMPARED_RULES, 2):
            apart = (_steps(pool, first) != _steps(pool, second))[at]
            row = (*group.labels, f"{first} / {second}")
            yield Cell(row, "disagree", float(apart.sum()), len(apart), group.role)


def plateau(pool: Pool) -> Iterator[Cell]:
    """Mean range of each metric inside Θ, per data set and algorithm; CwECE is not scaled."""
    ranges: dict[RunKey, dict[str, float]] = {}
    for key, selection in pool.selections("ac-nc").items():
        feasible, target = selection.ranking.eligible, pool.target(key)
        source = {m: selection.columns[m] for m in ("accuracy", *OBJECTIVES)}
        ranges[key] = {
            "eligible": float(feasible.sum()),
            **{f"range_source_{m}": float(np.ptp(v[feasible])) for m, v in source.items()},
            **{f"range_target_{m}": float(np.ptp(target[m][feasible])) for m in OBJECTIVES},
        }
    for group in pool.groups(["dataset", "algorithm"]):
        of_group = [ranges[key] for key in marked(pool.keys, group.keep)]
        for measure in of_group[0]:
            values = np.array([of_run[measure] for of_run in of_group])
            values = values[np.isfinite(values)]
            factor = 100 if measure == "range_source_accuracy" else 1
            mean = factor * mean_or_nan(values)
            yield Cell(group.labels, measure, mean, len(values), group.role, factor)


def losses(pool: Pool) -> Iterator[Cell]:
    """How target accuracy changes are spread over runs."""
    pairs: dict[str, tuple[Row, Row]] = {pool.contrast: (pool.rule, pool.reference)}
    if "delta_pp" in pool.rule.takes:
        tenth, half, one = (method(pool.rule, delta_pp=d) for d in ("0.1", "0.5", "1.0"))
        pairs |= {"δ = 0.1 − δ = 0.5": (tenth, half), "δ = 1.0 − δ = 0.5": (one, half)}
    for group in pool.groups(["dataset"], whole=True):
        for name, (rule, reference) in pairs.items():
            changed = pool.differences(rule, reference, ["target_accuracy"], group.keep)
            counts = spread(changed.finite("target_accuracy")[1], higher_is_better=True)
            row, n, role = (*group.labels, name), counts.n, group.role
            of_runs = {"gain": counts.wins, "equal": counts.ties, "lose": counts.losses}
            yield from plain_cells(row, {**of_runs, "lose_1pp": counts.lose_point}, n, role)
            share = 100 * (counts.lose_point / n) if n else NAN
            points = {"percentile_5": counts.tail, "worst": counts.worst}
            yield from plain_cells(row, {"lose_1pp_share": share, **points}, n, role, 100)


def pure(pool: Pool) -> Iterator[Cell]:
    groups = pool.groups(["dataset"])
    yield from means(pool, PURE, ("source_accuracy", *MAIN, "step"), groups)
    for group in groups:
        for rule in PURE:
            steps = _steps(pool, rule)[group.keep]
            share = 100 * float(np.mean(steps == 0)) if len(steps) else NAN
            row = (*group.labels, rule)
            yield Cell(row, "step_0_share", share, len(steps), group.role, 100)


def same_choices(pool: Pool, pairs: Pairs) -> Iterator[Cell]:
    for name, (rule, reference) in pairs.items():
        same = _steps(pool, rule) == _steps(pool, reference)
        for group in pool.by_role():
            of_group = same[group.keep]
            count = float(of_group.sum())
            yield Cell(name, "same_checkpoint", count, len(of_group), group.role)


def sensitivity(pool: Pool) -> Iterator[Cell]:
    carried = set(pool.trajectory(pool.keys[0]).metrics)
    variants: Mapping[str, Method] = {
        name: variant
        for name, variant in VARIANTS.items()
        if set(variant.params.get("objectives", ())) <= carried
    }
    pairs: Pairs = {(name,): (variant, "ac-nc") for name, variant in variants.items()}
    yield from changes(pool, pairs, MAIN, pool.by_role())
    usual = _steps(pool, "ac-nc")
    for group in pool.by_role():
        for name, variant in variants.items():
            moved = (_steps(pool, variant) != usual)[group.keep]
            yield Cell((name,), "choices_changed", float(moved.sum()), len(moved), group.role)


def _steps(pool: Pool, rule: Row) -> FloatArray:
    return pool.columns(rule)["step"]
