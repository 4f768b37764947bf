"""The few drawing pieces that the plots share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10

from checkwise.page.markup import Child, Markup, el


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels; values outside are held at the ends."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        width = self.high - self.low or 1.0
        share = min(max((value - self.low) / width, 0.0), 1.0)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends."""
        return self.low <= value <= self.high


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two ends, about ``count`` of them.

    Example:
        >>> ticks(0, 1000)
        [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def tick_text(value: float) -> str:
    """A tick's number, without noise and with a real minus sign."""
    return f"{value:.6g}".replace("-", "−")


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> Markup:
    """A line of text."""
    return el("text", content, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return el("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def circle(x: float, y: float, r: float, class_: str, hover: str | None = None) -> Markup:
    """A dot, with words shown on hovering."""
    return el("circle", hover and el("title", hover), cx=float(x), cy=float(y), r=r, class_=class_)


def square(x: float, y: float, half: float, class_: str) -> Markup:
    """A square around a point."""
    return el("rect", x=x - half, y=y - half, width=2.0 * half, height=2.0 * half, class_=class_)


def diamond(x: float, y: float, half: float, class_: str) -> Markup:
    """A diamond around a point."""
    return _path(f"M{x:.2f} {y - half:.2f}l{half} {half}l-{half} {half}l-{half} -{half}z", class_)


def triangle(x: float, y: float, half: float, class_: str) -> Markup:
    """A triangle around a point."""
    return _path(f"M{x:.2f} {y - half:.2f}l{half} {1.8 * half}l-{2 * half} 0z", class_)


def polyline(points: list[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return el("polyline", points=" ".join(f"{x:.2f},{y:.2f}" for x, y in points), class_=class_)


def _path(d: str, class_: str) -> Markup:
    return el("path", d=d, class_=class_)


Shape = Callable[[float, float, float, str], Markup]
# Shape as well as colour tells rules apart.
SHAPES: tuple[Shape, ...] = (square, diamond, triangle)


def drawing(width: float, height: float, label: str, *children: Child, class_: str = "") -> Markup:
    """A whole picture; ``label`` is what a screen reader says."""
    return el(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        class_=f"plot {class_}".strip(),
        style=f"max-width:{width:g}px",
    )
