"""The settings of a live selection in one name, so that they travel with every metric.

Logs and trackers keep numbers under names, few keep text. So the settings are the name of a metric
whose value is 1: ``checkwise/settings/ac-nc/delta_pp/1``. After the rule, names and values follow
each other. Letters, digits and ``_ . - /`` are all that it holds, which every tracker takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from math import isinf
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.selection.rules import get_rule
from checkwise.text import printable

SETTINGS: Final = "checkwise/settings"
AS_SET: Final = "as the callback was set"
# Options of `select` beside a rule's parameters, and what they are where nothing was set.
USUAL: Final[Mapping[str, Any]] = {
    "weights": "equal",
    "worst_domain": False,
    "directions": {},
    "guard": True,
    "tolerance": "fixed",
    "alpha": None,
}
_SHOWN_ALWAYS: Final = ("delta_pp", "delta")
_NAMED = re.compile(rf"(?:.*[_/])?{SETTINGS}/(?P<words>.+)", re.DOTALL)
_ESCAPED = re.compile(rb"_([0-9a-f]{2})")


def settings_name(settings: Mapping[str, Any]) -> str:
    """The name of the metric that carries settings.

    Which sets are sources is no part of it: a name in a log never makes a held-out set a source.

    Args:
        settings: the rule, its parameters and options of ``select``, side by side.

    Example:
        >>> settings_name({"rule": "ac-nc", "delta_pp": 1, "q": float("inf"), "weights": "equal"})
        'checkwise/settings/ac-nc/delta_pp/1'
    """
    words = [_escaped(settings["rule"])]
    for name, value in sorted(not_usual(settings).items()):
        words += [_escaped(name), _escaped(_text(value))]
    return "/".join((SETTINGS, *words))


def is_settings(name: str) -> bool:
    """Whether a column carries settings, also behind a trainer's prefix (``eval_``, ``eval/``)."""
    return _NAMED.fullmatch(name) is not None


def settings_in(name: str) -> dict[str, Any]:
    """The settings that a name carries; nothing where it carries none.

    Example:
        >>> settings_in("eval_checkwise/settings/ac-nc/delta_pp/1")
        {'rule': 'ac-nc', 'delta_pp': 1}
    """
    match = _NAMED.fullmatch(name)
    rule, *words = match["words"].split("/") if match else [""]
    if not rule or len(words) % 2:
        return {}
    try:
        names, values = [[_unescaped(word) for word in words[i::2]] for i in (0, 1)]
        return {
            "rule": _unescaped(rule),
            **{key: _value(text) for key, text in zip(names, values, strict=True)},
        }
    except ValueError:
        return {}


def not_usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are no defaults, and the tolerance, as JSON has them."""
    try:
        defaults = dict(get_rule(str(settings["rule"])).defaults)
    except InputError:  # a rule of somebody else's
        defaults = {}
    usual = {**plain(defaults), **plain(dict(USUAL))}
    return {
        name: value
        for name, value in plain(dict(settings)).items()
        if name != "rule"
        and value is not None
        and (name in _SHOWN_ALWAYS or name not in usual or usual[name] != value)
    }


def in_words(settings: Mapping[str, Any]) -> str:
    """``delta_pp 1, weights sample``, without what is usual."""
    told = not_usual(settings)
    return ", ".join(printable(f"{name} {_text(value)}") for name, value in told.items())


def plain(value: Any) -> Any:
    """A setting as JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and isinf(value):
        return "inf"
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _text(value: Any) -> str:
    """Text that ``_value`` reads again: bare where that is unmistakable, else JSON."""
    if isinstance(value, str):
        return value if _value(value) == value or _same_number(value) else json.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _same_number(text: str) -> bool:
    """Whether a decimal that was given as text is the same as a number."""
    try:
        return Decimal(str(json.loads(text))) == Decimal(text)
    except (ValueError, ArithmeticError):
        return False


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _escaped(word: str) -> str:
    """A word of letters, digits, dots and dashes; any other byte as ``_`` and two digits.

    Underscores between letters stay, so that ``delta_pp`` can be read.
    """
    dots = not word.strip(".")  # "" and ".." are no names in a path
    return (
        "".join(
            character
            if (character.isascii() and character.isalnum())
            or (character in "-." and not dots)
            or (character == "_" and _is_plain_underscore(word, at))
            else "".join(f"_{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
            for at, character in enumerate(word)
        )
        or "_"
    )


def _is_plain_underscore(word: str, at: int) -> bool:
    """Whether what follows an underscore cannot be read as an escaped byte."""
    return word != "_" and re.match(r"[0-9a-f]{2}", word[at + 1 : at + 3]) is None


def _unescaped(word: str) -> str:
    raw = "" if word == "_" else word
    whole = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), raw.encode())
    return whole.decode("utf-8", "surrogatepass")
