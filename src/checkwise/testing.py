"""The contracts that every rule and metric keeps; run them on your own too."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.metrics import Metric, get_metric
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Rule, get_rule, select

__all__ = ["check_metric", "check_rule"]


def check_metric(metric: str | Metric) -> None:
    """Assert that a metric keeps the contract every table and rule relies on.

    It is finite on ordinary, uniform, saturated and single-example predictions, returns a plain
    float, gives the same value again and in any order of examples, leaves its input alone, has a
    direction and a scale, and does not call hopeless predictions better than perfect ones.

    Example:
        >>> check_metric("nll")
    """
    metric = get_metric(metric) if isinstance(metric, str) else metric
    name = f"metric {metric.name!r}"
    assert metric.direction in ("lower", "higher"), f"{name}: direction is {metric.direction!r}"
    assert metric.scale in (1, 100), f"{name}: scale is {metric.scale!r}"
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=60)
    y = rng.integers(0, 4, 60)
    sure = np.where(np.eye(4)[y] == 1, 1 - 3e-9, 1e-9)
    cases = {
        "ordinary": (p, y),
        "uniform": (np.full((60, 4), 0.25), y),
        "saturated and right": (sure, y),
        "saturated and wrong": (np.roll(sure, 1, axis=1), y),
        "single-example": (p[:1], y[:1]),
    }
    values = {}
    for case, (probs, labels) in cases.items():
        value = _value(metric, probs, labels)
        kind = type(value).__name__
        assert isinstance(value, float), f"{name}: {kind}, not float, on {case} input"
        assert math.isfinite(value), f"{name}: {value} is not finite on {case} input"
        values[case] = value
    order = rng.permutation(60)
    again, moved = _value(metric, p, y), _value(metric, p[order], y[order])
    assert again == values["ordinary"], f"{name}: two calls give {values['ordinary']} and {again}"
    assert math.isclose(moved, again, rel_tol=1e-9, abs_tol=1e-9), (
        f"{name}: the order of examples changes {again} to {moved}"
    )
    sign = 1 if metric.direction == "higher" else -1
    assert sign * (values["saturated and right"] - values["saturated and wrong"]) >= 0, (
        f"{name}: direction {metric.direction!r} prefers wrong predictions to right ones"
    )


def _value(metric: Metric, probs: np.ndarray, labels: np.ndarray) -> float:
    """The bare function's value, so that nothing tidies its result or protects its input."""
    if metric.function is None:
        return metric(probs=probs, labels=labels)
    own_probs, own_labels = probs.copy(), labels.copy()
    value = metric.function(own_probs, own_labels)
    assert np.array_equal(own_probs, probs), f"metric {metric.name!r}: must not change its input"
    assert np.array_equal(own_labels, labels), f"metric {metric.name!r}: must not change its input"
    return value


def check_rule(rule: str | Rule, **params: Any) -> None:
    """Run the contract that every rule keeps; raises ``AssertionError`` with what is broken.

    On a bank of runs with ties, one and several domains, single checkpoints and diverged ones:

    - it chooses a checkpoint of the run that did not diverge, the same one every time;
    - the order of domains does not matter, and the run is not written to;
    - it needs no metric beyond those it declares;
    - ``constrained``: the choice is within ``delta_pp`` of the best accuracy;
    - ``prunable``: without the checkpoints below the tolerance it chooses the same one.

    Example:
        >>> check_rule("ac-nc")
    """
    checked = get_rule(rule)
    needs = tuple(dict.fromkeys(("accuracy", *checked.looks_at(params))))
    for run in _runs(needs):
        chosen = select(run, checked, guard=False, **params)
        where = f"rule {checked.name!r} on {run!r}"
        assert chosen.step in run.steps.tolist(), f"{where}: step {chosen.step} is not in the run"
        assert not run.diverged[chosen.index], f"{where}: chose a diverged checkpoint"
        again = select(run, checked, guard=False, **params)
        assert chosen.step == again.step, f"{where}: chose {chosen.step}, then {again.step}"
        turned = select(
            _part(run, slice(None), slice(None, None, -1)), checked, guard=False, **params
        )
        assert chosen.step == turned.step, f"{where}: the order of domains changed the choice"
        tolerance = float(chosen.tolerance_pp)
        if chosen.keeps_accuracy:
            gap = float(chosen.columns["gap_pp"][chosen.index])
            assert gap <= tolerance + 1e-9, f"{where}: gap {gap} > {tolerance}"
        elif checked.constrained:
            assert chosen.feasible[chosen.index], f"{where}: chose outside the tolerance"
        if checked.prunable:
            left = _part(run, chosen.feasible, slice(None))
            pruned = select(left, checked, guard=False, **params)
            assert chosen.step == pruned.step, (
                f"{where}: says it is prunable, but without the checkpoints below the tolerance "
                f"it chose {pruned.step} instead of {chosen.step}"
            )


def _runs(metrics: tuple[str, ...]) -> list[Trajectory]:
    rng = np.random.default_rng(20261115)
    runs = []
    for index, (steps, domains) in enumerate([(1, 1), (2, 1), (5, 2), (12, 3), (51, 4)] * 3):
        counts = rng.integers(20, 200, domains)
        coarse = rng.integers(0, 3, (steps, domains)) / 40  # few values, so that ties occur
        correct = np.rint(counts * (0.9 + coarse)).astype(np.int64)
        values = {
            name: rng.integers(1, 6, (steps, domains)) / rng.choice([7.0, 10.0])
            for name in metrics
            if name != "accuracy"
        }
        runs.append(
            Trajectory(
                steps=np.arange(steps) * 100,
                domains=[f"domain {e}" for e in range(domains)],
                values={"accuracy": correct / counts, **values},
                counts=counts,
                correct=correct,
                diverged=(rng.random(steps) < 0.2) & (np.arange(steps) > 0),
                key=RunKey("contract", "none", (), index, 0),
            )
        )
    return runs


def _part(run: Trajectory, rows: slice | NDArray[np.bool_], domains: slice) -> Trajectory:
    """Some checkpoints of a run, and its domains in some order."""
    assert run.counts is not None
    assert run.correct is not None
    return replace(
        run,
        steps=run.steps[rows],
        domains=run.domains[domains],
        values={name: values[rows, domains] for name, values in run.values.items()},
        counts=run.counts[domains],
        correct=run.correct[rows, domains],
        diverged=run.diverged[rows],
    )
