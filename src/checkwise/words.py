"""Text for people: numbers, lists, and other people's text safe to print.

What a file or a user wrote is shown on one line, with nothing in it that moves the cursor.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from math import isinf, isnan
from typing import Final

# What helped most on data that training never saw, in one sentence for every place that advises.
RECOMMENDED: Final = (
    "One temperature of at least 1 (checkwise deploy) helps more than which checkpoint near the "
    "best you take."
)

# Control characters, halves of a surrogate pair, and separators that break a line.
_UNSAFE = ("Cc", "Cs", "Zl", "Zp")
# Marks that turn the direction of the text after them.
_TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str, keep: str = "") -> str:
    """Text with every character escaped that a terminal would obey or cannot print.

    Characters to ``keep`` stay, such as a newline. A file name with bytes that are no UTF-8 is
    text as well.

    Example:
        >>> print(printable("red\\x1b[31m\\n"))
        red\\x1b[31m\\n
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c not in keep and (c in _TURNING or unicodedata.category(c) in _UNSAFE)
        else c
        for c in text
    )


def is_plain(text: str) -> bool:
    """Whether text is a name that can be printed on a line: no control characters or broken ones.

    Example:
        >>> is_plain("photo"), is_plain("two\\nlines")
        (True, False)
    """
    return bool(text) and all(unicodedata.category(c) not in _UNSAFE for c in text)


def shown(value: object, most: int = 60) -> str:
    """A value in a message: on one line, not too long, whatever it is.

    Example:
        >>> shown([1, 2]), shown(10**5000)
        ('[1, 2]', 'an integer of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = printable(" ".join(repr(value).split()))
    except Exception:  # a repr of someone else's may raise anything
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    """A number with a real minus sign, never a negative zero; a dash where there is none.

    Example:
        >>> number(-0.25, 2), number(0.25, 3, signed=True), number(-0.001, 2)
        ('−0.25', '+0.250', '0.00')
    """
    if isnan(value):
        return "–"
    text = "∞" if isinf(value) else f"{abs(value):.{decimals}f}"
    if not isinf(value) and float(text) == 0:
        return text
    return ("−" if value < 0 else "+" if signed else "") + text


def counted(things: int, name: str) -> str:
    """A number of things, in the singular or plural.

    Example:
        >>> counted(1, "run"), counted(30, "run")
        ('1 run', '30 runs')
    """
    return f"{things} {name}" if things == 1 else f"{things} {name}s"


def points(amount: object) -> str:
    """A number of percentage points as it was written.

    Example:
        >>> points("0.5"), points(1), points("1.0")
        ('0.5 points', '1 point', '1.0 points')
    """
    return f"{amount} point" if str(amount) == "1" else f"{amount} points"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Several things in a sentence.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a", "b"], "or")
        ('a, b and c', 'a or b')
    """
    *others, final = parts
    return f"{', '.join(others)} {last} {final}" if others else final


def shortened(names: Sequence[str], most: int = 8, letters: int = 60) -> str:
    """Names from files in a message: the first of many, and the beginning of long ones.

    Example:
        >>> shortened(["a", "b", "c"], 2), shortened([])
        ('a, b and 1 more', 'none')
    """
    more = len(names) - most
    shown = ", ".join(name[:letters] for name in names[:most]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def bytes_shown(size: int) -> str:
    """Bytes for people, in powers of 1000 as disks are sold.

    Example:
        >>> bytes_shown(1), bytes_shown(4_200), bytes_shown(94_273_408)
        ('1 byte', '4.2 kB', '94.3 MB')
    """
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if size >= 10**power:
            return f"{size / 10**power:.1f} {unit}"
    return counted(size, "byte")
