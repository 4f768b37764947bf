"""Random runs and settings, made to land on edges: ties, exact tolerances, huge denominators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkwise.page.starting_data import page_rules
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, get_rule, select

METRICS = ("nll", "ece", "cwece", "brier", "worst_class_accuracy")
DELTAS = ("0", "0.1", "0.25", "0.5", "1", "1.0", "2.5", "5", "0.30", "7e-1", "100")


@dataclass(frozen=True)
class Case:
    """A run, how to choose from it, and what Python chose."""

    run: Trajectory
    setting: dict[str, Any]
    chosen: Selection


def cases(number: int, seed: int = 0) -> list[Case]:
    """As many random cases, always the same ones."""
    random = np.random.default_rng(seed)
    return [case(random, i) for i in range(number)]


def case(random: np.random.Generator, number: int) -> Case:
    run = random_run(random, number)
    rules = [rule["name"] for rule in page_rules(run.metrics)]
    while True:
        setting = random_setting(random, rules, run)
        rule, params, options = arguments(setting)
        try:
            return Case(run, setting, select(run, rule, guard=False, **options, **params))
        except Exception as error:
            # wald may find nothing, and means cannot be weighted: draw again
            if "threshold_pp" not in str(error) and "only as an equal mean" not in str(error):
                raise


def random_run(random: np.random.Generator, number: int) -> Trajectory:
    T, E = int(random.integers(1, 24)), int(random.integers(1, 6))
    digits = int(random.choice([1, 2, 3, 17]))
    diverged = random.random(T) < random.choice([0, 0, 0.2])
    diverged[int(random.integers(T))] = False
    counts = random.choice(
        [
            np.full(E, int(random.choice([20, 100, 200, 1000]))),
            random.integers(3, 40, E),
            random.integers(200, 5000, E),
            10 ** random.integers(8, 12, E) + random.integers(0, 1000, E),
        ]
        if E > 1
        else [random.integers(3, 5000, E)] * 2
    )
    near = np.clip(0.8 + random.choice([0.001, 0.01, 0.05]) * random.normal(size=(T, E)), 0, 1)
    correct = np.rint(near * counts).astype(np.int64)
    exact = random.random() < 0.75
    accuracy = correct / counts if exact else np.round(near, digits)
    values = {"accuracy": accuracy}
    pooled: dict[str, Any] = {}
    for name in METRICS:
        drawn = np.round(random.random((T, E)) * random.choice([1, 1e-3, 30]), digits)
        drawn = drawn if name in ("nll", "brier") else np.clip(drawn, 0, 1)
        if random.random() < 0.1:
            pooled[name] = drawn[:, 0]
        elif random.random() < 0.95:
            values[name] = drawn
    lost = diverged[:, None]
    return Trajectory(
        steps=np.sort(random.choice(5000, T, replace=False)),
        domains=[f"d{e}" for e in range(E)],
        values={name: np.where(lost, np.nan, v) for name, v in values.items()},
        pooled={name: np.where(diverged, np.nan, v) for name, v in pooled.items()},
        counts=counts if exact or random.random() < 0.5 else None,
        correct=np.where(lost, 0, correct) if exact else None,
        diverged=diverged,
        key=RunKey("D", "ERM", ("x",), 0, number),
    )


def random_setting(
    random: np.random.Generator, rules: list[str], run: Trajectory
) -> dict[str, Any]:
    objectives = random.permutation(list(run.metrics))[: int(random.integers(1, 5))].tolist()
    gaps = run.values["accuracy"].mean(axis=1)
    edge = f"{100 * (np.nanmax(gaps) - random.choice(gaps[~run.diverged])):.6g}"
    worst = bool(random.random() < 0.25)
    weighted = run.counts is not None and not worst  # a minimum has no weights
    return {
        "rule": str(random.choice(rules)),
        "delta": str(random.choice([*DELTAS, edge])),
        "threshold": str(random.choice(["70", "79.5", "80", "80.5", "0"])),
        "q": str(random.choice(["1", "2", "inf"])),
        "objectives": objectives,
        "weights": str(random.choice(["equal", "sample"])) if weighted else "equal",
        "worst": worst,
    }


def arguments(setting: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A setting as ``select`` takes it."""
    offered = {
        "delta_pp": setting["delta"],
        "threshold_pp": setting["threshold"],
        "q": {"1": 1, "2": 2, "inf": float("inf")}[setting["q"]],
        "objectives": tuple(setting["objectives"]),
    }
    takes = get_rule(setting["rule"]).defaults
    params = {name: value for name, value in offered.items() if name in takes}
    return (
        setting["rule"],
        params,
        {"weights": setting["weights"], "worst_domain": setting["worst"]},
    )
