"""Near-best on any score, then best on any metric: against a literal version, edge by edge."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import checkwise as cw
from tests.refusals import refused, taken
from tests.selection.literal_constraint import Score, choose, feasible

DELTAS = [
    "0",
    "0.005",
    "0.01",
    "0.1",
    "0.25",
    "1",
    "0%",
    "0.5%",
    "1%",
    "2.5%",
    "10%",
    "50%",
    "100%",
]
# Name → whether more is better; the last two say nothing by their names.
CONSTRAINTS = {"f1": True, "wer": False, "zeta": True, "theta": False}
DIRECTIONS = {"zeta": "higher", "theta": "lower"}
WEIGHTS: dict[int, list[tuple[int, ...]]] = {
    1: [(1,)],
    2: [(1, 1), (1, 3), (0, 1)],
    3: [(1, 1, 1), (1, 2, 1)],
}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """A small run: a constraint in hundredths, objectives in eighths (exact as floats), ties."""
    domains, steps = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    hundredths = st.integers(-130, 130) | st.sampled_from([0, 1, -1, 89, 90, 100])
    eighths = st.integers(-6, 6)

    def grid(cells: st.SearchStrategy[int], over: int) -> list[list[Fraction]]:
        return [[Fraction(draw(cells), over) for _ in range(domains)] for _ in range(steps)]

    diverged = [draw(st.integers(0, 4)) == 0 for _ in range(steps)]
    diverged[draw(st.integers(0, steps - 1))] = False
    constraint = draw(st.sampled_from(sorted(CONSTRAINTS)))
    return {
        "constraint": (constraint, Score(grid(hundredths, 100), CONSTRAINTS[constraint])),
        "recall": Score(grid(eighths, 8), higher=True),
        "cost": Score(grid(eighths, 8), higher=False),
        "diverged": diverged,
        "weights": draw(st.sampled_from([None, *WEIGHTS[domains]])),
    }


def trajectory(table: dict[str, Any]) -> cw.Trajectory:
    name, constraint = table["constraint"]
    scores = {name: constraint, "recall": table["recall"], "cost": table["cost"]}
    lost = np.array(table["diverged"])[:, None]
    values = {n: np.array(s.values, dtype=np.float64) for n, s in scores.items()}
    return cw.Trajectory(
        steps=np.arange(len(lost)),
        domains=[f"d{e}" for e in range(values[name].shape[1])],
        values={n: np.where(lost, np.nan, v) for n, v in values.items()},
        diverged=table["diverged"],
    )


def how_domains_count(table: dict[str, Any]) -> tuple[dict[str, Any], list[Fraction] | None]:
    """As ``select`` takes it, and as exact shares (None for the worst domain)."""
    weights = table["weights"]
    if weights is None:
        return {"worst_domain": True}, None
    named = {f"d{e}": weight for e, weight in enumerate(weights)}
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    return {"weights": named}, shares


@settings(max_examples=500, deadline=None)
@given(
    tables(),
    st.sampled_from(DELTAS),
    st.sampled_from(["earliest", "latest", "accuracy", None]),
    st.sampled_from([["cost"], ["recall"], ["cost", "recall"]]),
)
def test_the_rule_equals_a_literal_version(
    table: dict[str, Any], delta: str, ties: str | None, objectives: list[str]
) -> None:
    run = trajectory(table)
    name, constraint = table["constraint"]
    counting, shares = how_domains_count(table)
    usable = [t for t, lost in enumerate(table["diverged"]) if not lost]
    # Decimals that cancel leave a rounding error beside a best value of nothing.
    assume(all(constraint.at(t, shares) or not any(constraint.values[t]) for t in usable))
    step, tied, near = choose(
        constraint, [table[o] for o in objectives], usable, shares, delta, ties or "accuracy"
    )
    asked = {"constraint": name, "delta": delta, "objectives": objectives, "ties": ties}
    chosen = cw.select(run, "ac", directions=directions(run), **counting, **asked)
    assert list(chosen.feasible_steps) == near
    if len(objectives) == 1:  # with several, the offset η may part what is tied
        assert chosen.step == step
        assert list(chosen.ties) == tied
    else:
        assert step == chosen.step or step in chosen.ties + chosen.near_ties
    judged = chosen.judged_by
    assert judged is not None
    assert judged.gap == pytest.approx(
        abs(float(constraint.at(chosen.index, shares)) - judged.best), abs=1e-12
    )


def directions(run: cw.Trajectory) -> dict[str, Any]:
    return {name: way for name, way in DIRECTIONS.items() if name in run.metrics}


@st.composite
def counted(draw: st.DrawFn) -> cw.Trajectory:
    n = draw(st.lists(st.sampled_from([3, 10, 200, 1000]), min_size=1, max_size=3))
    steps = draw(st.integers(1, 6))
    correct = np.array([[draw(st.integers(int(0.8 * m), m)) for m in n] for _ in range(steps)])
    return cw.Trajectory(
        steps=np.arange(steps),
        domains=[f"d{e}" for e in range(len(n))],
        values={"accuracy": correct / n, "nll": np.ones_like(correct, dtype=np.float64)},
        counts=n,
        correct=correct,
    )


@settings(max_examples=200, deadline=None)
@given(counted(), st.sampled_from([d for d in DELTAS if d != "1"]), st.booleans())
def test_accuracies_with_counts_are_compared_as_fractions(
    run: cw.Trajectory, delta: str, worst: bool
) -> None:
    assert run.correct is not None
    assert run.counts is not None
    exact = [
        [Fraction(c, n) for c, n in zip(row, run.counts.tolist(), strict=True)]
        for row in run.correct.tolist()
    ]
    shares = [Fraction(1, len(run.domains))] * len(run.domains)
    near = feasible(
        Score(exact, higher=True), list(range(len(run))), None if worst else shares, delta
    )
    chosen = cw.select(run, "ac-nll", delta=delta, worst_domain=worst, guard=False)
    assert list(chosen.feasible_steps) == near
    best = max(Score(exact, higher=True).at(t, None if worst else shares) for t in range(len(run)))
    relative = delta.endswith("%")
    points = Fraction(delta[:-1]) * best if relative else 100 * Fraction(delta)
    assert chosen.tolerance_pp == points
    bound = chosen.guarantee()
    assert bound.bound_pp == pytest.approx(float(points) + 2 * bound.radius_pp)
    if not relative:
        usual = cw.select(run, "ac-nll", delta_pp=points, worst_domain=worst, guard=False)
        assert (chosen.step, chosen.feasible_steps) == (usual.step, usual.feasible_steps)


def run_of(**scores: list[float]) -> cw.Trajectory:
    return cw.Trajectory(
        steps=range(len(next(iter(scores.values())))),
        domains=["validation"],
        values={name: np.c_[values] for name, values in scores.items()},
    )


EDGES: tuple[tuple[str, list[float], Any, tuple[int, ...]], ...] = (
    ("f1", [0.9, 0.895, 0.89499], 0.005, (0, 1)),
    ("f1", [0.9, 0.8955, 0.8954], "0.5%", (0, 1)),
    ("f1", [90.0, 89.55, 89.54], "0.5%", (0, 1)),
    ("reward", [-10.0, -10.05, -10.06], "0.5%", (0, 1)),
    ("reward", [-10.0, -20.0, -20.1], "100%", (0, 1)),
    ("wer", [0.1, 0.101, 0.1011], "1%", (0, 1)),
    ("cost", [-0.1, -0.099, -0.0989], "1%", (0, 1)),
    ("cost", [0.0, 0.3, 0.31], 0.3, (0, 1)),
    ("cost", [0.0, 0.1, 0.1], "50%", (0,)),
    ("f1", [0.3, 0.1 + 0.2, 0.1], 0, (0, 1)),  # rounding is no difference
    ("f1", [0.5], "0%", (0,)),
)


def test_the_edge_is_feasible() -> None:
    for constraint, values, delta, feasible_steps in EDGES:
        run = run_of(**{constraint: values, "latency": [1.0] * len(values)})
        chosen = cw.select(run, "ac", constraint=constraint, delta=delta, objectives=["latency"])
        assert chosen.feasible_steps == feasible_steps, (constraint, values, delta)


def test_without_counts_accuracies_keep_the_slack_of_points() -> None:
    run = run_of(accuracy=[0.9, 0.895, 0.8949], nll=[3.0, 2.0, 1.0])
    for asked in (
        {"delta_pp": 0.5},
        {"delta": 0.005},
        {"delta": "0.005"},
        {"constraint": "accuracy"},
    ):
        assert cw.select(run, "ac-nll", **asked).feasible_steps == (0, 1)


def test_what_is_not_set_is_not_recorded() -> None:
    run = run_of(accuracy=[0.9, 0.89], nll=[0.5, 0.4], cwece=[0.1, 0.1])
    usual = {"delta_pp": 0.5, "q": "inf", "pareto": False, "eta": 1e-12}
    assert cw.select(run).as_dict()["params"] == usual
    assert "constraint" not in cw.select(run).as_dict()
    none: dict[str, Any] = {"constraint": None, "delta": None, "ties": None}
    assert cw.select(run, **none).as_dict() == cw.select(run).as_dict()
    relative = cw.select(run, "ac-nll", delta="2%", ties="latest").as_dict()
    assert relative["params"] == {
        "q": "inf", "pareto": False, "eta": 1e-12, "delta": "2%", "ties": "latest",
    }  # fmt: skip
    assert relative["constraint"] == {
        "metric": "accuracy", "direction": "higher", "value": 0.89, "best": 0.9,
        "gap": pytest.approx(0.01), "delta": "2%",
    }  # fmt: skip


def test_decimals_are_numbers_in_json() -> None:
    run = run_of(accuracy=[0.9, 0.89], nll=[0.5, 0.4], ece=[0.5, 0.4])
    written = [("0.1", 0.1), ("1", 1), ("1.0", 1), ("1e-3", 0.001), (0.5, 0.5)]
    for text, number in written:
        found = cw.select(run, "ac-nll", delta_pp=text).as_dict()["params"]["delta_pp"]
        assert (found, type(found)) == (number, type(number))
    assert cw.select(run, "wald", threshold_pp="80").as_dict()["params"]["threshold_pp"] == 80
    assert cw.select(run, "ac-nll", delta="0.005").as_dict()["params"]["delta"] == 0.005


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"constraint": "f1"}, "missing: f1 … --delta 0.5%"),
    ({"constraint": "f1", "delta_pp": 1}, "value: delta_pp … use --delta"),
    ({"delta": "1%", "delta_pp": 1}, "ambiguous: delta_pp … 1 … 1%"),
    ({"delta": "101%"}, "value: 0% … 100%"),
    ({"delta": "-1%"}, "value: 0"),
    ({"delta": -0.1}, "value: 0"),
    ({"delta": "half"}, "value: delta … 'half'"),
    ({"delta": "%"}, "value: delta"),
    ({"delta": 1.5}, "value: 0.005"),
    ({"constraint": "", "delta": 1}, "value"),
    ({"constraint": "f1", "delta": 0.1, "objectives": ["f1"]}, "value"),
    ({"constraint": "zeta", "delta": 0.1}, "ambiguous: --direction … zeta=higher"),
    (
        {"constraint": "f1", "delta": 0.1, "objectives": ["zeta"]},
        "ambiguous: --direction … zeta=higher",
    ),
    ({"constraint": "nope", "delta": 0.1}, "missing: nope"),
    ({"ties": "last"}, "value: earliest, latest … accuracy … 'last'"),
    ({"directions": {"zeta": "up"}}, "value: 'up'"),
    ({"directions": {"nll": "higher"}}, "value: lower … nll"),
    ({"directions": {"other": "higher"}}, "unknown: other"),
)


def test_what_does_not_fit_is_refused() -> None:
    run = run_of(
        accuracy=[0.9, 0.89], f1=[0.9, 0.89], nll=[0.5, 0.4], zeta=[0.1, 0.2], cwece=[0.1, 0.1]
    )
    usual = {"objectives": ["nll"]}
    asked = ((partial(cw.select, run, "ac", **{**usual, **one}), said) for one, said in REFUSED)
    assert taken(asked) == []


def test_the_constraint_beside_other_objectives_is_a_compromise() -> None:
    run = run_of(f1=[0.90, 0.89, 0.88], nll=[0.5, 0.4, 0.39])
    asked: dict[str, Any] = {"constraint": "f1", "delta": "5%"}
    assert cw.select(run, "ac", objectives=["nll"], **asked).step == 2
    assert cw.select(run, "ac", objectives=["nll", "f1"], **asked).step == 1


def test_a_direction_that_is_said_is_used_for_the_worst_domain_too() -> None:
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["a", "b"],
        values={"zeta": [[0.1, 0.9], [0.5, 0.6]], "nll": [[1, 1], [2, 2]]},
    )
    asked: dict[str, Any] = {"constraint": "zeta", "delta": 0, "objectives": ["nll"]}
    with refused("ambiguous: --direction … zeta=higher"):
        cw.select(run, "ac", worst_domain=True, **asked)
    for direction, step in (("higher", 2), ("lower", 2)):
        said: Any = {"zeta": direction}
        assert cw.select(run, "ac", worst_domain=True, directions=said, **asked).step == step
    lower: Any = {"zeta": "lower"}
    assert cw.select(run, "ac", directions=lower, **asked).step == 1


def test_the_bound_is_offered_for_accuracy_only() -> None:
    run = cw.Trajectory(
        steps=[1, 2],
        domains=["val"],
        values={"accuracy": [[0.9], [0.8]], "f1": [[0.9], [0.8]], "nll": [[0.5], [0.4]]},
        counts=[100],
    )
    assert cw.select(run, "ac", objectives=["nll"], delta="1%").guarantee().bound_pp > 0.9
    other = cw.select(run, "ac", objectives=["nll"], constraint="f1", delta="1%")
    with refused("unsupported: f1"):
        other.guarantee()
    assert other.tolerance_pp == 0


SAID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"constraint": "f1", "delta": "2%"}, "Validation f1 0.89, 0.01 below the best (0.9 at"),
    ({"constraint": "f1", "delta": "2%"}, "; accuracy 70.00%, 20.00 points less than there"),
    (
        {"constraint": "f1", "delta": "0"},
        "within 0 of the best, so this is simply the best by f1",
    ),
    ({"constraint": "f1", "delta": 0}, "Validation f1 0.9, the best of 3 checkpoints"),
    ({"constraint": "wer", "delta": 0.4}, "Validation wer 0.5, 0.3 above the best"),
    ({"delta": "2%"}, "within 2% (1.80 points) of the best"),
    ({"delta": 0.2}, "are within 0.2 (20.00 points) of the best"),
    ({"delta_pp": 1}, "within 1 point of the best"),
    ({"delta_pp": "1.0"}, "within 1.0 points of the best"),
)


def test_the_account_names_the_score_and_its_tolerance() -> None:
    run = run_of(
        accuracy=[0.9, 0.7, 0.1], f1=[0.9, 0.89, 0.5], wer=[0.2, 0.5, 0.9], nll=[0.5, 0.4, 0.3]
    )
    for asked, said in SAID:
        assert said in cw.select(run, "ac", objectives=["nll"], **asked).explain(), asked
