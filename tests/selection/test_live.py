"""Selecting while training equals selecting afterwards."""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import checkwise as cw
from tests.refusals import refused

LABELS = np.random.default_rng(0).integers(0, 4, 60)


def outputs(seed: int, skill: float) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    right = np.eye(4)[LABELS] * skill
    return {name: (right + rng.normal(size=(60, 4)), LABELS) for name in ("a", "b")}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.sampled_from([0.5, 5.0, 20.0]))
def test_at_every_step_the_choice_is_that_of_the_run_so_far(seeds: list[int], delta: float) -> None:
    live = cw.LiveSelector("ac-nc", delta_pp=delta)
    saved: dict[int, dict[str, tuple[Any, Any]]] = {}
    dropped: set[int] = set()
    for t, seed in enumerate(seeds):
        saved[t] = outputs(seed, skill=seed / 300)
        live.add(t, saved[t])
        after = cw.select(cw.Trajectory.from_predictions(saved), "ac-nc", delta_pp=delta)
        assert live.choice == after.step
        assert dropped <= set(live.droppable), "what was droppable stays droppable"
        assert live.choice not in live.droppable
        dropped |= set(live.droppable)


def test_rules_that_may_return_to_any_checkpoint_drop_nothing() -> None:
    live = cw.LiveSelector("pure-nll")
    live.add(0, outputs(1, 0.1))
    live.add(1, outputs(2, 3.0))
    assert live.droppable == ()


def test_a_run_that_starts_diverged_has_no_choice_yet() -> None:
    live = cw.LiveSelector()
    live.add(0, {"a": (np.full((60, 4), np.nan), LABELS)})
    assert (live.choice, live.droppable) == (None, ())
    live.add(1, {"a": outputs(0, 1.0)["a"]})
    assert (live.choice, live.droppable) == (1, (0,))


def test_reports_of_streamed_validation_are_accepted() -> None:
    z, y = outputs(3, 1.0)["a"]
    streamed = cw.metrics.Accumulator(classes=4)
    for start in range(0, 60, 7):
        streamed.update(logits=z[start : start + 7], labels=y[start : start + 7])
    live = cw.LiveSelector()
    live.add(10, {"a": streamed.result()})
    direct = cw.LiveSelector()
    direct.add(10, {"a": (z, y)})
    assert live.selection is not None
    assert direct.selection is not None
    assert live.selection.accuracy == direct.selection.accuracy


def test_mistakes_are_refused_at_once() -> None:
    with refused("value: 0 … -1"):
        cw.LiveSelector("ac-nc", delta_pp=-1)
    live = cw.LiveSelector()
    for step in (1.5, -1, "1", True):
        with refused("value: 0"):
            live.add(step, outputs(0, 1.0))  # type: ignore[arg-type]
    with refused("value"):
        live.add(1, outputs(0, 1.0)["a"])  # type: ignore[arg-type]
    live.add(1, outputs(0, 1.0))
    wider = {name: (np.hstack([z, z]), y) for name, (z, y) in outputs(1, 1.0).items()}
    with refused("differs: classes … 'a' … 2"):
        live.add(2, wider)


def test_a_step_added_again_replaces_its_record_and_order_does_not_matter() -> None:
    live, direct = cw.LiveSelector(), cw.LiveSelector()
    for step, seed in ((20, 1), (10, 2), (20, 3), (15, 4)):
        live.add(step, outputs(seed, 1.0))
    for step, seed in ((10, 2), (15, 4), (20, 3)):
        direct.add(step, outputs(seed, 1.0))
    assert live.steps == (10, 15, 20)
    assert live.trajectory.digest == direct.trajectory.digest
    assert live.choice == direct.choice


