"""Arrays in, numbers out: one compiled pass gives every metric of a set of predictions.

Importing this package imports neither numba nor torch; the kernels load on first use.

Example:
    >>> from checkwise import metrics
    >>> report = metrics.evaluate(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[0, 1])
    >>> report.accuracy, report.brier
    (0.5, 0.3125)
"""

from checkwise.metrics.accumulate import Accumulator
from checkwise.metrics.arrays import to_numpy
from checkwise.metrics.examples import PerExample, per_example
from checkwise.metrics.functions import (
    accuracy,
    brier,
    cwece,
    ece,
    evaluate,
    hard_cwece,
    hard_ece,
    nll,
    worst_class_accuracy,
)
from checkwise.metrics.on_demand import debiased_cwece, debiased_ece, smece
from checkwise.metrics.registry import (
    METRICS,
    Metric,
    evaluate_registered,
    get_metric,
    is_metric,
    metric,
)
from checkwise.metrics.report import Report

__all__ = [
    "METRICS",
    "Accumulator",
    "Metric",
    "PerExample",
    "Report",
    "accuracy",
    "brier",
    "cwece",
    "debiased_cwece",
    "debiased_ece",
    "ece",
    "evaluate",
    "evaluate_registered",
    "get_metric",
    "hard_cwece",
    "hard_ece",
    "is_metric",
    "metric",
    "nll",
    "per_example",
    "smece",
    "to_numpy",
    "worst_class_accuracy",
]
