"""The argument ``average_within_pp`` of the trainers' callbacks: keep what an average is made of.

Every callback takes it, adds ``keeping`` to what stays, and calls ``say_members`` when training
ends. ``checkwise deploy FOLDER --average …`` then finds the weights of every member.
"""

from __future__ import annotations

import shlex
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from checkwise.calibrators.registry import DEFAULT
from checkwise.selection.live import LiveSelection
from checkwise.selection.members import MEMBERS_DELTA_PP
from checkwise.selection.standing import Points, tolerance
from checkwise.store.retention import KeepMembers, Policy
from checkwise.text import counted, listed


def keeping(keep: Policy, average_within_pp: Points | None) -> Policy:
    """What a callback keeps, and the members of an average if there is to be one."""
    return keep if average_within_pp is None else keep | KeepMembers(average_within_pp)


def say_members(
    live: LiveSelection,
    average_within_pp: Points | None,
    folder: Path,
    *,
    calibrator: str | None = None,
    of_keras: bool = False,
) -> None:
    """Say at the end of a training which checkpoints are averaged, and how to deploy that."""
    if average_within_pp is None:
        return
    how: dict[str, Any] = {"calibrator": calibrator, "of_keras": of_keras}
    if sentence := described(live, average_within_pp, folder, **how):
        print(sentence, file=sys.stderr)


def described(
    live: LiveSelection,
    within_pp: Points,
    folder: Path,
    *,
    calibrator: str | None = None,
    of_keras: bool = False,
) -> str:
    """The members of the average, and what makes it; "" if there are none.

    ``deploy`` reads weights of PyTorch alone, so for Keras it is a function. ``deploy`` fits the
    calibrator to the average's own logits: that of one checkpoint would not do for it.
    """
    steps = live.members(delta_pp=within_pp)
    if not steps:
        return ""
    named = (
        f"checkwise: {counted(len(steps), 'checkpoint')} for an average: "
        f"{'step' if len(steps) == 1 else 'steps'} {listed([str(step) for step in steps])}."
    )
    if of_keras:
        call = f"load_chosen({str(folder)!r}, average_within_pp={_text(within_pp)})"
        return f"{named} Load it with checkwise.integrations.keras.{call}."
    other = "" if calibrator in (None, DEFAULT) else f" --calibrator {calibrator}"
    usual = tolerance(within_pp) == tolerance(MEMBERS_DELTA_PP)
    within = "" if usual else f" --within-pp {_text(within_pp)}"
    place = shlex.quote(str(folder))
    command = f"checkwise deploy {place} --average all{within}{other} -o MODEL"
    return f"{named} Deploy it with `{command}`, or with `--average weights`."


def _text(within_pp: Points) -> str:
    """The tolerance as it was written."""
    exact = isinstance(within_pp, str | Decimal | Fraction)
    return str(within_pp) if exact else repr(within_pp)
