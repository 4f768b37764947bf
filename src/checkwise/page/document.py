"""HTML and SVG in which text is data: whatever is not already markup is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from checkwise.page.assets import assets

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


SCRIPTS = ("dom.js", "plot.js", "run_view.js", "study_view.js", "controls.js")


def whole_page(title: str, *body: Child, data: Mapping[str, Any] | None) -> str:
    """A whole page: nothing in it is fetched from anywhere, and only its own script runs."""
    style = assets("colours.css", "page.css", "drawing.css", "explore.css")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_hash()}"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", Markup(style)),
    )
    page = el("html", head, el("body", el("main", *body), _embedded(data)), lang="en")
    return f"<!doctype html>\n{page}\n"


def script() -> Markup:
    """All scripts as one; nothing of theirs is visible outside."""
    return Markup(f"(() => {{\n'use strict';\n{assets(*SCRIPTS)}}})();\n")


def script_hash() -> str:
    """What the page's policy allows to run, and nothing else."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _embedded(data: Mapping[str, Any] | None) -> Markup:
    """The data and the script; no name in the data can end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    held = data and el("script", Markup(safe), type="application/json", id="data")
    return join(held or None, el("script", script()))


def masthead(name: str, chip: str | None = None) -> Markup:
    """The line at the top."""
    return el(
        "header",
        el("span", "checkwise", class_="wordmark"),
        el("span", name, class_="study"),
        el("span", chip, class_="chip") if chip else None,
    )


def section(kind: str, label: str, heading: str, *children: Child, id: str | None = None) -> Markup:
    """A part of the page; ``kind`` keeps source and held-out visibly apart."""
    return el(
        "section",
        el("p", label, class_="side") if label else None,
        el("h2", heading),
        *children,
        class_=kind,
        id=id,
    )


def bound_section(sentence: str, conditions: Sequence[str], not_promised: Sequence[str]) -> Markup:
    """What is promised about accuracy, under which conditions, and what is not."""
    return section(
        "bound",
        "",
        "What is promised about accuracy",
        el("p", sentence),
        el(
            "div",
            el("div", el("h3", "Only if"), _list(conditions)),
            el("div", el("h3", "Not promised"), _list(not_promised)),
            class_="columns",
        ),
    )


def _list(items: Sequence[str]) -> Markup:
    return el("ul", (el("li", prose(f"{item[:1].upper()}{item[1:]}.")) for item in items))


def paragraphs(*texts: str) -> Markup:
    """Plain paragraphs."""
    return join(*(el("p", text) for text in texts))


NORMS = (("inf", "largest (L∞)"), ("2", "Euclidean (L2)"), ("1", "sum (L1)"))
WEIGHTINGS = {
    "equal": "equally",
    "sample": "by their size",
    "worst": "by the worst one",
    "own": "by weights of your own",
}


def controls(data: Mapping[str, Any]) -> Markup:
    """The form; hidden until the script shows it."""
    runs: Sequence[Mapping[str, Any]] = data["runs"]
    ways = [(way, said) for way, said in WEIGHTINGS.items() if way in runs[0]["views"]]
    return el(
        "form",
        _row("Run", _runs(runs), name="run", class_="wide-row") if len(runs) > 1 else None,
        _row(
            "Rule",
            _choice("rule", [(rule["name"], rule["name"]) for rule in data["rules"]]),
            el("small", id="summary"),
            name="rule",
        ),
        _tolerance(len(data["stops"]) - 1),
        _row("Distance", _choice("q", NORMS), name="q", id="distance"),
        _row("Sets count", _choice("weighting", ways), name="weighting") if ways[1:] else None,
        el("button", "Settings of the report", type="button", id="reset"),
        id="controls",
        class_="controls",
        hidden="hidden",
        autocomplete="off",
        aria_label="Settings",
    )


def _tolerance(last: int) -> Markup:
    return el(
        "div",
        el("label", "Tolerance δ: ", el("output", id="delta"), for_="slider"),
        el("input", type="range", name="slider", id="slider", min="0", max=last, step="1"),
        id="tolerance",
        class_="field",
    )


def _runs(runs: Sequence[Mapping[str, Any]]) -> Markup:
    groups: dict[str, list[Markup]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run["group"], []).append(el("option", run["name"], value=number))
    return el(
        "select",
        (el("optgroup", options, label=name) for name, options in groups.items()),
        name="run",
        id="run",
    )


def _choice(name: str, options: Iterable[tuple[str, str]]) -> Markup:
    return el("select", (el("option", text, value=v) for v, text in options), name=name, id=name)


def _row(label: str, *fields: Child, name: str, class_: str = "", id: str | None = None) -> Markup:
    return el(
        "div", el("label", label, for_=name), *fields, class_=f"field {class_}".strip(), id=id
    )


def live_run(words: Markup | None = None, ranking: Markup | None = None) -> Markup:
    """The chosen checkpoint: what the script draws and keeps up to date.

    Without it, ``words`` and ``ranking`` say what was chosen for the report.
    """
    return join(
        el(
            "div",
            words,
            el("p", "The drawing of the run and the controls need JavaScript.", class_="note"),
            class_="static-only",
        ),
        el(
            "div",
            el("h3", id="choice", class_="choice"),
            el("p", id="explanation"),
            el("p", el("code", id="live-path"), copy_button(), class_="where"),
            id="chosen-now",
            class_="js-only",
            aria_live="polite",
        ),
        el("div", id="figure", class_="js-only"),
        el("p", id="steady", class_="note js-only"),
        el("div", ranking, id="ranking"),
        live_details("ranking-all", "All checkpoints", label_id="ranking-all-label"),
    )


def copy_button() -> Markup:
    """Copies what stands before it."""
    return el("button", "Copy", type="button", class_="copy js-only", data_copy="yes")


def prose(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    parts = text.split("`")
    return join(*(el("code", part) if i % 2 else part for i, part in enumerate(parts)))


def live_details(place: str, label: str, *, label_id: str | None = None) -> Markup:
    """A part that is computed when it is opened."""
    return el(
        "details",
        el("summary", label, id=label_id),
        el("div", id=place),
        class_="js-only",
        data_live="yes",
    )


def framed_table(head: Sequence[str | Markup], rows: Sequence[Child], caption: str) -> Markup:
    cells = [
        el("th", name, scope="col", class_="num" if i else None) for i, name in enumerate(head)
    ]
    table = el("table", el("thead", el("tr", cells)), el("tbody", *rows))
    # The caption stays in view where a narrow screen scrolls the table.
    return join(
        el("p", caption, class_="caption"),
        el("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption),
    )
