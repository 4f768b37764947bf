"""Rules × runs → paired tables with intervals; the only reader of held-out results."""

from checkwise.statistics.bootstrap import percentile_interval
from checkwise.study.cohort import Cohort
from checkwise.study.outcome import Outcome
from checkwise.study.paired import Contrast, Differences
from checkwise.study.setting import Setting

__all__ = [
    "Cohort",
    "Contrast",
    "Differences",
    "Outcome",
    "Setting",
    "percentile_interval",
]
