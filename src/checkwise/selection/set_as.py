"""The settings with which something was chosen: which are not usual, as JSON and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.selection.choice import USUAL, plain
from checkwise.selection.rules import get_rule
from checkwise.selection.tolerances import FIXED
from checkwise.text import printable

AS_SET: Final = "as the callback was set"
_SHOWN_ALWAYS: Final = ("delta_pp", "delta")


def not_usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are no defaults, and the tolerance, as JSON has them."""
    try:
        defaults = dict(get_rule(str(settings["rule"])).defaults)
    except InputError:  # a rule of somebody else's
        defaults = {}
    usual = plain({**defaults, **USUAL, "tolerance": FIXED.name})
    return {
        name: value
        for name, value in plain(dict(settings)).items()
        if name != "rule"
        and value is not None
        and (name in _SHOWN_ALWAYS or name not in usual or usual[name] != value)
    }


def in_words(settings: Mapping[str, Any]) -> str:
    """``delta_pp 1, weights sample``, without what is usual."""
    told = {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in not_usual(settings).items()
    }
    return ", ".join(printable(f"{name} {value}") for name, value in told.items())
