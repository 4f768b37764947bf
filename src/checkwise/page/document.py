"""A whole page in one file, and the sections that both kinds of page share."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.page.assets import assets
from checkwise.page.markup import Child, Markup, el, join

SCRIPTS = (
    "exact.js",
    "runs.js",
    "rules.js",
    "explain.js",
    "units.js",
    "dom.js",
    "plot.js",
    "compare.js",
    "run_view.js",
    "cohort_view.js",
    "explore.js",
)


def whole_page(title: str, *body: Child, data: Mapping[str, Any] | None) -> str:
    """A whole page: nothing in it is fetched from anywhere, and only its own script runs.

    Without ``data`` there is nothing to compute, so the page has no script.
    """
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
    page = el("html", head, el("body", el("main", *body), data and _embedded(data)), lang="en")
    return f"<!doctype html>\n{page}\n"


def script() -> Markup:
    """All scripts as one; nothing of theirs is visible outside."""
    return Markup(f"(() => {{\n'use strict';\n{assets(*SCRIPTS)}}})();\n")


def script_hash() -> str:
    """What the page's policy allows to run, and nothing else."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _embedded(data: Mapping[str, Any]) -> Markup:
    """The data and the script; no name in the data can end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return join(
        el("script", Markup(safe), type="application/json", id="data"),
        el("script", script()),
    )


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


def bound_section(
    sentence: str, conditions: Sequence[str], not_promised: Sequence[str], no_bound: str
) -> Markup:
    """What is promised about accuracy, under which conditions, and what is not."""
    if no_bound:
        return section("bound", "", "No accuracy bound", el("p", no_bound))
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
    return el("ul", (el("li", item[:1].upper() + item[1:] + ".") for item in items))


def paragraphs(*texts: str) -> Markup:
    """Plain paragraphs."""
    return join(*(el("p", text) for text in texts))
