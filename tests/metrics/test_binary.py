"""One column for class 1 says the same as both, wherever predictions go in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkwise as cw
from checkwise import calibrators, metrics
from tests.metrics.cases import Array

Case = tuple[str, Array, Array, Any, Any]  # kind, both columns, labels, and both in short
FORMS: dict[str, Callable[[Array], Any]] = {
    "n": lambda a: a,
    "n-1": lambda a: a[:, None],
    "list": lambda a: a.tolist(),
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = rng.standard_normal(draw(st.integers(3, 60))) * draw(st.sampled_from([1.0, 5.0, 40.0]))
    z = z.astype(draw(st.sampled_from([np.float16, np.float32, np.float64])))
    z[-1] = 2  # never all within [0, 1]
    y = rng.integers(0, 2, len(z))
    kind = draw(st.sampled_from(["logits", "probs"]))
    wide = z.astype(np.float32 if z.dtype == np.float16 else z.dtype)
    if kind == "probs":
        one: Array = (1 / (1 + np.exp(-np.clip(z, -5, 5)))).astype(z.dtype)
        wide = one.astype(wide.dtype)
        both = np.stack([1 - wide, wide], axis=1)
    else:
        one, both = z, np.stack([np.zeros_like(wide), wide], axis=1)
    as_said = draw(st.sampled_from([np.int64, np.float32, np.bool_, np.uint8]))
    form = FORMS[draw(st.sampled_from(["n", "n-1"]))]
    forms = [*FORMS][: 3 if z.dtype == np.float64 else 2]  # a list is double precision
    return kind, both, y, FORMS[draw(st.sampled_from(forms))](one), form(y.astype(as_said))


@settings(max_examples=80, deadline=None)
@given(cases())
def test_metrics_accumulators_and_trajectories(case: Case) -> None:
    kind, both, y, one, said = case
    evaluate: Any = metrics.evaluate
    expected = evaluate(**{kind: both}, labels=y)
    assert evaluate(**{kind: one}, labels=said) == expected
    half = len(y) // 2
    parts = metrics.Accumulator(classes=2), metrics.Accumulator(classes=2)
    for rows in (slice(0, half), slice(half, None)):
        parts[0].update(**{kind: both[rows]}, labels=y[rows])
        parts[1].update(**{kind: one[rows]}, labels=said[rows])
    assert parts[0].result() == parts[1].result()
    for name in ("smece", "debiased_ece", "debiased_cwece"):
        measure = getattr(metrics, name)
        assert measure(**{kind: one}, labels=said) == measure(**{kind: both}, labels=y)

    runs = [
        cw.Trajectory.from_predictions({1: {"val": outputs}, 2: {"val": outputs}}, kind=kind)
        for outputs in ((both, y), (one, said))
    ]
    assert runs[0].identity == runs[1].identity


@settings(max_examples=30, deadline=None)
@given(cases().filter(lambda case: case[0] == "logits"))
def test_live_selection_and_calibrators(case: Case) -> None:
    _, both, y, one, said = case
    lives = []
    for outputs in ((both, y), (one, said)):
        live = cw.LiveSelector("ac-nc", guard=False)
        live.add(1, {"val": outputs})
        lives.append(live.trajectory.identity)
    assert lives[0] == lives[1]
    for name in calibrators.calibrators():
        fitted = [
            calibrators.fit({"val": pair}, name, force=True) for pair in ((both, y), (one, said))
        ]
        assert fitted[0].to_dict() == fitted[1].to_dict()
        np.testing.assert_array_equal(fitted[0].probabilities(both), fitted[0].probabilities(one))


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_a_predictions_folder(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.random((40, 1)) < 0.5
    for step in (1, 2, 3):
        z = rng.standard_normal((40, 1)).astype(np.float32) * 3
        one = z if kind == "logits" else 1 / (1 + np.exp(-z))
        both = np.concatenate([np.zeros_like(z) if kind == "logits" else 1 - one, one], axis=1)
        for name, values, labels in (("one", one, y), ("both", both, y[:, 0].astype(int))):
            file = tmp_path / name / f"step-{step:06d}" / "val.npz"
            file.parent.mkdir(parents=True)
            arrays: dict[str, Any] = {kind: values, "labels": labels}
            np.savez(file, **arrays)
    runs = [cw.load(tmp_path / name) for name in ("one", "both")]
    assert runs[0].identity == runs[1].identity
    if kind == "logits":
        assert cw.select(runs[0]).stability(draws=50).share == (
            cw.select(runs[1]).stability(draws=50).share
        )


def test_what_is_no_column_of_two_classes_is_refused_and_probabilities_are_never_guessed() -> None:
    p, y = np.tile([0.1, 0.9, 0.8], 10), np.tile([0, 1, 1], 10)
    for labels, said in ((y + 1, "from 0 to 1, but got 2"), (y + 0.5, "integer labels")):
        with pytest.raises(cw.InputError, match=said):
            metrics.evaluate(probs=p, labels=labels)
    with pytest.raises(cw.InputError, match="at least 0"):
        metrics.evaluate(probs=p + 0.5, labels=y)
    with pytest.warns(cw.CheckwiseWarning, match="pass them as `probs=`"):
        found = metrics.evaluate(logits=p, labels=y)
    assert found.nll == pytest.approx(np.log1p(np.exp(np.where(y, -p, p))).mean())
