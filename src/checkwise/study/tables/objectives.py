"""What each part of AC does: single objectives, controls inside the feasible set, ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.records import RunKey
from checkwise.selection import DELTA_PP, Columns, nondominated, select_many
from checkwise.study import Group, Method, Pool, Row, marked, method
from checkwise.study.tables.means_and_changes import MAIN, Pair, changes, mean_or_nan, means
from checkwise.study.tables.table import Cell, Table, table
from checkwise.study.tables.worst_domain import WHD

SINGLE = ("ac-nll", "ac-cwece", "ac-ece")
CONTROLS = ("ac-mean", "ac-early", "ac-random")
WC = "target_worst_class_accuracy"


def component_source(pool: Pool) -> Table:
    """What the rules do where they look, and secondary target outcomes."""
    measures = (
        "eligible",
        "gap_pp",
        "source_accuracy",
        "source_nll",
        "source_cwece",
        WHD,
        WC,
    )
    return table(
        "component-source",
        "Single objectives and their combination: source side and secondary outcomes",
        ("rule",),
        means(pool, (*SINGLE, "ac-nc"), measures, pool.by_role()),
    )


def component_dataset(pool: Pool) -> Table:
    """The same rules per data set."""
    return table(
        "component-dataset",
        "Single objectives and their combination per data set",
        ("dataset", "rule"),
        means(pool, (*SINGLE, "ac-nc"), ("gap_pp", *MAIN, WHD, WC), pool.groups(["dataset"])),
    )


def component_changes(pool: Pool) -> Table:
    """The joint rule minus each single objective."""
    pairs = [Pair((rule,), "ac-nc", rule) for rule in SINGLE]
    return table(
        "component-changes",
        "ac-nc − a single-objective rule, paired by run",
        ("reference",),
        changes(pool, pairs, ("source_accuracy", *MAIN, WC, WHD), pool.by_role()),
        note="Intervals that contain zero show neither superiority nor equivalence.",
        signed=True,
    )


def controls(pool: Pool) -> Table:
    """Ranking objectives beside choices inside Θ that do not rank."""
    rules = ("source-acc", "ac-ece", "ac-nll", "ac-cwece", "ac-nc", *CONTROLS)
    return table(
        "controls",
        "Ranking rules and controls inside the feasible set",
        ("dataset", "rule"),
        means(pool, rules, ("gap_pp", *MAIN), pool.groups(["dataset"])),
        note="ac-mean is the expectation under a uniform draw from the feasible set, not a model.",
    )


def ranking_value(pool: Pool) -> Table:
    """ac-nc minus choices that do not rank, also where there is something to rank."""
    several = pool.columns("ac-nc")["eligible"] > 1
    groups = [
        Group((name,), group.role, keep)
        for group in pool.by_role()
        for name, keep in (("all", group.keep), ("|Θ| > 1", group.keep & several))
        if keep.any()
    ]
    pairs = [Pair((f"ac-nc − {rule}",), "ac-nc", rule) for rule in ("ac-mean", "pure-nll")]
    return table(
        "ranking-value",
        "ac-nc − the mean of its feasible set, and − unconstrained NLL",
        ("among", "contrast"),
        changes(pool, pairs, MAIN, groups),
        note="ac-mean leaves the best accuracy just as ac-nc does, but without ranking.",
        signed=True,
    )


COMPARED_RULES = ("source-acc", "ac-nll", "ac-cwece", "ac-ece", "ac-nc")
OBJECTIVES = ("nll", "cwece")


@dataclass(frozen=True)
class FeasibleSet:
    """One run's feasible set at δ = 0.5.

    Args:
        size: how many checkpoints.
        nondominated: how many of them no other matches or beats in NLL and CwECE.
        opposed: of exactly two, whether NLL and CwECE rank them in opposite order.
    """

    size: int
    nondominated: int
    opposed: bool


def feasible_sets(pool: Pool) -> dict[RunKey, FeasibleSet]:
    """The feasible set of every run, from source validation."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    sets = {}
    for key, selection in select_many(runs, "ac-nc", guard=False).items():
        feasible = selection.ranking.eligible
        columns = Columns.of(runs[key])
        errors = np.stack([columns[name] for name in OBJECTIVES])
        undominated = int(nondominated(errors, feasible).sum())
        size = int(feasible.sum())
        inside = errors[:, feasible]
        opposed = size == 2 and float(np.prod(inside[:, 0] - inside[:, 1])) < 0
        sets[key] = FeasibleSet(size, undominated, opposed)
    return sets


