"""What the script of the page starts from: runs, held-out results, settings, quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import METRICS
from checkwise.page.payload import BUDGET, payload
from checkwise.records import RunKey, Trajectory
from checkwise.selection.constrained import OBJECTIVES
from checkwise.selection.result import plain
from checkwise.statistics.bootstrap import LEVEL
from checkwise.study import Cohort

FloatArray = NDArray[np.float64]

REFERENCE = "source-acc"
SETTINGS = {"delta_pp": "0.5", "q": "inf", "threshold_pp": "80"}


def cohort_data(
    cohort: Cohort, rule: str, reference: str, params: Mapping[str, Any], *, budget: int = BUDGET
) -> dict[str, Any]:
    """The data of a cohort's page; runs in the order of their keys."""
    keys = sorted(cohort.usable)
    runs = {str(key): cohort.usable[key] for key in keys}
    held_out = [_targets(cohort, key) for key in keys]
    data = payload(runs, held_out, budget=budget)
    return {
        **data,
        "start": _start(data, rule, reference, params),
        "quantiles": quantiles(len(keys)),
    }


def run_data(run: Trajectory, name: str, rule: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a single run's page; nothing held out is in it."""
    data = payload({name: run})
    paths = None if run.paths is None else list(run.paths)
    return {**data, "start": _start(data, rule, REFERENCE, params), "paths": paths}


def at_run(data: dict[str, Any], name: str) -> dict[str, Any]:
    """The same data, with another run shown first."""
    names = [run["name"] for run in data["runs"]]
    return {**data, "start": {**data["start"], "run": names.index(name)}}


def _targets(cohort: Cohort, key: RunKey) -> dict[str, FloatArray]:
    """Every target metric at every step of a run: the mean over its held-out domains."""
    steps = cohort.usable[key].steps
    domains = [_rows(journal, steps) for journal in cohort.held_out(key).values()]
    shared = [name for name in METRICS if all(name in domain for domain in domains)]
    return {name: np.mean([domain[name] for domain in domains], axis=0) for name in shared}


def _rows(journal: Mapping[str, NDArray[Any]], steps: NDArray[np.int64]) -> dict[str, FloatArray]:
    """The columns of a held-out journal at given steps; nan where it has no record."""
    found = {int(step): row for row, step in enumerate(journal["step"])}
    at = np.array([found.get(int(step), -1) for step in steps])
    return {
        name: np.where(at >= 0, np.asarray(column, dtype=np.float64)[at], np.nan)
        for name, column in journal.items()
        if name in METRICS
    }


def _start(
    data: Mapping[str, Any], rule: str, reference: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of the report, as far as the page can follow them."""
    known = {entry["name"]: entry for entry in data["rules"]}
    first = rule if rule in known else _usual(known)
    given = {**SETTINGS, **{name: str(plain(value)) for name, value in params.items()}}
    named = [metric["name"] for metric in data["metrics"]]
    default = [name for name in OBJECTIVES["nc"] if name in named] or named[-1:]
    own = known[first]["objectives"] if known[first]["kind"] == "constrained" else []
    return {
        "run": 0,
        "rule": first,
        "reported": first == rule and set(params) <= {*SETTINGS, "objectives"},
        "reference": reference if reference in known else REFERENCE,
        "delta": given["delta_pp"],
        "threshold": given["threshold_pp"],
        "q": given["q"],
        "objectives": list(params.get("objectives", ())) or own or default,
        "weights": "equal",
        "worst": False,
    }


def _usual(known: Sequence[str] | Mapping[str, Any]) -> str:
    return next(name for name in ("ac-nc", "ac-nll", REFERENCE) if name in known)


def quantiles(runs: int) -> list[float]:
    """Of Student's t at the level of the intervals: with 1, 2, … degrees of freedom."""
    from scipy.special import stdtrit

    share = (1 + LEVEL) / 2
    return [float(stdtrit(df, share)) for df in range(1, runs)]
