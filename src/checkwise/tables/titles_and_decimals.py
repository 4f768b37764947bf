"""Numbers of a table and the heads of their columns, as people read them."""

from __future__ import annotations

from math import isnan

from checkwise.metrics import METRICS
from checkwise.tables.table import Cell
from checkwise.text import number

COUNTS = frozenset(
    (
        *("gain", "equal", "lose", "lose_1pp", "runs", "feasible_total", "singletons", "multi"),
        *("differs", "nondominated_one", "nondominated_many", "pairs", "pairs_opposed"),
        *("disagree", "same_checkpoint", "choices_changed", "checkpoints", "valid", "step"),
        *("sign_changes", "nll_above_100", "cells_improved", "cells"),
    )
)
# Behind a measure of changes, which by itself has the interval that leads:
OVER_RUNS = "_over_runs"  # the mean over runs with the percentile interval, as the paper has it
BY_BLOCK = "_by_block"  # over blocks of seeds
BY_DOMAIN = "_by_domain"  # over held-out domains, each counting once
NEW_PLACE = "_new_place"  # and where it is expected at one new place
BESIDE = {
    OVER_RUNS: "over runs",
    BY_BLOCK: "by block",
    BY_DOMAIN: "by held-out domain",
    NEW_PLACE: "at a new place",
}
TITLES = {
    "gap_pp": "Gap (pp)",
    "eligible": "Eligible",
    "whd": "WHD",
    "whd_cells": "WHD (cells resampled)",
    "step": "Mean step",
    "step_0_share": "At step 0 (%)",
    "lose_1pp": "Lose ≥ 1 point",
    "lose_1pp_share": "Lose ≥ 1 point (%)",
    "percentile_5": "5th percentile",
    "feasible_total": "Feasible checkpoints",
    "differs": "Differ from source-acc",
    "differs_share": "Differ, of multi (%)",
    "nondominated_one": "One nondominated",
    "nondominated_many": "Several nondominated",
    "pairs_opposed": "Opposed pairs",
    "rho": "Spearman ρ",
    "tau": "Kendall τ",
    "rho_given_step": "ρ given the step",
    "rho_by_step": "ρ of earlier first",
    "omega": "Mean ω",
    "kept_share": "Order kept (%)",
    "certain_share": "Certain (%)",
    "detectable": "Detectable change",
    "change_90": "Change [90% interval]",
    "p": "p",
    "p_equivalent": "p, equivalent",
    "p_noninferior": "p, non-inferior",
    "p_holm": "p, Holm",
    "p_max_t": "p, max-t",
    "own_change": "Change in this run",
    "change_without": "Mean without it",
    "moved_errors": "Moved (standard errors)",
    "nll_above_100": "NLL > 100",
    "risk_area": "Area under risk–coverage",
}
_NAMES = {
    "accuracy": "acc.",
    "nll": "NLL",
    "ece": "ECE",
    "cwece": "CwECE",
    "brier": "Brier",
    "hard_ece": "hard ECE",
    "hard_cwece": "hard CwECE",
    "worst_class_accuracy": "WC",
}
_DECIMALS = {"eligible": 2, "whd": 2, "whd_cells": 2}
_UNSIGNED = ("p", "p_holm", "p_max_t", "p_equivalent", "p_noninferior", "detectable", "eligible")


def shown(cell: Cell, *, signed: bool = False) -> str:
    """A number with its interval."""
    text = _number(cell.measure, cell.value, signed=signed)
    if isnan(cell.low):
        return text
    return f"{text} [{_number(cell.measure, cell.low)}, {_number(cell.measure, cell.high)}]"


def _number(measure: str, value: float, *, signed: bool = False) -> str:
    if is_count(measure):
        return number(value, 0)
    return number(value, _places(measure), signed=signed and measure not in _UNSIGNED)


def is_count(measure: str) -> bool:
    """Whether a measure is a number of things."""
    is_step = measure.startswith("step_") and not measure.endswith("_share")
    return measure in COUNTS or is_step or measure.startswith("improved_")


def _places(measure: str) -> int:
    measure, _ = base_and_ending(measure)
    if measure.endswith("_share"):
        return 1
    if measure.startswith("tau_"):
        return 3
    if measure.startswith(("range_", "p_")) or measure in ("p", "gap_pp") or "nll" in measure:
        return 4  # one more than in sentences, as the paper prints them
    known = METRICS.get(measure) or METRICS.get(measure.partition("_")[2])
    if known is not None:
        return known.decimals
    return _DECIMALS.get(measure, _DECIMALS.get(measure.partition("_")[2], 3))


def base_and_ending(measure: str) -> tuple[str, str]:
    """A measure without what says how its interval counts, and that.

    Example:
        >>> base_and_ending("target_nll_over_runs"), base_and_ending("target_nll")
        (('target_nll', '_over_runs'), ('target_nll', ''))
    """
    end = next((end for end in BESIDE if measure.endswith(end)), "")
    return measure.removesuffix(end), end


def title(measure: str) -> str:
    """A measure as a column head."""
    if measure in TITLES:
        return TITLES[measure]
    for end, words in (
        ("_median", " median"),
        ("_trimmed", " 5%-trimmed"),
        *((end, f" {words}") for end, words in BESIDE.items()),
    ):
        if measure.endswith(end):
            return title(measure.removesuffix(end)) + words
    for start, words in (
        ("range_source_", "Source range of "),
        ("range_target_", "Target range of "),
        ("source_", "Source "),
        ("target_", "Target "),
        ("regret_", "Regret in "),
        ("tau_", "τ_b of "),
        ("improved_", "Cells improved in "),
    ):
        if measure.startswith(start):
            name = measure.removeprefix(start)
            return words + _NAMES.get(name, name)
    if measure.startswith("step_"):
        return f"Mean step, {measure.removeprefix('step_').replace('_', '-')}"
    if measure.startswith("risk_"):
        return f"Error at {measure.removeprefix('risk_')}% coverage (%)"
    return measure.replace("_", " ").capitalize()
