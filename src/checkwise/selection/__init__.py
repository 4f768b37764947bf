"""Trajectory in, Selection out. Nothing here knows torch, files or held-out results."""

from checkwise.selection import built_in_rules as built_in_rules
from checkwise.selection.choice import Choice
from checkwise.selection.columns import Columns
from checkwise.selection.default_rule import DEFAULT_RULE, usable_rules
from checkwise.selection.guarantees import Guarantee, source_accuracy_radius, worst_domain_radius
from checkwise.selection.live import LiveSelection
from checkwise.selection.members import members
from checkwise.selection.result import Selection
from checkwise.selection.rules import Rule, get_rule, is_rule, rule, rules
from checkwise.selection.select import select, select_many
from checkwise.selection.stability import Stability
from checkwise.selection.valley import LossValley, loss_valley

__all__ = [
    "DEFAULT_RULE",
    "Choice",
    "Columns",
    "Guarantee",
    "LiveSelection",
    "LossValley",
    "Rule",
    "Selection",
    "Stability",
    "get_rule",
    "is_rule",
    "loss_valley",
    "members",
    "rule",
    "rules",
    "select",
    "select_many",
    "source_accuracy_radius",
    "usable_rules",
    "worst_domain_radius",
]
