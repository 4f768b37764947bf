"""What each statement about paired examples says, and what has to hold for it."""

from __future__ import annotations

from typing import Literal

Statement = Literal["mcnemar", "regret", "max-t", "learn-then-test", "paired"]

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
_MANY = "there are many independent examples or groups in every domain: it holds approximately"
_FINITE = "It holds at any number of examples, for any distribution."
_APPROXIMATE = "It holds approximately, for many examples."

_ALSO: dict[Statement, tuple[str, ...]] = {
    "max-t": (_MANY,),
    "learn-then-test": ("the examples were split at random, by the seed alone",),
}
_MEANING: dict[Statement, str] = {
    "mcnemar": "The two checkpoints are not equally accurate in every domain. " + _FINITE,
    "regret": "No checkpoint is further below the best one than its bound. " + _FINITE,
    "max-t": "All differences are inside their intervals. " + _APPROXIMATE,
    "learn-then-test": "Every checkpoint shown is within the tolerance of the best. " + _FINITE,
    "paired": "Every checkpoint that is left out is worse than the best by more than the "
    "tolerance; nothing is promised about those that stay. " + _FINITE,
}


def conditions_of(statement: Statement, *, groups: bool = False) -> tuple[str, ...]:
    """What has to hold for a statement.

    Args:
        statement: the name of a tolerance or of a test.
        groups: whether independent units are groups of examples.

    Example:
        >>> conditions_of("regret")[1]
        'domain weights were fixed before looking at the validation results'
    """
    shared = (_GROUPS if groups else _EXAMPLES, _WEIGHTS, _CHECKPOINTS)
    return (*shared, *_ALSO.get(statement, ()))


def meaning_of(statement: Statement, *, groups: bool = False) -> str:
    """What a statement promises, and whether it needs many examples.

    Example:
        >>> meaning_of("max-t")
        'All differences are inside their intervals. It holds approximately, for many examples.'
    """
    if groups and statement == "mcnemar":
        return "Swapping the two checkpoints in some group would change something. " + _FINITE
    return _MEANING[statement]
