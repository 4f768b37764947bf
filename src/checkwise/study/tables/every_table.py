"""Every table of a study: rows × contrasts × measures, declared; and what stands below each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, isnan
from typing import Any

import numpy as np

from checkwise.errors import InputError, MissingMetricError
from checkwise.selection import DELTA_PP
from checkwise.store import read_run
from checkwise.study import Cohort, Group, Method, Pool, method
from checkwise.study.tables import (
    feasible_sets,
    from_logits,
    other_methods,
    rank_agreement,
    robustness,
    training,
)
from checkwise.study.tables.cells import MAIN, WHD, Pairs, changes, means
from checkwise.study.tables.table import Cell, Declared, Table
from checkwise.study.tables.typeset import OVER_RUNS

PAPER = "paper"
EQUIVALENCE = "equivalence"
PENALISED = ("IRM", "VREx")
SINGLE = ("ac-nll", "ac-cwece", "ac-ece")
NORMS: dict[str, Any] = {"D1": 1, "D2": 2, "D∞": inf}
USUAL = str(DELTA_PP)
SEED_CONTRASTS = 20260924  # of the contrasts between objectives, and between tolerances

GAPS = ("gap_pp", *MAIN)
SIZES = ("eligible", *GAPS)
BOTH_SIDES = ("source_accuracy", *MAIN)
WC = "target_worst_class_accuracy"

PRESERVED = "An accuracy interval that contains zero does not show that accuracy is preserved."
CLUSTERS = (
    "A place or domain: runs with the same held-out domain. A block: runs with the same seeds. "
    "Blocks × domains: both at once, with the degrees of freedom of the fewer."
)

OF_SINGLE: Pairs = {(rule,): ("ac-nc", rule) for rule in SINGLE}
OF_OBJECTIVES: Pairs = {
    (name.upper(), norm): (method(f"ac-{name}", q=q), "source-acc")
    for name in ("nc", "ne", "nec")
    for norm, q in NORMS.items()
}
OF_NORMS: Pairs = {
    (f"D∞ − {norm}",): (method("ac-nc", q=inf), method("ac-nc", q=NORMS[norm]))
    for norm in ("D1", "D2")
}
OF_THIRD: Pairs = {("NEC − NC",): ("ac-nec", "ac-nc")}
OF_RANKING: Pairs = {(f"ac-nc − {rule}",): ("ac-nc", rule) for rule in ("ac-mean", "pure-nll")}
AT_TOLERANCE = {
    delta: method("ac-nc", delta_pp=delta).called(f"δ = {delta}") for delta in ("0.1", USUAL, "1.0")
}
OF_TOLERANCES: Pairs = {
    (f"δ = {delta} − δ = {USUAL}",): (at, AT_TOLERANCE[USUAL])
    for delta, at in AT_TOLERANCE.items()
    if delta != USUAL
}
OF_SCALED: Pairs = {
    (f"(ac-nc − source-acc) after {what}",): (f"ac-nc+{suffix}", f"source-acc+{suffix}")
    for suffix, what in (("ts", "scaling"), ("ts-oracle", "oracle scaling (not deployable)"))
}


def _about(pool: Pool) -> Pairs:
    return {(): (pool.rule, pool.reference)}


def _by_data(pool: Pool) -> list[Group]:
    return pool.groups(["dataset"])


def _for_a_paper(pool: Pool) -> Iterator[Cell]:
    """Rules and metrics, with the one interval that leads: over runs where groups are too few."""
    rules: list[Method] = [pool.rule, *pool.others]
    pairs: Pairs = {(rule.label,): (rule, pool.reference) for rule in rules}
    cells = list(changes(pool, pairs, MAIN, pool.by_role()))
    over_runs = {(c.row, c.role, c.measure): c for c in cells if c.measure.endswith(OVER_RUNS)}
    for cell in cells:
        if cell.measure in MAIN:
            spare = over_runs.get((cell.row, cell.role, cell.measure + OVER_RUNS))
            usable = isnan(cell.low) and spare is not None
            yield replace(spare, measure=cell.measure) if usable and spare else cell


def _with_penalties(pool: Pool) -> list[Group]:
    plain = np.array([key.algorithm not in PENALISED for key in pool.keys])
    return pool.among({"all algorithms": plain | ~plain, "without IRM and VREx": plain})


def _with_a_choice(pool: Pool) -> list[Group]:
    several = pool.columns("ac-nc")["eligible"] > 1
    return pool.among({"all": several | ~several, "|Θ| > 1": several})


_DECLARED = (
    Declared(
        PAPER,
        "Change of target results against {pool.reference.label}, paired by run",
        ("rule",),
        _for_a_paper,
        PRESERVED,
        signed=True,
    ),
    Declared(
        "main",
        "Target results of {pool.rule.label} and {pool.reference.label}, means over runs",
        ("dataset", "rule"),
        lambda pool: means(pool, (pool.reference, pool.rule), GAPS, _by_data(pool)),
    ),
    Declared(
        "main-changes",
        "{pool.contrast}, paired by run",
        (),
        lambda pool: changes(pool, _about(pool), (*GAPS, WHD), pool.by_role()),
        PRESERVED,
        signed=True,
    ),
    Declared(
        "by-algorithm",
        "{pool.contrast} per data set and algorithm",
        ("dataset", "algorithm"),
        lambda pool: changes(
            pool, _about(pool), (*GAPS, WHD), pool.groups(["dataset", "algorithm"])
        ),
        signed=True,
    ),
    Declared(
        "without-penalties",
        "{pool.contrast} with and without IRM and VREx",
        ("among",),
        lambda pool: changes(pool, _about(pool), GAPS, _with_penalties(pool)),
        "Penalties of the default range can wreck a head; such runs are kept in every table.",
        signed=True,
    ),
    Declared(
        "losses",
        "Runs that gain or lose target accuracy, in points of accuracy",
        ("dataset", "contrast"),
        feasible_sets.losses,
        "The tolerance bounds the loss of source accuracy, not of target accuracy.",
    ),
    Declared(
        "component-source",
        "Single objectives and their combination: source side and secondary outcomes",
        ("rule",),
        lambda pool: means(
            pool,
            (*SINGLE, "ac-nc"),
            ("eligible", "gap_pp", "source_accuracy", "source_nll", "source_cwece", WHD, WC),
            pool.by_role(),
        ),
    ),
    Declared(
        "component-dataset",
        "Single objectives and their combination per data set",
        ("dataset", "rule"),
        lambda pool: means(pool, (*SINGLE, "ac-nc"), (*GAPS, WHD, WC), _by_data(pool)),
    ),
    Declared(
        "component-changes",
        "ac-nc − a single-objective rule, paired by run",
        ("reference",),
        lambda pool: changes(pool, OF_SINGLE, (*BOTH_SIDES, WC, WHD), pool.by_role()),
        "Intervals that contain zero show neither superiority nor equivalence.",
        signed=True,
    ),
    Declared(
        "controls",
        "Ranking rules and controls inside the feasible set",
        ("dataset", "rule"),
        lambda pool: means(
            pool,
            (
                *("source-acc", "ac-ece", "ac-nll", "ac-cwece", "ac-nc"),
                *("ac-mean", "ac-early", "ac-random"),
            ),
            GAPS,
            _by_data(pool),
        ),
        "ac-mean is the expectation under a uniform draw from the feasible set, not a model.",
    ),
    Declared(
        "objectives",
        "Objective sets and distances − source-acc, paired by run",
        ("objectives", "distance"),
        lambda pool: changes(pool, OF_OBJECTIVES, (*BOTH_SIDES, WHD), pool.by_role()),
        signed=True,
    ),
    Declared(
        "distances",
        "Distances of NC compared directly, paired by run",
        ("contrast",),
        lambda pool: (
            *changes(pool, OF_NORMS, MAIN, pool.by_role()),
            *feasible_sets.same_choices(pool, OF_NORMS),
        ),
        signed=True,
    ),
    Declared(
        "objective-changes",
        "NEC − NC at D∞, paired by run",
        ("contrast",),
        lambda pool: (
            *changes(pool, OF_THIRD, MAIN, pool.by_role(), seed=SEED_CONTRASTS),
            *feasible_sets.same_choices(pool, OF_THIRD),
        ),
        "Single runs can carry a mean NLL: see the median, the trimmed mean and `influence`.",
        signed=True,
    ),
    Declared(
        "tolerance",
        "ac-nc at several tolerances, means over runs",
        ("rule",),
        lambda pool: means(pool, ["source-acc", *AT_TOLERANCE.values()], SIZES, pool.by_role()),
    ),
    Declared(
        "tolerance-dataset",
        "ac-nc at several tolerances per data set",
        ("dataset", "rule"),
        lambda pool: means(pool, list(AT_TOLERANCE.values()), SIZES, _by_data(pool)),
    ),
    Declared(
        "tolerance-changes",
        f"Tolerances compared with {USUAL} points, paired by run",
        ("contrast",),
        lambda pool: changes(pool, OF_TOLERANCES, BOTH_SIDES, pool.by_role(), seed=SEED_CONTRASTS),
        "δ changes the feasible set and the scale on which objectives are compared.",
        signed=True,
    ),
    Declared(
        "composition",
        "Feasible sets at δ = 0.5: how many runs hold what",
        ("dataset",),
        feasible_sets.composition,
        "Pairs of opposed order tie under every distance but for η.",
    ),
    Declared(
        "disagreement",
        "Runs in which two rules choose different checkpoints, of those with several feasible",
        ("dataset", "rules"),
        feasible_sets.disagreement,
    ),
    Declared(
        "pure",
        "Unconstrained selection: smallest error over the whole run",
        ("dataset", "rule"),
        feasible_sets.pure,
        "Uniform predictions are perfectly calibrated, so step 0 can win on ECE and CwECE.",
    ),
    Declared(
        "plateau",
        "Ranges inside the feasible set at δ = 0.5, means over runs",
        ("dataset", "algorithm"),
        feasible_sets.plateau,
        "Accuracy in points; NLL and CwECE as they are (CwECE on the 0–1 scale).",
    ),
    Declared(
        "rank-correlation",
        "Rank correlation of source and target inside the feasible set at δ = 0.5",
        ("dataset", "source proxy"),
        rank_agreement.rank_correlation,
        "Source accuracy against target accuracy, source utility (−D∞ of NLL and CwECE) against "
        "target utility, or against target NLL; runs with three or more feasible checkpoints and "
        "no constant side. Given the step: with the step number partialled out of both sides, over "
        "runs where neither follows it exactly. Earlier first: the correlation of the target side "
        "with the order of steps alone. Checkpoints are counted over all runs.",
    ),
    Declared(
        "kendall",
        "Kendall's τ_b of source and target over all checkpoints, means over runs",
        ("dataset", "algorithm"),
        rank_agreement.kendall_tau,
        signed=True,
    ),
    Declared(
        "ordering-transfer",
        "Does the source order of two checkpoints hold on the target? Over all checkpoints",
        ("dataset", "metric"),
        rank_agreement.ordering_transfer,
        "ψ is fitted to the target by isotonic regression, so this explains and never selects. A "
        "pair is certain where ψ differs by more than ω, the range of the residuals.",
    ),
    Declared(
        "ranking-value",
        "ac-nc − the mean of its feasible set, and − unconstrained NLL",
        ("among", "contrast"),
        lambda pool: changes(pool, OF_RANKING, MAIN, _with_a_choice(pool)),
        "ac-mean leaves the best accuracy just as ac-nc does, but without ranking.",
        signed=True,
    ),
    Declared(
        "sensitivity",
        "Variants of ac-nc − ac-nc, paired by run",
        ("variant",),
        feasible_sets.sensitivity,
        "With two feasible checkpoints of opposed order, η decides by the raw ranges.",
        signed=True,
    ),
    Declared(
        "regret",
        "Shortfall to the best checkpoint in hindsight (not deployable: it looks at the target)",
        ("dataset", "oracle", "rule"),
        rank_agreement.regrets,
        "pure-nll may lie outside Θ, and then its shortfall to the best in Θ can be negative.",
    ),
    Declared(
        "learning-rate",
        "{pool.contrast} against the learning rate",
        ("dataset", "learning rate"),
        training.learning_rate,
        "A rate that was drawn comes with the weight decay, batch size and split of its draw: a "
        "trend need not be the rate's.",
        signed=True,
    ),
    Declared(
        "length",
        "{pool.contrast} had training stopped after this step (or share of all steps)",
        ("dataset", "until"),
        training.length,
        "With a constant learning rate the first part of a run is what a shorter run would have "
        "been.",
        signed=True,
    ),
    Declared(
        "inference",
        "{pool.contrast} under several assumptions about which runs are independent",
        ("metric", "clusters of", "clusters", "interval"),
        robustness.inference,
        robustness.about_inference,
        signed=True,
    ),
    Declared(
        "multiplicity",
        f"{len(robustness.RULES)} rules − source-acc: p-values corrected for comparing that many",
        ("metric", "rule", "clusters"),
        robustness.multiplicity,
        f"p and Holm: t tests over clusters. {CLUSTERS} max-t: the largest |t| of any rule when "
        "the signs of whole clusters are flipped; that is another test, and its p can be smaller "
        "than the t test's. Of blocks × domains it is the larger p of the two; five domains or "
        "fewer have so few patterns of signs that it is never below 0.06.",
        signed=True,
    ),
    Declared(
        "influence",
        "{pool.contrast} with one run left out: the runs that move the mean most",
        ("metric", "run"),
        robustness.influences,
        "Moved: the mean without the run − the mean of all, in standard errors of the latter. Runs "
        "are notable that move the mean by half a standard error either way or change its sign.",
        signed=True,
    ),
    Declared(
        "swad",
        "Averaging the checkpoints of the loss valley, beside choosing one",
        ("dataset", "rule"),
        other_methods.swad,
        "swad re-estimates BatchNorm statistics; swad-nobn keeps those of its first endpoint.",
    ),
    Declared(
        "temperature",
        "One temperature fitted on source validation after choosing",
        ("rule",),
        other_methods.temperature,
        "Means of data set × algorithm cells; improved: cells that scaling improves.",
    ),
    Declared(
        "temperature-changes",
        "ac-nc − source-acc after temperature scaling, paired by run",
        ("contrast",),
        lambda pool: changes(pool, OF_SCALED, MAIN, pool.by_role()),
        signed=True,
    ),
    Declared(
        "pair",
        "Selection in the style of PAIR, VREx only",
        ("dataset", "algorithm", "rule"),
        lambda pool: means(
            pool,
            ("source-acc", "pair-last10", "pair-valfilter", "ac-nc"),
            (*MAIN, WHD, WC),
            other_methods.penalised_runs(pool),
        ),
        "Not a reproduction of PAIR under its own training.",
    ),
    Declared(
        "lodo",
        "Leave-one-domain-out validation beside source validation",
        ("algorithm", "dataset", "rule"),
        lambda pool: means(
            pool,
            ("source-acc", "ac-nc", "lodo-acc", "ac-lodo"),
            other_methods.HARD,
            other_methods.with_inner_runs(pool),
        ),
        "Hard-bin metrics: never beside the soft-bin ones of other tables.",
    ),
    Declared(
        "lodo-changes",
        "Leave-one-domain-out contrasts",
        ("hyperparameters", "contrast"),
        other_methods.lodo_changes,
        "By block: t intervals over blocks of seeds, each a mean over data set × algorithm cells, "
        "which weigh alike. Where hyperparameters are selected, a block is a trial: three give "
        "wide intervals. By held-out domain: every domain counts once.",
        signed=True,
    ),
    Declared(
        "risk-coverage",
        "Target error rate among the most confident predictions, means over runs",
        ("dataset", "rule"),
        from_logits.risk_coverages,
        "Only runs with saved held-out logits at both choices.",
    ),
    Declared(
        "cross-fit",
        "Θ from one half of the validation examples, ranking from the other, both ways",
        ("contrast",),
        from_logits.cross_fit,
        "Only runs with saved source logits. Θ from half the examples is noisier.",
        signed=True,
    ),
    Declared(
        "binning",
        "ac-nc ranked by NLL and another class-wise calibration error − the reference",
        ("error", "reference"),
        from_logits.binning,
        from_logits.about_binning,
        signed=True,
    ),
)
TABLES: dict[str, Declared] = {table.name: table for table in _DECLARED}
"""What builds each table, by its name."""
# About the rule and reference of the pool; the others are about fixed rules.
ABOUT_THE_RULE = (
    *(PAPER, "main", "main-changes", "by-algorithm", "without-penalties", "losses"),
    *("learning-rate", "length", "inference", "influence", "risk-coverage", EQUIVALENCE),
)
SLOW = ("risk-coverage", "cross-fit", "binning")
"""Tables that are built only when asked for by name: they read saved logits."""


def check_name(name: str, margins: Mapping[str, float] | None = None) -> None:
    """Refuse an unknown name, or a table without the margin it needs."""
    if name == EQUIVALENCE and not margins:
        raise InputError(
            "Expected a margin for the equivalence table, such as target_accuracy=0.5: the "
            "largest difference that would not matter.",
            code="missing",
        )
    if name != EQUIVALENCE and name not in TABLES:
        raise InputError(
            f"Expected one of the tables {', '.join(TABLES)}, but got {name!r}.", code="unknown"
        )


def usual_names(margins: Mapping[str, float] | None = None) -> list[str]:
    """Every table that is not slow; ``equivalence`` among them where there are margins."""
    return [*(name for name in TABLES if name not in SLOW), *([EQUIVALENCE] if margins else [])]


def build(
    name: str,
    cohorts: Cohort | Sequence[Cohort] | Pool,
    *,
    margins: Mapping[str, float] | None = None,
) -> Table:
    """One table by name; ``equivalence`` needs margins (metric → largest harmless difference)."""
    check_name(name, margins)
    pool = Pool.of(cohorts)
    if name == EQUIVALENCE:
        return Declared(
            EQUIVALENCE,
            "Is {pool.contrast} smaller than a margin? Two one-sided t tests",
            ("metric", "margin", "clusters"),
            lambda pool: robustness.equivalences(pool, margins or {}),
            f"The interval is the 90% t interval over clusters. {CLUSTERS}",
            signed=True,
        )(pool)
    built = TABLES[name](pool)
    if not built.cells:
        raise InputError(
            f"Expected what table {name} needs, but these runs have no saved logits: "
            f"{read_run(pool.folder(pool.keys[0])).remedy(heldout=True)}.",
            code="missing",
        )
    return built


def build_all(
    cohorts: Cohort | Sequence[Cohort] | Pool, *, margins: Mapping[str, float] | None = None
) -> Iterator[Table | tuple[str, str]]:
    """Every table that is not slow; a name and a reason for one that cannot be made."""
    pool = Pool.of(cohorts)
    for name in usual_names(margins):
        try:
            yield build(name, pool, margins=margins)
        except (InputError, MissingMetricError) as error:
            yield name, str(error)