def composition(pool: Pool) -> Table:
    """Counts of runs by what their feasible set holds."""
    sets = feasible_sets(pool)
    chosen = {rule: pool.columns(rule)["step"] for rule in COMPARED_RULES}
    cells: list[Cell] = []
    for group in _groups(pool):
        of_group = [sets[key] for key in marked(pool.keys, group.keep)]
        many = np.array([s.size > 1 for s in of_group])
        differs = (chosen["ac-nc"] != chosen["source-acc"])[group.keep]
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
        cells += [
            Cell(group.labels, name, float(count), len(of_group), group.role)
            for name, count in counts.items()
        ]
        share = 100 * float(differs[many].mean()) if many.any() else float("nan")
        cells.append(Cell(group.labels, "differs_share", share, int(many.sum()), group.role, 100))
    return table(
        "composition",
        "Feasible sets at δ = 0.5: how many runs hold what",
        ("dataset",),
        cells,
        note="Pairs of opposed order tie under every distance but for η.",
    )


def disagreement(pool: Pool) -> Table:
    """Runs in which two rules choose different checkpoints, among those with a choice."""
    sets = feasible_sets(pool)
    many = np.array([sets[key].size > 1 for key in pool.keys])
    cells = []
    for group in _groups(pool):
        at = group.keep & many
        for first, second in _pairs(COMPARED_RULES):
            apart = pool.columns(first)["step"] != pool.columns(second)["step"]
            row = (*group.labels, f"{first} / {second}")
            count = float(apart[at].sum())
            cells.append(Cell(row, "disagree", count, int(at.sum()), group.role))
    return table(
        "disagreement",
        "Runs in which two rules choose different checkpoints, of those with several feasible",
        ("dataset", "rules"),
        cells,
    )


def _groups(pool: Pool) -> list[Group]:
    everything = [Group(("all",), group.role, group.keep) for group in pool.by_role()]
    return [*pool.groups(["dataset"]), *everything]


def _pairs(rules: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(rules) for b in rules[i + 1 :]]


SOURCE = ("accuracy", "nll", "cwece")
TARGET = ("nll", "cwece")


def plateau(pool: Pool) -> Table:
    """Mean range of each metric inside Θ, per data set and algorithm; CwECE is not scaled."""
    ranges = {key: _ranges(pool, key, feasible) for key, feasible in _feasible(pool).items()}
    cells = []
    for group in pool.groups(["dataset", "algorithm"]):
        of_group = [ranges[key] for key in marked(pool.keys, group.keep)]
        for measure in of_group[0]:
            values = np.array([of_run[measure] for of_run in of_group])
            values = values[np.isfinite(values)]
            value = mean_or_nan(values)
            factor = 100 if measure == "range_source_accuracy" else 1
            cells.append(
                Cell(group.labels, measure, factor * value, len(values), group.role, factor)
            )
    return table(
        "plateau",
        "Ranges inside the feasible set at δ = 0.5, means over runs",
        ("dataset", "algorithm"),
        cells,
        note="Accuracy in points; NLL and CwECE as they are (CwECE on the 0–1 scale).",
    )


def _feasible(pool: Pool) -> dict[RunKey, NDArray[np.bool_]]:
    runs = {key: pool.trajectory(key) for key in pool.keys}
    return {key: s.ranking.eligible for key, s in select_many(runs, "ac-nc", guard=False).items()}


def _ranges(pool: Pool, key: RunKey, feasible: NDArray[np.bool_]) -> dict[str, float]:
    columns = Columns.of(pool.trajectory(key))
    target = pool.target(key)
    return {
        "eligible": float(feasible.sum()),
        **{f"range_source_{m}": float(np.ptp(columns[m][feasible])) for m in SOURCE},
        **{f"range_target_{m}": float(np.ptp(target[m][feasible])) for m in TARGET},
    }


SETS = ("nc", "ne", "nec")
NORMS: tuple[tuple[str, Any], ...] = (("D1", 1), ("D2", 2), ("D∞", np.inf))
SEED_OBJECTIVES = 20260924


def objectives(pool: Pool) -> Table:
    """All nine combinations of objective set and distance."""
    pairs = [
        Pair((name.upper(), norm), method(f"ac-{name}", q=q), "source-acc")
        for name in SETS
        for norm, q in NORMS
    ]
    return table(
        "objectives",
        "Objective sets and distances − source-acc, paired by run",
        ("objectives", "distance"),
        changes(pool, pairs, ("source_accuracy", *MAIN, WHD), pool.by_role()),
        signed=True,
    )


def distances(pool: Pool) -> Table:
    """D∞ minus D1 and D2 for the reference objectives."""
    infinite = method("ac-nc", q=np.inf)
    pairs = [Pair((f"D∞ − {norm}",), infinite, method("ac-nc", q=q)) for norm, q in NORMS[:2]]
    cells = [
        *changes(pool, pairs, MAIN, pool.by_role()),
        *(cell for pair in pairs for cell in _same(pool, pair)),
    ]
    return table(
        "distances",
        "Distances of NC compared directly, paired by run",
        ("contrast",),
        cells,
        signed=True,
    )


