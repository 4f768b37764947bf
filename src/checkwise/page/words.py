"""Numbers and differences in words, the same on the command line and on the page."""

from __future__ import annotations

from math import isnan

from checkwise.study import Contrast

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
    return ends(contrast.low, contrast.high, contrast.metric)


def ends(low: float, high: float, metric: str) -> str:
    """An interval with the decimals of its metric."""
    return f"[{number(low, metric)}, {number(high, metric)}]"
