"""What must hold for any predictions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise import metrics
from checkwise.metrics import Accumulator, Report
from tests.metrics.cases import Array

EXACT = ("accuracy", "worst_class_accuracy")


@st.composite
def predictions(draw: st.DrawFn) -> tuple[Array, Array]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, classes = draw(st.integers(1, 150)), draw(st.sampled_from([2, 3, 9, 40, 150]))
    scale = draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    return (rng.standard_normal((n, classes)) * scale).astype(kind), rng.integers(0, classes, n)


def assert_same(found: Report, expected: Report) -> None:
    for name, value in expected.values().items():
        if name in EXACT:
            assert getattr(found, name) == value, name
        else:
            assert getattr(found, name) == pytest.approx(value, rel=1e-12, abs=1e-12), name
    assert (found.n, found.correct) == (expected.n, expected.correct)
    for name, part in expected.per_class.items():
        np.testing.assert_allclose(found.per_class[name], part, rtol=1e-11, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(predictions(), st.randoms())
def test_order_of_examples_does_not_matter(case: tuple[Array, Array], random: object) -> None:
    z, y = case
    order = np.random.default_rng(len(y)).permutation(len(y))
    assert_same(
        metrics.evaluate(logits=z[order], labels=y[order]), metrics.evaluate(logits=z, labels=y)
    )


@settings(max_examples=60, deadline=None)
@given(predictions(), st.lists(st.integers(1, 80), max_size=6), st.sampled_from([0.02, 0.1]))
def test_batches_do_not_matter(
    case: tuple[Array, Array], sizes: list[int], bandwidth: float
) -> None:
    z, y = case
    acc = Accumulator(classes=z.shape[1], bandwidth=bandwidth)
    start = 0
    for size in [*sizes, len(y)]:
        if start < len(y):
            acc.update(logits=z[start : start + size], labels=y[start : start + size])
        start += size
    whole = metrics.evaluate(logits=z, labels=y, bandwidth=bandwidth)
    assert_same(acc.result(), whole)


@settings(max_examples=40, deadline=None)
@given(predictions(), st.integers(0, 150), st.integers(0, 150))
def test_merging_is_associative_and_survives_pickling(
    case: tuple[Array, Array], first: int, second: int
) -> None:
    z, y = case
    cuts = [0, *sorted((min(first, len(y)), min(second, len(y)))), len(y)]

    def part(k: int) -> Accumulator:
        acc = Accumulator(classes=z.shape[1])
        rows = slice(cuts[k], cuts[k + 1])
        if cuts[k] < cuts[k + 1]:
            acc.update(logits=z[rows], labels=y[rows])
        return pickle.loads(pickle.dumps(acc))  # type: ignore[no-any-return]

    left, right, tail = part(0), part(1), part(1)
    left.merge(part(1))
    left.merge(part(2))
    tail.merge(part(2))
    right = part(0)
    right.merge(tail)
    assert_same(left.result(), metrics.evaluate(logits=z, labels=y))
    assert_same(right.result(), left.result())


@settings(max_examples=40, deadline=None)
@given(predictions())
def test_names_of_classes_do_not_matter(case: tuple[Array, Array]) -> None:
    z, y = case
    z = z + np.arange(z.shape[1], dtype=z.dtype) * z.dtype.type(1e-3)  # no ties
    new = np.random.default_rng(0).permutation(z.shape[1])
    moved = np.empty_like(z)
    moved[:, new] = z
    a, b = metrics.evaluate(logits=z, labels=y), metrics.evaluate(logits=moved, labels=new[y])
    for name, value in a.values().items():
        assert getattr(b, name) == pytest.approx(value, rel=1e-7, abs=1e-7), name


@settings(max_examples=40, deadline=None)
@given(predictions(), st.sampled_from([0.25, 2.0, 8.0]))
def test_temperature_leaves_accuracy_alone(case: tuple[Array, Array], heat: float) -> None:
    z, y = case
    hot = metrics.evaluate(logits=z / z.dtype.type(heat), labels=y)
    plain = metrics.evaluate(logits=z, labels=y)
    assert hot.correct == plain.correct
    assert hot.worst_class_accuracy == plain.worst_class_accuracy


@settings(max_examples=40, deadline=None)
@given(predictions(), st.floats(-1000, 1000))
def test_a_constant_added_to_logits_changes_nothing(case: tuple[Array, Array], by: float) -> None:
    z, y = case[0].astype(np.float64), case[1]
    moved = metrics.evaluate(logits=z + round(by), labels=y)
    plain = metrics.evaluate(logits=z, labels=y)
    assert moved.nll == pytest.approx(plain.nll, rel=1e-7, abs=1e-10)
    assert moved.cwece == pytest.approx(plain.cwece, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_bounds(case: tuple[Array, Array]) -> None:
    z, y = case
    found = metrics.evaluate(logits=z, labels=y)
    assert 0 <= found.worst_class_accuracy <= found.accuracy <= 1
    assert found.nll >= 0
    assert 0 <= found.brier <= 2
    for name in ("ece", "cwece", "hard_ece", "hard_cwece"):
        assert -1e-12 <= getattr(found, name) <= 1 + 1e-12, name


@settings(max_examples=40, deadline=None)
@given(predictions())
def test_examples_average_to_the_metrics(case: tuple[Array, Array]) -> None:
    z, y = case
    rows, whole = metrics.per_example(logits=z, labels=y), metrics.evaluate(logits=z, labels=y)
    assert rows.nll.mean() == pytest.approx(whole.nll, rel=1e-6, abs=1e-12)
    assert rows.brier.mean() == pytest.approx(whole.brier, abs=1e-6)
    assert int(rows.correct.sum()) == whole.correct
    assert rows.predicted.tolist() == z.argmax(1).tolist()


def test_each_function_alone_is_the_field_of_the_report() -> None:
    rng = np.random.default_rng(1)
    z, y = rng.standard_normal((50, 4)), rng.integers(0, 4, 50)
    found = metrics.evaluate(logits=z, labels=y, bins=9, bandwidth=0.2)
    for name in ("accuracy", "nll", "brier", "worst_class_accuracy"):
        assert getattr(metrics, name)(logits=z, labels=y) == pytest.approx(
            found.values()[name], rel=1e-14
        )
    for name in ("hard_ece", "hard_cwece"):
        assert getattr(metrics, name)(logits=z, labels=y, bins=9) == pytest.approx(
            found.values()[name], rel=1e-14
        )
    assert metrics.ece(logits=z, labels=y, bins=9, bandwidth=0.2) == found.ece
    assert metrics.cwece(logits=z, labels=y, bins=9, bandwidth=0.2) == found.cwece
