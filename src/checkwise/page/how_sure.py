"""How sure a choice is: a sentence, and how often each checkpoint would have been chosen."""

from __future__ import annotations

from typing import Final

from checkwise.errors import CheckwiseError
from checkwise.page import document
from checkwise.page.markup import Markup, el
from checkwise.selection import Selection
from checkwise.selection.stability import Stability

MOST_BARS: Final = 12
_WIDTH, _HEIGHT = 400, 16
_CAPTION: Final = (
    "How often the rule chooses each checkpoint when the validation examples are drawn again, "
    "with replacement, within their domains. The filled bar is the reported choice."
)


def sure_section(selection: Selection) -> Markup | None:
    """The part of the page; None where the run does not carry what every example said."""
    if selection.trajectory.examples is None:
        return None
    try:
        sure = selection.sureness
    except CheckwiseError:  # single examples without logits, or a metric that needs more
        return None
    return document.section(
        "source",
        "",
        "Would other validation examples change the choice?",
        el("p", sure.said),
        _bars(sure.stability),
        el("p", sure.advice),
        id="sure",
    )


def shares_shown(stability: Stability) -> dict[int, float]:
    """The steps with a bar, in order: the reported one, and the most often chosen others."""
    often = stability.smallest_set()[:MOST_BARS]
    shown = sorted({stability.reported, *often})
    return {step: stability.share[step] for step in shown}


def _bars(stability: Stability) -> Markup:
    shown = shares_shown(stability)
    others = 1 - sum(shown.values())
    rows = [
        _row(f"step {step}", share, step == stability.reported) for step, share in shown.items()
    ]
    if others > 0.0005:
        count = sum(share > 0 for share in stability.share.values()) - sum(
            share > 0 for share in shown.values()
        )
        rows.append(_row(f"{count} others", others, False))
    return el("figure", el("table", el("tbody", rows), class_="shares"), el("figcaption", _CAPTION))


def _row(label: str, share: float, reported: bool) -> Markup:
    bar = el(
        "rect",
        x=0,
        y=0,
        width=float(max(_WIDTH * share, 1.0)),
        height=_HEIGHT,
        rx=2,
        class_="reported" if reported else "other",
    )
    drawn = el(
        "svg",
        bar,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return el(
        "tr",
        el("th", label, scope="row"),
        el("td", drawn, class_="bar"),
        el("td", f"{share:.0%}" if share >= 0.005 else "<1%", class_="number"),
        class_="chosen" if reported else None,
    )
