"""The contract of rules."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from checkwise.records import RunKey, Trajectory
from checkwise.selection import Rule, Table, get_rule, select


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
    found = get_rule(rule)
    needs = ("accuracy", *found.needs, *params.get("objectives", ()))
    for run in _runs(needs):
        chosen = select(run, found, **params)
        where = f"rule {found.name!r} on {run!r}"
        assert chosen.step in run.steps.tolist(), f"{where}: step {chosen.step} is not of the run"
        assert not run.diverged[chosen.index], f"{where}: chose a diverged checkpoint"
        again = select(run, found, **params)
        assert chosen.step == again.step, f"{where}: chose {chosen.step}, then {again.step}"
        turned = select(_turned(run), found, **params)
        assert chosen.step == turned.step, f"{where}: the order of domains changed the choice"
        tolerance = float(chosen.tolerance_pp)
        if found.constrained:
            assert chosen.gap_pp <= tolerance + 1e-9, f"{where}: gap {chosen.gap_pp} > {tolerance}"
        if found.prunable:
            pruned = select(_pruned(run, chosen.tolerance_pp), found, **params)
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


def _turned(run: Trajectory) -> Trajectory:
    assert run.counts is not None
    assert run.correct is not None
    return replace(
        run,
        domains=run.domains[::-1],
        values={name: values[:, ::-1] for name, values in run.values.items()},
        counts=run.counts[::-1],
        correct=run.correct[:, ::-1],
    )


def _pruned(run: Trajectory, tolerance: Fraction) -> Trajectory:
    assert run.correct is not None
    keep = Table.of(run).within(tolerance)
    return replace(
        run,
        steps=run.steps[keep],
        values={name: values[keep] for name, values in run.values.items()},
        correct=run.correct[keep],
        diverged=run.diverged[keep],
    )
