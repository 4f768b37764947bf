"""Numbers and differences in words, the same on the command line and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Literal

from checkwise.study import Contrast
from checkwise.study.paired import higher_is_better

Verdict = Literal["better", "worse", "unclear"]

FEW_GROUPS = 3  # of runs with the same seeds; below, an interval over them says nothing

NAMES = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier": "Brier score",
    "ece": "ECE",
    "cwece": "CwECE",
    "hard_ece": "hard ECE",
    "hard_cwece": "hard CwECE",
    "worst_class_accuracy": "worst-class accuracy",
}
DECIMALS = {"accuracy": 2, "worst_class_accuracy": 2, "pp": 2}
PERCENT = ("accuracy", "worst_class_accuracy", "gap_pp")


def base(metric: str) -> str:
    """``target_nll`` → ``nll``."""
    return metric.partition("_")[2]


def title(metric: str) -> str:
    """``target_nll`` → ``target NLL``."""
    side, _, name = metric.partition("_")
    return "source gap" if metric == "gap_pp" else f"{side} {NAMES.get(name, name)}"


def unit(metric: str, scale: int) -> str:
    """What the reported numbers are in, for a column head."""
    if base(metric) in PERCENT or metric == "gap_pp":
        return "points"
    return "×100" if scale == 100 else ""


def number(value: float, metric: str, *, signed: bool = False) -> str:
    """A value with the decimals of its metric and a real minus sign; never a negative zero."""
    if isnan(value):
        return "–"
    text = f"{abs(value):.{DECIMALS.get(base(metric), 3)}f}"
    if float(text) == 0:
        return text
    sign = "−" if value < 0 else "+" if signed else ""
    return sign + text


def interval(contrast: Contrast) -> str:
    """``[low, high]``, or why there is none."""
    if isnan(contrast.low):
        return "no interval from one run" if contrast.n == 1 else "no runs"
    low, high = (number(end, contrast.metric) for end in (contrast.low, contrast.high))
    return f"[{low}, {high}]"


def verdict(contrast: Contrast) -> Verdict:
    """Whether the whole interval lies on one side of zero."""
    if isnan(contrast.low) or contrast.low <= 0 <= contrast.high:
        return "unclear"
    return "better" if (contrast.mean > 0) == higher_is_better(contrast.metric) else "worse"


def firm_verdict(contrast: Contrast) -> Verdict:
    """The same, only where it also holds with runs of the same seeds as one unit."""
    if contrast.seed_groups >= FEW_GROUPS and contrast.seed_low <= 0 <= contrast.seed_high:
        return "unclear"
    return verdict(contrast)


def runs(count: int) -> str:
    """``1 run``, ``30 runs``."""
    return f"{count} run" if count == 1 else f"{count} runs"


def effect(contrast: Contrast) -> str:
    """One difference as a clause: ``lowered target NLL by 0.021 [0.004, 0.040]``."""
    metric = contrast.metric
    points = " points" if unit(metric, contrast.scale) == "points" else ""
    if firm_verdict(contrast) == "unclear":
        mean = number(contrast.mean, metric, signed=True)
        return f"changed {title(metric)} by {mean}{points} {interval(contrast)}"
    fell = contrast.mean < 0
    ends = (contrast.low, contrast.high) if not fell else (-contrast.high, -contrast.low)
    low, high = (number(end, metric) for end in ends)
    size = number(abs(contrast.mean), metric)
    return f"{'lowered' if fell else 'raised'} {title(metric)} by {size}{points} [{low}, {high}]"


def answer(rows: Sequence[Contrast]) -> str:
    """The main result of one rule: NLL first, then what accuracy did."""
    nll, accuracy = pick(rows, "target_nll"), pick(rows, "target_accuracy")
    return (
        f"Against {nll.reference}, {nll.rule} {effect(nll)} on {runs(nll.n)}"
        f"{_hint(nll)}; it {effect(accuracy)}{_hint(accuracy)}."
    )


def _hint(contrast: Contrast) -> str:
    if isnan(contrast.low) or firm_verdict(contrast) != "unclear":
        return ""
    if verdict(contrast) == "unclear":
        return ", an interval that includes zero"
    return ", which is unclear across seeds"


def headline(rows: Sequence[Contrast]) -> str:
    """The same without numbers, in one line, also when it is bad news."""
    nll, accuracy = pick(rows, "target_nll"), pick(rows, "target_accuracy")
    if nll.n < 2:
        return f"{nll.rule}: too few runs to tell"
    said = {
        ("better", "better"): "lower NLL and higher accuracy",
        ("better", "unclear"): "lower NLL, no clear change in accuracy",
        ("better", "worse"): "lower NLL, but lower accuracy",
        ("unclear", "better"): "higher accuracy, no clear change in NLL",
        ("unclear", "unclear"): "no clear difference in NLL or accuracy",
        ("unclear", "worse"): "lower accuracy, no clear gain in NLL",
        ("worse", "better"): "higher accuracy, but higher NLL",
        ("worse", "unclear"): "higher NLL, no clear change in accuracy",
        ("worse", "worse"): "higher NLL and lower accuracy",
    }[firm_verdict(nll), firm_verdict(accuracy)]
    few = nll.seed_groups and nll.seed_groups < FEW_GROUPS
    return f"{nll.rule}{f' on these {runs(nll.n)}' if few else ''}: {said}"


def across_seeds(rows: Sequence[Contrast]) -> str:
    """What is left with runs of the same seeds as one unit."""
    nll, accuracy = pick(rows, "target_nll"), pick(rows, "target_accuracy")
    groups = nll.seed_groups
    if nll.n < 2:
        return ""
    if groups < FEW_GROUPS:
        return (
            f"These {runs(nll.n)} share {groups} choice{'s' * (groups != 1)} of seeds: too few to "
            "say whether the same would come out with others."
        )
    said = [
        f"{NAMES[base(row.metric)]} {number(row.mean, row.metric, signed=True)} "
        f"[{number(row.seed_low, row.metric)}, {number(row.seed_high, row.metric)}]"
        for row in (nll, accuracy)
    ]
    return (
        "Runs with the same seeds are not independent. With their "
        f"{groups} groups as the unit: {said[0]}, {said[1]} points."
    )


def spread(rows: Sequence[Contrast]) -> str:
    """How the runs divide, and how many pay for it in accuracy."""
    nll, accuracy = pick(rows, "target_nll"), pick(rows, "target_accuracy")
    return (
        f"NLL was lower in {nll.wins}, equal in {nll.ties} and higher in {nll.losses} of "
        f"{runs(nll.n)} (median {number(nll.median, nll.metric, signed=True)}); "
        f"{100 * accuracy.lose_1pp:.0f}% of runs lost at least one point of target accuracy."
    )


def pick(rows: Sequence[Contrast], metric: str) -> Contrast:
    """The contrast of one metric."""
    return next(row for row in rows if row.metric == metric)
