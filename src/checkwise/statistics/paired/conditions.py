"""What has to hold for each statement about paired examples."""

from __future__ import annotations

from typing import Literal

Statement = Literal[
    "mcnemar", "regret", "max-t", "learn-then-test", "paired", "mcs", "certified", "1se"
]

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
_FINITE = "holds at any number of examples, for any distribution"
_ASYMPTOTIC = "holds approximately, for many examples"

_OWN: dict[Statement, tuple[str, ...]] = {
    "mcnemar": (
        "tested: the two checkpoints are equally accurate in every domain",
        _FINITE,
    ),
    "regret": (_FINITE,),
    "max-t": (_ASYMPTOTIC,),
    "learn-then-test": (
        "the examples are split at random, by the seed alone",
        _FINITE,
    ),
    "paired": (
        "promised: every checkpoint that is left out is worse than the best by more than the "
        "tolerance; nothing is promised about those that stay",
        _FINITE,
    ),
    "mcs": (
        "promised: the best checkpoint stays; nothing is promised about the others that stay",
        _ASYMPTOTIC,
    ),
    "certified": (
        "promised: every checkpoint that stays is within the tolerance of the best, except that "
        "the one with the best measured accuracy always stays",
        _FINITE,
    ),
    "1se": ("a rule of thumb: it has no level and promises nothing",),
}


def conditions_of(statement: Statement, *, groups: bool = False) -> tuple[str, ...]:
    """What has to hold for a statement, and what kind of statement it is.

    Args:
        statement: the name of a tolerance or of a test.
        groups: whether independent units are groups of examples.

    Example:
        >>> conditions_of("1se")[-1]
        'a rule of thumb: it has no level and promises nothing'
    """
    shared = (_GROUPS if groups else _EXAMPLES, _WEIGHTS, _CHECKPOINTS)
    extra: tuple[str, ...] = ()
    if groups and statement == "mcnemar":
        extra = ("tested with groups: swapping the two checkpoints in any group changes nothing",)
    return (*shared, *extra, *_OWN[statement])
