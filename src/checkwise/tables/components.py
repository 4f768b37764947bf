"""What each part of AC does: single objectives, controls inside the feasible set, ranking."""

from __future__ import annotations

from checkwise.study.pool import Group, Pool
from checkwise.tables.means_and_changes import MAIN, Pair, changes, means
from checkwise.tables.table import Table, table
from checkwise.tables.worst_domain import WHD

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