def test_nothing_is_droppable_under_a_rule_that_is_not_prunable() -> None:
    live = cw.LiveSelector("wald", threshold_pp=60)
    right, labels = np.array([[2.0, 0.0], [0.0, 1.0]]), [0, 1]
    live.add(100, {"val": (-right, labels)})  # below the threshold, so not eligible
    live.add(200, {"val": (right, labels)})
    assert live.selection is not None
    assert live.selection.feasible_steps == (200,)
    assert live.droppable == ()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    st.sampled_from(["brier", "nll", "worst_class_accuracy", "accuracy"]),
    st.sampled_from(["1%", "20%", "100%", "0.02", "0.3"]),
    st.sampled_from(["earliest", "latest", "accuracy"]),
)
def test_any_constraint_prunes_only_what_is_never_chosen_later(
    seeds: list[int], constraint: str, delta: str, ties: str
) -> None:
    asked: dict[str, Any] = {"constraint": constraint, "delta": delta, "ties": ties}
    asked["objectives"] = ["cwece"]
    live = cw.LiveSelector("ac", **asked)
    saved: dict[int, dict[str, tuple[Any, Any]]] = {}
    dropped: set[int] = set()
    for t, seed in enumerate(seeds):
        saved[t] = outputs(seed, skill=seed / 300)
        live.add(t, saved[t])
        after = cw.select(cw.Trajectory.from_predictions(saved), "ac", **asked)
        assert live.choice == after.step
        assert live.choice not in dropped
        assert dropped <= set(live.droppable), "what was droppable stays droppable"
        dropped |= set(live.droppable)


@settings(max_examples=300, deadline=None)
@example([0.0, 9e-131, -1.0], "loss", "99.9999999999%")
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9),
    st.sampled_from(["f1", "loss"]),
    st.sampled_from(["0%", "1%", "99.9999999999%", "100%", "0", "0.5", "1e-20"]),
)
def test_what_is_below_the_tolerance_stays_below(
    values: list[float], constraint: str, delta: str
) -> None:
    """Also where scores are negative: a relative edge only moves towards better values."""
    below: set[int] = set()
    for t in range(1, len(values) + 1):
        run = cw.Trajectory(
            steps=np.arange(t),
            domains=["val"],
            values={constraint: np.c_[values[:t]], "latency": np.ones((t, 1))},
        )
        asked: dict[str, Any] = {"constraint": constraint, "delta": delta}
        chosen = cw.select(run, "ac", objectives=["latency"], **asked)
        feasible = set(chosen.feasible_steps)
        assert not below & feasible
        below |= set(range(t)) - feasible


def test_a_live_selection_takes_no_constraint_that_it_cannot_know() -> None:
    live = cw.LiveSelector("ac", constraint="f1", delta="1%", objectives=["nll"])
    live.add(1, outputs(0, 1.0))
    with refused("missing: f1"):
        _ = live.choice
    with refused("missing: brier"):
        cw.LiveSelector("ac", constraint="brier", objectives=["nll"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 6), st.sampled_from([40, None]), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["ac-nll", "ac-random", "source-acc", "pure-nll", "ac-early"]),
)
def test_asking_often_or_at_the_end_is_the_same(
    rows: list[tuple[int, int, int | None, bool]], rule: str
) -> None:
    """Steps in any order, replaced ones, without counts, diverged: what was asked for remains."""
    often = cw.LiveSelector(rule)
    for t, (step, wrong, n, ask) in enumerate(rows):
        entry = {"accuracy": (40 - wrong) / 40, "nll": 1.0 + t % 3}
        entry |= {} if n is None else {"n": n}
        entry["nll"] = float("nan") if t % 5 == 3 else entry["nll"]
        often.add(step, {"val": entry})
        whole = None if all(r.diverged for r in often.records.values()) else often.trajectory
        chosen = None if whole is None else cw.select(whole, rule)
        if ask:
            assert often.choice == (chosen and chosen.step)
            assert often.choice is None or often.choice in often.keep
            assert set(often.keep).isdisjoint(often.droppable)
            assert set(often.keep) | set(often.droppable) == set(often.steps)
    kept = often.keep
    assert often.selection is None or kept == often.keep, "as judged by the whole run"


def test_the_time_to_add_and_to_choose_does_not_grow_with_the_run() -> None:
    live = cw.LiveSelector("ac-nll")
    seconds = []  # of every hundred, on the processor: a busy machine may take any one away
    for hundred in range(200):
        started = process_time()
        for step in range(100 * hundred, 100 * hundred + 100):
            live.add(step, {"val": {"accuracy": 0.5 + step / 50_000, "nll": 1.0, "n": 50_000}})
        assert live.choice is not None
        seconds.append(process_time() - started)
    assert median(seconds[-20:]) < 3 * median(seconds[:20])
