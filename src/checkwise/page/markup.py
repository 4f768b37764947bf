"""HTML and SVG in which text is data: whatever is not already markup is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = ("meta", "br", "hr", "input")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Iterable[str] | None


def el(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element. Plain text is escaped; ``class_`` becomes ``class``, ``_`` becomes ``-``.

    Attributes that are None are left out.

    Example:
        >>> print(el("p", "a < b", class_="note"))
        <p class="note">a &lt; b</p>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children one after the other, plain text escaped."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child))
        else:
            parts.extend(join(item) for item in child)
    return Markup("".join(parts))


def _text(value: object) -> str:
    # Coordinates to a hundredth of a pixel keep pages of many runs small.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
