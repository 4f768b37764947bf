"""The validation sets of a run: held-out examples, held-out groups, or both along one training.

The first is the run's own: ``domains`` in the lines of ``source.jsonl``, ``predictions/source``. A
run with two has the results on whole groups beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from checkwise.errors import InputError

SplitBy: TypeAlias = Literal["examples", "groups", "both"]
SPLIT_BY: Final[tuple[SplitBy, ...]] = get_args(SplitBy)
Validation: TypeAlias = Literal["examples", "groups"]
VALIDATIONS: Final[tuple[Validation, ...]] = get_args(Validation)

OWN: Final = "domains"  # where lines of source.jsonl have the run's own validation set
GROUPS: Final = "groups"  # where they have the other one


def check_validation(name: str | None) -> Validation | None:
    """Refuse any other word; None is the run's own validation set."""
    if name is not None and name not in VALIDATIONS:
        raise InputError(
            f"Expected a validation among {', '.join(VALIDATIONS)}, but got {name!r}: choose one.",
            code="unknown",
        )
    return name


def is_second(config: Mapping[str, Any], validation: Validation | None, where: object) -> bool:
    """Whether a validation set is the second one of a run with this configuration.

    Raises:
        InputError: the run does not have it.
    """
    split_by = config.get("split_by", "examples")
    if validation is None or validation == split_by:
        return False
    if split_by == "both":
        return validation == "groups"
    have = "whole groups" if split_by == "groups" else "examples"
    raise InputError(
        f"Expected a run that was validated on {validation}, but {where} held out {have} only: "
        'train it with split_by = "both" (or leave the validation out).',
        code="unsupported",
    )
