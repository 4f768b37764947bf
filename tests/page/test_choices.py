"""What the page holds is what the library chooses, at every tolerance and under every rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.page.choices import OFFERED, STOPS, run_data, stops_with
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Choice, Selection, explain
from checkwise.study import Cohort, sentences
from checkwise.study.report.facts import cohort_facts
from checkwise.study.report.page_data import STOPS as STOPS_OF_STUDIES
from checkwise.study.report.page_data import cohort_data
from tests.study.cohorts import demo_like


def random_run(random: np.random.Generator, number: int) -> Trajectory:
    """A run made to land on edges: ties, exact tolerances, diverged checkpoints."""
    T, E = int(random.integers(1, 24)), int(random.integers(1, 4))
    diverged = random.random(T) < random.choice([0, 0, 0.2])
    diverged[int(random.integers(T))] = False
    counts = np.full(E, int(random.choice([20, 100, 200, 1000])))
    near = np.clip(0.8 + random.choice([0.001, 0.01, 0.05]) * random.normal(size=(T, E)), 0, 1)
    correct = np.rint(near * counts).astype(np.int64)
    digits = int(random.choice([1, 2, 17]))
    values = {"accuracy": correct / counts}
    values |= {name: np.round(random.random((T, E)), digits) for name in ("nll", "cwece")}
    lost = diverged[:, None]
    return Trajectory(
        steps=np.sort(random.choice(5000, T, replace=False)),
        domains=[f"d{e}" for e in range(E)],
        values={name: np.where(lost, np.nan, v) for name, v in values.items()},
        counts=counts,
        correct=np.where(lost, 0, correct),
        diverged=diverged,
        key=RunKey("D", "ERM", ("x",), 0, number),
    )


def at(data: dict[str, Any], key: str, stop: int) -> list[Any]:
    """The piece that the page looks up."""
    pieces: list[list[Any]] = data["runs"][0]["choices"][key]
    return [piece for piece in pieces if piece[0] <= stop][-1]


def agrees(data: dict[str, Any], key: str, stop: int, chosen: Selection, delta: str) -> None:
    start, best, near, words = at(data, key, stop)
    del start
    run, view = data["runs"][0], data["runs"][0]["views"][key.rpartition("|")[2]]
    assert run["steps"][best[0]] == chosen.step
    within = [
        t for t, gap in enumerate(view["gap"]) if gap is not None and gap <= float(delta) + 1e-9
    ]
    eligible = [run["steps"][t] for t in (within if near is None else near)]
    assert eligible == list(chosen.feasible_steps)
    points = "1 point" if delta == "1" else f"{delta} points"
    ours = words.replace("{points}", points)
    # A tolerance below one example is said only where it was asked for.
    said = explain(chosen)
    assert ours == said or "more than the tolerance" in said + ours, (delta, ours, said)


def test_random_runs_at_every_tolerance() -> None:
    random = np.random.default_rng(0)
    compared = 0
    for number in range(60):
        run = random_run(random, number)
        guard = bool(number % 2)
        data = run_data(cw.select(run, guard=guard), "run")
        for rule in OFFERED:
            for stop in random.choice(len(STOPS), 4, replace=False):
                norms = ("inf", "2", "1") if rule == "ac-nc" else ("",)
                q = str(random.choice(norms))
                weights = (
                    "equal" if len(run.domains) == 1 else str(random.choice(["equal", "sample"]))
                )
                asked: dict[str, Any] = {"q": float(q)} if q else {}
                takes = rule not in ("source-acc", "pure-nll")
                if takes:
                    asked["delta_pp"] = STOPS[stop]
                chosen = cw.select(run, rule, weights=weights, guard=guard, **asked)
                agrees(data, f"{rule}|{q}|{weights}", int(stop), chosen, STOPS[stop])
                compared += 1
    assert compared == 60 * 6 * 4


def test_the_tolerance_that_was_asked_for_is_one_of_the_stops() -> None:
    assert stops_with(Choice("ac-nc", {"delta_pp": "0.33"}))[6:9] == ["0.3", "0.33", "0.35"]
    assert stops_with(Choice("ac-nc", {"delta_pp": "0.50"})) == list(STOPS)
    assert stops_with(Choice("source-acc")) == list(STOPS)


def test_the_worst_set_and_weights_of_ones_own_are_told_apart() -> None:
    run = random_run(np.random.default_rng(3), 0)
    while len(run.domains) == 1 or len(run) < 5:
        run = random_run(np.random.default_rng(len(run) + 10), 0)
    data = run_data(cw.select(run, guard=False), "run")
    assert set(data["runs"][0]["views"]) == {"equal", "sample", "worst"}
    worst = cw.select(run, "ac-nc", worst_domain=True, delta_pp="2", guard=False)
    agrees(data, "ac-nc|inf|worst", 40, worst, "2")
    own = dict.fromkeys(run.domains, 1.0) | {run.domains[0]: 3.0}
    data = run_data(cw.select(run, "ac-nc", weights=own, guard=False), "run")
    assert set(data["runs"][0]["views"]) == {"own"}


@pytest.mark.parametrize("settings", [{"pareto": True}, {"weights": "sample"}, {"q": 2}])
def test_a_page_opens_with_what_was_asked_for(settings: dict[str, Any]) -> None:
    run = replace(random_run(np.random.default_rng(5), 0))
    chosen = cw.select(run, "ac-nc", guard=False, delta_pp="1", **settings)
    data = run_data(chosen, "run")
    first = data["start"]
    agrees(data, f"{first['rule']}|{first['q']}|{first['weighting']}", first["stop"], chosen, "1")


def test_a_study_is_compared_as_the_library_compares_it(tmp_path: Any) -> None:
    cohort = Cohort.open(demo_like(tmp_path, runs_per_algorithm=2))
    domains: dict[str, Any] = {"weights": "equal", "worst_domain": False}
    facts = cohort_facts(cohort, ["ac-nc", "ac-mean"], **domains)
    data = cohort_data(cohort, facts, {}, domains)
    study, stop = data["study"], STOPS_OF_STUDIES.index("1")

    def held(table: dict[str, Any], rule: str) -> Any:
        return [value for start, value in table[rule] if start <= stop][-1]

    for rule in ("ac-nc", "ac-mean"):
        expected = cohort.contrasts([rule], delta_pp="1")
        assert held(study["answers"], rule) == sentences.answer(expected)
        cells = held(study["targets"], rule)["cells"]
        assert [cell["mean"] for cell in cells] == [row.mean for row in expected]
        assert [cell["interval"] for cell in cells] == [sentences.interval(row) for row in expected]
    chosen = {
        key: cw.select(run, "ac-nc", delta_pp="1", guard=False)
        for key, run in cohort.usable.items()
    }
    usual = {key: cw.select(run, "source-acc", guard=False) for key, run in cohort.usable.items()}
    differ = sum(chosen[key].step != usual[key].step for key in chosen)
    assert held(study["source"], "ac-nc")["differ"] == differ
    for run, key in zip(data["runs"], sorted(cohort.usable), strict=True):
        pieces = [p for p in run["choices"]["ac-nc||report"] if p[0] <= stop]
        assert run["steps"][pieces[-1][1][0]] == chosen[key].step


def test_a_study_opens_on_a_run_where_the_rules_differ(tmp_path: Any) -> None:
    facts = cohort_facts(Cohort.open(demo_like(tmp_path, runs_per_algorithm=3)), ["ac-nc"])
    usual = facts.chosen["source-acc"][facts.example_key]
    assert facts.example.step != usual.step
