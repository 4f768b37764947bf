"""What the script of a page shows: for every tolerance, the choice that Python made.

A choice changes only where a checkpoint enters the tolerance, so the choices of a rule are a few
*pieces*, and the script looks them up: it neither chooses nor explains anything itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import CheckwiseError
from checkwise.metrics import METRICS, metric_title
from checkwise.records import Trajectory
from checkwise.selection import (
    ACCURACY,
    CALLED,
    REFERENCE,
    Choice,
    Columns,
    Directions,
    Selection,
    called,
    explain,
    is_rule,
    known_direction,
    plain,
    rules,
    select,
)
from checkwise.words import points

MOST_PP: Final = 5
STOPS: Final = tuple(f"{k / 20:g}" for k in range(20 * MOST_PP + 1))
# What a reader may want to compare a choice with; --rule has the others.
OFFERED: Final = (REFERENCE, "ac-nc", "ac-nll", "ac-cwece", "ac-early", "pure-nll")
LISTED: Final = 10  # checkpoints that a piece names, best first
NORMS: Final = ("inf", "2", "1")
WEIGHTINGS: Final = {
    "equal": {"weights": "equal", "worst_domain": False},
    "sample": {"weights": "sample", "worst_domain": False},
    "worst": {"weights": "equal", "worst_domain": True},
}
OWN: Final = "own"  # a weight for each domain, as the user named them
_SAME: Final = 1e-9  # what rounding makes of a distance in points


@dataclass(frozen=True)
class Piece:
    """The choice from one tolerance on.

    Args:
        start: the index of the first tolerance in the list of stops.
        best: indices of the best checkpoints, the choice first.
        near: the indices that could have been chosen, where these are not just all within the
            tolerance.
        words: the explanation; empty where none is shown.
    """

    start: int
    best: tuple[int, ...]
    near: tuple[int, ...] | None
    words: str = ""


def run_data(selection: Selection, name: str) -> dict[str, Any]:
    """The data of a single run's page; nothing held out is in it."""
    run, own = selection.trajectory, _as_asked(selection)
    stops = stops_with(own)
    weighting = _weighting(own)
    found: dict[str, list[Piece]] = {}
    views: dict[str, dict[str, list[float | None]]] = {}
    for label, weights in _weightings(run, own).items():
        for rule, choice in _choices(run, own).items():
            chosen = replace(choice, **weights)
            for q, normed in _norms(chosen).items():
                try:
                    found[f"{rule}|{q}|{label}"] = pieces_of(run, normed, stops)
                    views.setdefault(label, view_of(Columns.of(run, normed)))
                except CheckwiseError:  # a metric that cannot be weighted so
                    continue
    listed = list(dict.fromkeys(key.partition("|")[0] for key in found))
    return {
        "metrics": [metric_facts(m, run, own.directions) for m in run.metrics],
        "rules": [rule_facts(rule, own) for rule in listed],
        "stops": stops,
        "runs": [run_facts(name, run, views, found)],
        "start": {
            "run": 0,
            "rule": selection.rule,
            "stop": start_of(stops, own),
            "q": _norm(own),
            "weighting": weighting,
            "reference": REFERENCE,
        },
    }


def run_facts(
    name: str,
    run: Trajectory,
    views: Mapping[str, Any],
    found: Mapping[str, Sequence[Piece]],
) -> dict[str, Any]:
    """One run as the script reads it."""
    group = "" if run.key is None else f"{run.key.dataset} · {run.key.algorithm}"
    return {
        "name": name,
        "group": group,
        "steps": run.steps.tolist(),
        "lost": np.flatnonzero(run.diverged).tolist(),
        "paths": None if run.paths is None else list(run.paths),
        "several": len(run.domains) > 1,
        "views": views,
        "choices": {
            key: [[p.start, p.best, p.near, p.words] for p in pieces]
            for key, pieces in found.items()
        },
    }


def stops_with(choice: Choice, stops: Sequence[str] = STOPS) -> list[str]:
    """The tolerances of the slider, with the one that was asked for."""
    own = _delta(choice)
    if own is None or float(own) in map(float, stops):
        return list(stops)
    return sorted([*stops, own], key=float)


def start_of(stops: Sequence[str], choice: Choice) -> int:
    """Where the slider stands at first."""
    own = _delta(choice)
    return 0 if own is None else list(map(float, stops)).index(float(own))


