"""Checkpoints that share their validation examples, compared example by example.

Arrays in, numbers and masks out. Differences are far better known than any accuracy alone: what two
checkpoints get right or wrong together cancels.
"""

from __future__ import annotations

from checkwise.statistics.paired.betting import not_shown_worse, regret
from checkwise.statistics.paired.conditions import conditions_of, meaning_of
from checkwise.statistics.paired.resample import Resample
from checkwise.statistics.paired.sample import Stratified

__all__ = [
    "Resample",
    "Stratified",
    "conditions_of",
    "meaning_of",
    "not_shown_worse",
    "regret",
]
