"""The contracts that every rule and metric keeps, also for users' own."""

from checkwise.testing.metrics import check_metric
from checkwise.testing.rules import check_rule

__all__ = ["check_metric", "check_rule"]
