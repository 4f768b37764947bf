"""JSON as checkwise writes it; whatever else a JSON parser accepts is refused."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any, Final

DEEPEST: Final = 32  # levels of brackets; what checkwise writes has at most six
_LARGEST: Final = 2**63 - 1
_SURELY_FIT: Final = 18  # digits
_MAY_OVERFLOW: Final = re.compile(r"[eE]\+?\d{3}|\d{300}")


def parse(content: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not UTF-8 or not JSON, repeats a key, nests too deep, or holds NaN,
            a number beyond 64 bits or half of a surrogate pair.
    """
    text = content.decode()
    decoder = _CAREFUL_DECODER if _MAY_OVERFLOW.search(text) else _DECODER
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError("brackets nested too deep") from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise ValueError("brackets nested too deep")
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r:.40} twice")
    return content


def _whole(digits: str) -> int:
    if len(digits) > _SURELY_FIT and (len(digits) > 20 or abs(int(digits)) > _LARGEST):
        raise ValueError(f"an integer of {len(digits)} characters")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError(f"{digits:.40}, which is beyond 64 bits")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name}, which JSON does not have")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant
)
_CAREFUL_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_constant
)
