"""Arguments that every callback takes: wrong kinds are refused before any training."""

from __future__ import annotations

from typing import Any

from checkwise.errors import InputError
from checkwise.store.retention import Policy
from checkwise.text import shown


def check_keep(keep: Any) -> None:
    """Refuse what is no policy of retention."""
    if keep is not None and not isinstance(keep, Policy):
        raise InputError(
            f"Expected a policy as keep, as KeepLast(2), but got {shown(keep)}: policies are in "
            "checkwise.store.retention."
        )


def check_tracker(tracker: Any) -> None:
    """Refuse what cannot log a selection; also a class in place of an object."""
    if tracker is not None and (
        isinstance(tracker, type) or not callable(getattr(tracker, "log", None))
    ):
        raise InputError(
            f"Expected a tracker as MlflowLog(run_id), but got {shown(tracker)}: trackers are in "
            "checkwise.integrations."
        )


def check_log(log: Any) -> None:
    """Refuse what is no amount of logging."""
    if log not in ("main", "all"):
        raise InputError(f'Expected "main" or "all" as log, but got {shown(log)}.')


def check_function(function: Any, name: str, form: str) -> None:
    """Refuse what cannot be called."""
    if function is not None and not callable(function):
        raise InputError(
            f"Expected a function as {name}, as {form}, but got {shown(function)}: pass one, or "
            "leave it out."
        )


def check_text(text: Any, name: str, example: str) -> None:
    """Refuse what is not a text with something in it."""
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InputError(f"Expected a text as {name}, as {example!r}, but got {shown(text)}.")


def check_flag(flag: Any, name: str) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(flag, bool):
        raise InputError(f"Expected True or False as {name}, but got {shown(flag)}.")
