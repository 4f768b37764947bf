"""Methods × runs → paired tables with intervals; the only reader of held-out results."""

from checkwise.statistics.bootstrap import percentile_interval
from checkwise.study.cohort import Cohort
from checkwise.study.compare import Contrast, Differences
from checkwise.study.compared_method import Method
from checkwise.study.methods import method
from checkwise.study.outcome import Outcome

__all__ = [
    "Cohort",
    "Contrast",
    "Differences",
    "Method",
    "Outcome",
    "method",
    "percentile_interval",
]
