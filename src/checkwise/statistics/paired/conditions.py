"""What statements about paired examples say, and what has to hold for them."""

from __future__ import annotations

from typing import Literal

Statement = Literal["regret", "paired"]

_EXAMPLES = (
    "validation examples are independent draws from their domain, and domains are independent"
)
_GROUPS = (
    "groups of validation examples are independent of each other, and domains are independent; the "
    "statement is about accuracy on new groups of the same sizes"
)
_WEIGHTS = "domain weights were fixed before looking at the validation results"
_CHECKPOINTS = (
    "the checkpoints do not depend on the validation examples (tuning on them, or feedback that "
    "changes training, voids it; stopping early within the planned number of records does not)"
)
_FINITE = "It holds at any number of examples, for any distribution."
_MEANING: dict[Statement, str] = {
    "regret": "No checkpoint is further below the best one than its bound. " + _FINITE,
    "paired": "Every checkpoint that is left out is worse than the best by more than the "
    "tolerance; nothing is promised about those that stay. " + _FINITE,
}


def conditions_of(*, groups: bool = False) -> tuple[str, ...]:
    """What has to hold, where independent units are examples or ``groups`` of them.

    Example:
        >>> conditions_of()[1]
        'domain weights were fixed before looking at the validation results'
    """
    return (_GROUPS if groups else _EXAMPLES, _WEIGHTS, _CHECKPOINTS)


def meaning_of(statement: Statement) -> str:
    """What a statement promises.

    Example:
        >>> meaning_of("regret").split(". ")[0]
        'No checkpoint is further below the best one than its bound'
    """
    return _MEANING[statement]
