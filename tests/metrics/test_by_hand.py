"""Numbers small enough to be worked out on paper."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from checkwise import metrics

# Three examples, two classes; predictions 0, 1, 0; the last one is wrong.
P = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
Y = np.array([0, 1, 1])


def test_counts_and_scores() -> None:
    found = metrics.evaluate(probs=P, labels=Y)
    assert (found.n, found.correct, found.classes) == (3, 2, 2)
    assert found.accuracy == 2 / 3
    assert found.worst_class_accuracy == 0.5  # class 0: 1 of 1, class 1: 1 of 2
    assert found.nll == pytest.approx(-(log(0.9) + log(0.7) + log(0.4)) / 3, rel=1e-14)
    # 2 (0.1^2 + 0.3^2 + 0.6^2) / 3
    assert found.brier == pytest.approx(0.92 / 3, rel=1e-14)


def test_hard_errors() -> None:
    found = metrics.evaluate(probs=P, labels=Y, bins=2)
    # All confidences are above 0.5: |2/3 - (0.9 + 0.7 + 0.6)/3| = |2 - 2.2|/3.
    assert found.hard_ece == pytest.approx(0.2 / 3, abs=1e-10)
    # Class 0: {0.3} has no label, {0.9, 0.6} has one: (0.3 + 0.5)/3; class 1 mirrors it:
    # {0.1, 0.4} has one label, {0.7} has one: (0.5 + 0.3)/3; weights 1/3 and 2/3.
    assert found.hard_cwece == pytest.approx(0.8 / 3, abs=1e-10)


def test_soft_errors_with_two_bins() -> None:
    """One example, centres 0 and 1, h = 1: every bar is the example itself."""
    found = metrics.evaluate(probs=[[0.75, 0.25]], labels=[1], bins=2, bandwidth=1.0)
    assert found.ece == pytest.approx(0.75**2, abs=1e-8)
    assert found.cwece == pytest.approx((0.75**2 + 0.75**2) / 2, abs=1e-8)


def test_soft_ece_of_two_examples() -> None:
    """u = 0.5 (wrong) and 1 (right), centres 0 and 1, h = 1."""
    g = exp(-1 / 2)
    low, high = 0.5, g / (1 + g)  # weights of the two examples at centre 0
    found = metrics.ece(probs=[[0.5, 0.5], [1.0, 0.0]], labels=[1, 0], bins=2, bandwidth=1.0)
    total = 0.0
    for first, second in ((low, high), (1 - low, 1 - high)):
        weight = first + second
        gap = second / weight - (0.5 * first + second) / weight
        total += weight / 2 * gap**2
    assert found == pytest.approx(total, abs=1e-8)


def test_first_of_equal_maxima_is_the_prediction() -> None:
    tie = np.array([[1.0, 1.0, 0.0]])
    assert metrics.accuracy(logits=tie, labels=[0]) == 1.0
    assert metrics.accuracy(logits=tie, labels=[1]) == 0.0
    wide = np.zeros((1, 77), dtype=np.float32)
    wide[0, [40, 70]] = 3
    assert metrics.per_example(logits=wide, labels=[70]).predicted.tolist() == [40]


def test_a_clamped_denominator_shrinks_an_almost_empty_class() -> None:
    """p = 1e-12 twice: sum V < 1e-8, so shares and bars are taken of 1e-8, not of themselves."""
    p = np.array([[1 - 1e-12, 1e-12]])
    found = metrics.evaluate(probs=p, labels=[1], bins=2, bandwidth=1.0).per_class["cwece"][1]
    v = np.array([1e-12, 1e-12 * exp(-1 / 2)])
    expected = float((v / 1e-8 * (v / 1e-8) ** 2).sum()) / 2
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_sure_and_right_prediction_costs_nothing() -> None:
    found = metrics.evaluate(logits=[[900.0, 0.0, 0.0]], labels=[0])
    assert max(found.nll, found.brier, found.ece, found.hard_ece) < 1e-20


def test_values_are_plain_floats_in_the_documented_order() -> None:
    values = metrics.evaluate(probs=P, labels=Y).values()
    assert list(values) == list(metrics.METRICS)[:8]
    assert all(type(value) is float for value in values.values())