def pieces_of(run: Trajectory, choice: Choice, stops: Sequence[str]) -> list[Piece]:
    """Every choice of one rule as its tolerance grows."""
    own = _delta(choice)
    if own is None:
        return [piece(select(run, choice), 0, words=True)]
    gaps = Columns.of(run, choice)["gap_pp"]
    found: list[Piece] = []
    before = -1
    for i, stop in enumerate(stops):
        near = int((gaps <= float(stop) + _SAME).sum())
        if near == before and float(stop) != float(own):
            continue
        before = near
        text = own if float(stop) == float(own) else stop
        at = replace(choice, params={**choice.params, "delta_pp": text})
        found.append(piece(select(run, at), i, words=True, delta=text))
    return merged(found)


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Without the pieces that say what the one before them says."""
    kept: list[Piece] = []
    for one in pieces:
        if not kept or replace(one, start=kept[-1].start) != kept[-1]:
            kept.append(one)
    return kept


def piece(
    selection: Selection, start: int, *, words: bool = False, delta: str = "", most: int = LISTED
) -> Piece:
    """A choice, with the checkpoints that follow it."""
    eligible = selection.ranking.eligible
    best = np.argsort(selection.rank)[: min(most, int(eligible.sum()))]
    said = ""
    if words:
        said = explain(selection)
        if delta:
            said = said.replace(f"within {points(delta)}", "within {points}")
    within = None
    if not (delta and np.array_equal(eligible, _within(selection, delta))):
        within = tuple(np.flatnonzero(eligible).tolist())
    return Piece(start, tuple(best.tolist()), within, said)


def _within(selection: Selection, delta: str) -> NDArray[np.bool_]:
    return np.asarray(selection.columns["gap_pp"] <= float(delta) + _SAME)


def view_of(columns: Columns) -> dict[str, list[float | None]]:
    """Every column on the reported scale; None where it is not a number."""
    found = {"accuracy": _numbers(100 * columns[ACCURACY])}
    gaps = columns["gap_pp"].tolist()
    found["gap"] = [round(gap, 9) if isfinite(gap) else None for gap in gaps]
    for name in columns:
        if name not in ("step", "order", ACCURACY, "gap_pp"):
            scale = METRICS[name].scale if name in METRICS else 1
            found[name] = _numbers(scale * columns[name])
    return found


def _numbers(values: NDArray[Any]) -> list[float | None]:
    return [float(f"{v:.6g}") if isfinite(v) else None for v in values.tolist()]


def metric_facts(
    name: str, run: Trajectory | None = None, directions: Directions | None = None
) -> dict[str, Any]:
    """How a metric is called, shown and compared; ``unknown``: nobody said which way is better."""
    known = METRICS.get(name)
    direction = known_direction(name, directions)
    times = "" if known is None or known.scale == 1 else " (%)" if known.in_percent else " ×100"
    title = called(run, name) if run is not None else CALLED.get(name) or metric_title(name)
    return {
        "name": name,
        "title": title,
        "unit": times,
        "higher": direction == "higher",
        "decimals": known.decimals if known else 3,
        **({} if direction else {"unknown": True}),
    }


def rule_facts(name: str, own: Choice) -> dict[str, Any]:
    """A rule as the controls offer it."""
    known = rules()[name]
    choice = own if _name(own) == name else Choice(name)
    objectives = list(choice.completed.get("objectives", known.needs))
    summary = known.summary.replace("delta_pp", "δ")
    for metric in objectives:
        summary = summary.replace(f" {metric}", f" {CALLED.get(metric) or metric_title(metric)}")
    return {
        "name": name,
        "summary": summary,
        "tolerance": _delta(choice) is not None,
        "objectives": objectives,
    }


def _as_asked(selection: Selection) -> Choice:
    """The choice with its rule and every parameter of it named."""
    asked = selection.choice
    return replace(asked, rule=selection.rule, params=dict(selection.params))


def _name(choice: Choice) -> str:
    return choice.named.name


def _delta(choice: Choice) -> str | None:
    """The tolerance in points as it was written; None where none decides."""
    fixed = choice.kind.fixed and choice.named.constraint(choice.completed) == ACCURACY
    value = choice.completed.get("delta_pp")
    return str(plain(value)) if fixed and value is not None else None


def _choices(run: Trajectory, own: Choice) -> dict[str, Choice]:
    """The rules that the page offers, each with the settings that were asked for."""
    found = {_name(own): own}
    there = set(run.metrics)
    for name in OFFERED:
        if name in found or not is_rule(name) or not there.issuperset(rules()[name].needs):
            continue
        found[name] = replace(own, rule=name, params={}, tolerance=None, alpha=None)
    return found


def _norms(choice: Choice) -> dict[str, Choice]:
    """The choice with each distance, where it weighs several objectives; else itself."""
    objectives = choice.completed.get("objectives", choice.named.looks_at(choice.completed))
    several = "q" in choice.completed and len([o for o in objectives if o != ACCURACY]) > 1
    if not several or _delta(choice) is None:
        return {"": choice}
    return {q: replace(choice, params={**choice.params, "q": float(q)}) for q in NORMS}


def _norm(choice: Choice) -> str:
    found = _norms(choice)
    return f"{float(choice.completed['q']):g}" if len(found) > 1 else ""


def _weighting(choice: Choice) -> str:
    if not isinstance(choice.weights, str):
        return OWN
    return "worst" if choice.worst_domain else str(choice.weights)


def _weightings(run: Trajectory, own: Choice) -> dict[str, dict[str, Any]]:
    """How domains may count, the way that was asked for first."""
    label = _weighting(own)
    asked = {label: {"weights": own.weights, "worst_domain": own.worst_domain}}
    if len(run.domains) == 1 or not own.kind.fixed or label == OWN:
        return asked
    counted = run.counts is not None
    return asked | {name: how for name, how in WEIGHTINGS.items() if name != "sample" or counted}
