"""The controls of the page and the places that its script fills; without a script, only the facts.

Every control is a plain form element with a label, so that keyboards and screen readers work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkwise.page.markup import Child, Markup, el, join

NORMS = (("inf", "largest (L∞)"), ("2", "Euclidean (L2)"), ("1", "sum (L1)"))
SLIDER = {"min": "0", "max": "5", "step": "0.05"}


def controls(data: Mapping[str, Any]) -> Markup:
    """The form; hidden until the script shows it."""
    runs: Sequence[Mapping[str, Any]] = data["runs"]
    counted = all(run["counts"] is not None for run in runs)
    rules: Sequence[Mapping[str, Any]] = data["rules"]
    return el(
        "form",
        _row("Run", _runs(runs), name="run", class_="wide-row") if len(runs) > 1 else None,
        _row(
            "Rule",
            el("select", (_option(r["name"]) for r in rules), name="rule", id="rule"),
            el("small", id="summary"),
            name="rule",
        ),
        _tolerance(),
        _row(
            "Least accuracy (points)",
            el("input", type="text", inputmode="decimal", name="threshold", id="threshold"),
            name="threshold",
            id="least",
        ),
        _group("Distance", _radios("q", NORMS), id="distance"),
        _group("Objectives", _objectives(data["metrics"]), id="objectives"),
        _group(
            "Domains count",
            _radios("weights", (("equal", "equally"), ("sample", "by their size")), counted),
            _check("worst", "", "by the worst one"),
        ),
        el("button", "Settings of the report", type="button", id="reset"),
        id="controls",
        class_="controls",
        hidden="hidden",
        autocomplete="off",
        aria_label="Settings",
    )


def _tolerance() -> Markup:
    return el(
        "div",
        el("label", "Tolerance δ (points)", for_="delta"),
        el(
            "span",
            el("input", type="range", name="slider", aria_label="Tolerance in points", **SLIDER),
            el("input", type="text", inputmode="decimal", name="delta", id="delta"),
            class_="pair",
        ),
        id="tolerance",
        class_="field",
    )


def _runs(runs: Sequence[Mapping[str, Any]]) -> Markup:
    groups: dict[str, list[Markup]] = {}
    for number, run in enumerate(runs):
        key = run["key"]
        group = f"{key['dataset']} · {key['algorithm']}" if key else "runs"
        groups.setdefault(group, []).append(el("option", run["name"], value=number))
    return el(
        "select",
        (el("optgroup", options, label=name) for name, options in groups.items()),
        name="run",
        id="run",
    )


def _objectives(metrics: Iterable[Mapping[str, Any]]) -> list[Markup]:
    return [_check("objective", m["name"], m["title"]) for m in metrics if not m.get("unknown")]


def _option(name: str) -> Markup:
    return el("option", name, value=name)


def _row(label: str, *fields: Child, name: str, class_: str = "", id: str | None = None) -> Markup:
    return el(
        "div", el("label", label, for_=name), *fields, class_=f"field {class_}".strip(), id=id
    )


def _group(legend: str, *fields: Child, id: str | None = None) -> Markup:
    return el("fieldset", el("legend", legend), *fields, id=id)


def _radios(name: str, choices: Sequence[tuple[str, str]], all_work: bool = True) -> list[Markup]:
    return [
        el(
            "label",
            el(
                "input",
                type="radio",
                name=name,
                value=value,
                checked="checked" if i == 0 else None,
                disabled=None if i == 0 or all_work else "disabled",
            ),
            text,
        )
        for i, (value, text) in enumerate(choices)
    ]


def _check(name: str, value: str, text: str) -> Markup:
    return el("label", el("input", type="checkbox", name=name, value=value or None), text)


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
        el("p", id="problem", class_="problem", role="alert", hidden="hidden"),
        el("p", id="not-recomputed", class_="note", hidden="hidden"),
        el(
            "div",
            el("h3", id="choice", class_="choice"),
            el("p", id="explanation"),
            class_="js-only",
            aria_live="polite",
            data_result="choice",
        ),
        el("div", id="figure", class_="js-only", data_result="figure"),
        el("div", ranking, id="ranking", data_result="ranking"),
        live_details("ranking-all", "All checkpoints", label_id="ranking-all-label"),
        el("h3", "How sure is this?", class_="js-only"),
        el("div", id="sure", class_="js-only", data_result="sure"),
    )


def live_details(place: str, label: str, *, label_id: str | None = None) -> Markup:
    """A part that is computed when it is opened."""
    return el(
        "details",
        el("summary", label, id=label_id),
        el("div", id=place),
        class_="js-only",
        data_live="yes",
    )
