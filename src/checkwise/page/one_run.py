"""How sure a choice is: a sentence, and how often each checkpoint would have been chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseError, NoGuaranteeError
from checkwise.metrics import METRICS, reliability, together
from checkwise.page import document
from checkwise.page.choices import MOST_PP, metric_facts, run_data
from checkwise.page.document import (
    Markup,
    controls,
    copy_button,
    el,
    framed_table,
    join,
    live_run,
    prose,
)
from checkwise.selection import (
    ACCURACY,
    Selection,
    because,
    called,
    cautions,
    guarded_answer,
    not_compared,
    scores,
)
from checkwise.store import write_text, writing
from checkwise.sure import Stability
from checkwise.words import RECOMMENDED, counted, number

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
        rows.append(_row(counted(count, "other"), others, False))
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


def class_1_section(selection: Selection) -> Markup | None:
    """Of a binary problem, the probabilities of class 1 against how often it came."""
    examples = selection.trajectory.examples
    if examples is None or not examples.has_logits:
        return None
    logits, labels = together(examples.logits(selection.step))
    if logits.shape[1] != 2:
        return None
    found = reliability(logits=logits, labels=labels)
    rows = [
        el("tr", [el("td", cell, class_="num") for cell in (str(n), f"{p:.1%}", f"{share:.1%}")])
        for n, p, share in zip(*(column.tolist() for column in found), strict=True)
    ]
    return document.section(
        "source",
        f"Step {selection.step}, validation",
        "What class 1 was given, and how often it came",
        framed_table(
            ["examples", "mean probability of class 1", "share that is class 1"],
            rows,
            "Examples whose probability of class 1 lies in the same tenth",
        ),
        id="class-1",
    )


FIRST = 10
MAIN = ("step", "accuracy", "gap_pp", "nll", "ece", "cwece")
NO_CONTROLS = "This run has no accuracy, so the page draws nothing and has no controls."


def run_page(selection: Selection, title: str, data: Mapping[str, Any] | None) -> str:
    """The page as text; ``data`` is what its script shows, None without accuracy."""
    notes = selection.trajectory.notes
    return document.whole_page(
        f"Step {selection.step} of {title}",
        document.masthead(title),
        el(
            "section",
            el("h1", f"Use step {selection.step}"),
            el("p", el("code", selection.path), copy_button(), class_="where")
            if selection.path
            else None,
            _tiles(selection),
            el("p", prose(_why(selection)), class_="answer"),
            el(
                "details",
                el("summary", "How it was read"),
                el("ul", (el("li", prose(note)) for note in notes)),
                class_="note",
            )
            if notes
            else None,
            class_="top",
        ),
        sure_section(selection),
        class_1_section(selection),
        document.section(
            "source",
            "",
            "The checkpoints, best first"
            if data is None
            else "The run, and other ways to choose from it",
            _explored(selection, data),
            id="explore",
        ),
        _bound(selection),
        el("footer", el("p", RECOMMENDED)),
        data=data,
    )


def _why(s: Selection) -> str:
    """What the tiles do not say: why this checkpoint, and what to be careful about."""
    reasons = [guarded_answer(s)] if s.guard_acted else [because(s), not_compared(s)]
    return " ".join(sentence for sentence in (*reasons, *cautions(s)) if sentence)


def _explored(selection: Selection, data: Mapping[str, Any] | None) -> Markup:
    if data is None:
        return join(el("p", NO_CONTROLS, class_="note"), _ranked(selection))
    return join(controls(data), live_run(ranking=_ranked(selection)))


def _tiles(selection: Selection) -> Markup:
    """What the choice gains and what it costs against the best checkpoint."""
    (name, value, beside), *others = scores(selection) or [("", "", "")]
    amount, below, there = beside.partition(" below the best ")
    cells = []
    if below:
        against = f"{value}; best {there.strip('()')}"
        cells.append((f"{_capital(name)}: what it costs", amount, against))
    elif name:
        cells.append((_capital(name), value, beside))
    first = name
    for name, value, beside in others:
        amount, compared, there = beside.partition(" than there ")
        gain = ": what you gain" * amount.endswith("more" if name == ACCURACY else "less")
        against = f"{value}; at the best by {first} {there.strip('()')}" if compared else beside
        cells.append((_capital(name) + gain, amount if compared else value, against))
    near, total = len(selection.feasible_steps), len(selection.trajectory)
    if near > 1:
        cells.append(("Chosen from", f"{near} of {total}", "checkpoints"))
    return el(
        "div",
        (
            el("div", el("span", label), el("strong", amount), el("span", beside), class_="tile")
            for label, amount, beside in cells
        ),
        class_="tiles",
    )


def _capital(name: str) -> str:
    return f"{name[0].upper()}{name[1:]}"


def _ranked(selection: Selection) -> Markup:
    """The first checkpoints in full view, all of them with every metric on request."""
    every = [
        name
        for name in selection.ranked
        if name not in ("rank", "score", "feasible", "diverged")
        and not name.endswith("_normalised")
    ]
    main = [name for name in every if name in (*MAIN, selection.constraint)]
    return el(
        "div",
        _table(selection, main, first=FIRST),
        el(
            "details",
            el("summary", f"All {len(selection.trajectory)} checkpoints and metrics"),
            _table(selection, every),
        ),
    )


def _bound(selection: Selection) -> Markup | None:
    """The bound with its conditions; nothing where it says nothing useful."""
    try:
        bound = selection.guarantee()
    except NoGuaranteeError:
        return None
    if bound.tightest_pp > MOST_PP:
        return None
    quantity = bound.quantity.replace("validation ", "")
    sentence = (
        f"With probability at least {1 - bound.alpha:g}, the {quantity} of step "
        f"{selection.step} on all data like this validation is at most {bound.tightest_pp:.2f} "
        "points below the best of this run."
    )
    conditions = bound.conditions
    if bound.paired is not None:
        conditions = bound.paired.conditions
        sentence += (
            " This compares checkpoints on the validation examples that they share; counts of "
            f"correct answers alone give {bound.bound_pp:.2f} points."
        )
    return document.bound_section(sentence, conditions, bound.not_promised)


def _table(selection: Selection, names: Sequence[str], *, first: int | None = None) -> Markup:
    """The checkpoints, best first, with these columns."""
    columns = {name: values[:first].tolist() for name, values in selection.ranked.items()}
    body = [
        el(
            "tr",
            (el("td", _shown(name, columns[name][i]), class_="num") for name in names),
            class_="chosen" if i == 0 else None if feasible else "dim",
        )
        for i, feasible in enumerate(columns["feasible"])
    ]
    return framed_table([_column(selection, name) for name in names], body, "Best first")


def _column(selection: Selection, name: str) -> str:
    if name == "gap_pp":
        return "below the best (points)"
    if name == "step":
        return name
    if name in METRICS:
        return called(selection.trajectory, name) + str(metric_facts(name)["unit"])
    return name


def _shown(name: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if name in METRICS:
        return number(METRICS[name].scale * value, METRICS[name].decimals)
    return number(value, 2 if name == "gap_pp" else 4)


def selection_page(selection: Selection, name: str = "") -> str:
    """The page of one run and its choice, in one file; ``name`` is what was read."""
    title = name or (str(selection.run) if selection.run else "This run")
    data = None if selection.accuracy is None else run_data(selection, title)
    return run_page(selection, title, data)


def write_page(selection: Selection, out: Path, name: str = "") -> Path:
    """Write the page of a choice and return where it is; it appears whole or not at all."""
    with writing(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, selection_page(selection, name))
    return out
