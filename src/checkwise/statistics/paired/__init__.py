"""Checkpoints that share their validation examples, compared example by example.

Arrays in, numbers and masks out. Differences are far better known than any accuracy alone: what two
checkpoints get right or wrong together cancels.
"""

from __future__ import annotations

from checkwise.statistics.paired.betting import certified, not_shown_worse, regret
from checkwise.statistics.paired.conditions import conditions_of, meaning_of
from checkwise.statistics.paired.confidence_set import confidence_set, quick_confidence_set
from checkwise.statistics.paired.exact import mcnemar
from checkwise.statistics.paired.halves import learn_then_test
from checkwise.statistics.paired.resample import Resample
from checkwise.statistics.paired.sample import Stratified, within_one_se
from checkwise.statistics.paired.simultaneous import max_t

__all__ = [
    "Resample",
    "Stratified",
    "certified",
    "conditions_of",
    "confidence_set",
    "learn_then_test",
    "max_t",
    "mcnemar",
    "meaning_of",
    "not_shown_worse",
    "quick_confidence_set",
    "regret",
    "within_one_se",
]