def objective_changes(pool: Pool) -> Table:
    """NEC minus NC at D∞."""
    pair = Pair(("NEC − NC",), "ac-nec", "ac-nc")
    cells = [
        *changes(pool, [pair], MAIN, pool.by_role(), seed=SEED_OBJECTIVES),
        *_same(pool, pair),
    ]
    return table(
        "objective-changes",
        "NEC − NC at D∞, paired by run",
        ("contrast",),
        cells,
        note="Single runs can carry a mean NLL: see the median, the trimmed mean and `influence`.",
        signed=True,
    )


def _same(pool: Pool, pair: Pair) -> list[Cell]:
    """In how many runs both choose the same checkpoint."""
    first, second = (pool.columns(rule)["step"] for rule in (pair.rule, pair.reference))
    return [
        Cell(
            pair.row,
            "same_checkpoint",
            float((first == second)[group.keep].sum()),
            int(group.keep.sum()),
            group.role,
        )
        for group in pool.by_role()
    ]


RULES = ("source-acc", "pure-ece", "pure-cwece", "pure-nll")


def pure(pool: Pool) -> Table:
    """Means, the mean step, and how often the untrained network wins."""
    groups = pool.groups(["dataset"])
    cells = list(means(pool, RULES, ("source_accuracy", *MAIN, "step"), groups))
    for group in groups:
        for rule in RULES:
            steps = pool.columns(rule)["step"][group.keep]
            share = 100 * float(np.mean(steps == 0)) if len(steps) else float("nan")
            row = (*group.labels, rule)
            cells.append(Cell(row, "step_0_share", share, len(steps), group.role, 100))
    return table(
        "pure",
        "Unconstrained selection: smallest error over the whole run",
        ("dataset", "rule"),
        cells,
        note="Uniform predictions are perfectly calibrated, so step 0 can win on ECE and CwECE.",
    )


VARIANTS: tuple[tuple[str, Method], ...] = (
    ("η = 0", method("ac-nc", eta=0.0)),
    ("Pareto filter", method("ac-nc", pareto=True)),
    ("hard-bin CwECE", method("ac", objectives=("nll", "hard_cwece"))),
    ("Brier score for NLL", method("ac", objectives=("brier", "cwece"))),
)


def sensitivity(pool: Pool) -> Table:
    """Variants of ac-nc − ac-nc, and in how many runs the choice changes."""
    carried = pool.trajectory(pool.keys[0]).metrics
    variants = [
        (name, variant)
        for name, variant in VARIANTS
        if set(variant.params.get("objectives", ())) <= set(carried)
    ]
    pairs = [Pair((name,), variant, "ac-nc") for name, variant in variants]
    cells = list(changes(pool, pairs, MAIN, pool.by_role()))
    usual = pool.columns("ac-nc")["step"]
    for group in pool.by_role():
        for name, variant in variants:
            moved = (pool.columns(variant)["step"] != usual)[group.keep]
            count = float(moved.sum())
            cells.append(Cell((name,), "choices_changed", count, len(moved), group.role))
    return table(
        "sensitivity",
        "Variants of ac-nc − ac-nc, paired by run",
        ("variant",),
        cells,
        note="With two feasible checkpoints of opposed order, η decides by the raw ranges.",
        signed=True,
    )


USUAL = str(DELTA_PP)
DELTAS = ("0.1", USUAL, "1.0")
SEED_TOLERANCE = 20260924
_LEVELS = ("eligible", "gap_pp", *MAIN)


def at_tolerance(delta: str) -> Method:
    """ac-nc with this tolerance."""
    return method("ac-nc", delta_pp=delta).called(f"δ = {delta}")


def tolerance(pool: Pool) -> Table:
    """Levels at every tolerance."""
    rules: list[Row] = ["source-acc", *(at_tolerance(delta) for delta in DELTAS)]
    return table(
        "tolerance",
        "ac-nc at several tolerances, means over runs",
        ("rule",),
        means(pool, rules, _LEVELS, pool.by_role()),
    )


def tolerance_dataset(pool: Pool) -> Table:
    """The same per data set."""
    return table(
        "tolerance-dataset",
        "ac-nc at several tolerances per data set",
        ("dataset", "rule"),
        means(pool, [at_tolerance(delta) for delta in DELTAS], _LEVELS, pool.groups(["dataset"])),
    )


def tolerance_changes(pool: Pool) -> Table:
    """Each tolerance minus the default one."""
    pairs = [
        Pair((f"δ = {delta} − δ = {USUAL}",), at_tolerance(delta), at_tolerance(USUAL))
        for delta in DELTAS
        if delta != USUAL
    ]
    return table(
        "tolerance-changes",
        f"Tolerances compared with {USUAL} points, paired by run",
        ("contrast",),
        changes(pool, pairs, ("source_accuracy", *MAIN), pool.by_role(), seed=SEED_TOLERANCE),
        note="δ changes the feasible set and the scale on which objectives are compared.",
        signed=True,
    )
