"""Exact tests, max-t intervals and standard errors against outside oracles."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from checkwise.statistics.multiplicity import holm
from checkwise.statistics.paired import Stratified, max_t, mcnemar
from checkwise.statistics.paired.simultaneous import deviations
from tests.refusals import refused
from tests.statistics.paired_samples import drawn

GOLDEN = np.load(Path(__file__).with_name("golden") / "oracles.npz")


def test_mcnemar_and_holm_equal_statsmodels() -> None:
    sample = Stratified((GOLDEN["correct"],), [1.0])
    tested = mcnemar(sample, reference=0, alpha=0.05, fixed_reference=True)
    np.testing.assert_allclose(tested.p[1:], GOLDEN["mcnemar"], rtol=1e-9)
    np.testing.assert_allclose(tested.corrected[1:], GOLDEN["holm"], rtol=1e-9)
    assert tested.different.tolist() == [False, *(GOLDEN["holm"] <= 0.05)]
    assert 0 < tested.different.sum() < 5


def test_equal_weights_per_example_are_one_sign_test() -> None:
    sample = drawn(1, [0.9, 0.5], [50, 50])
    both = np.concatenate(sample.values, axis=1)
    wins, losses = int((both[0] > both[1]).sum()), int((both[0] < both[1]).sum())
    expected = binomtest(wins, wins + losses).pvalue
    assert mcnemar(sample, reference=0, alpha=0.05).p[1] == pytest.approx(expected)


@pytest.mark.parametrize("groups", [None, 4])
def test_unequal_weights_by_enumeration_of_all_signs(groups: int | None) -> None:
    sample = drawn(3, [0.8, 0.6], [10, 15], groups=groups)
    steps = [16, round(16 * 10 / 15)]  # an example of the smaller domain counts 1.5 times as much
    moved = []
    for e, values in enumerate(sample.values):
        of = np.arange(values.shape[1]) if sample.groups is None else sample.groups[e]
        sums = [int((values[0] - values[1])[of == g].sum()) for g in np.unique(of)]
        moved += [steps[e] * d for d in sums if d]
    observed = abs(sum(moved))
    patterns = [sum(s * d for s, d in zip(signs, moved, strict=True))
                for signs in product((1, -1), repeat=len(moved))]  # fmt: skip
    expected = np.mean([abs(total) >= observed for total in patterns])
    assert 3 <= len(moved) <= 16
    assert mcnemar(sample, reference=0, alpha=0.05).p[1] == pytest.approx(expected)


def test_a_reference_that_was_chosen_pays_for_all_pairs() -> None:
    sample = drawn(4, [0.9, 0.8, 0.6], [60])
    p = {(s, t): mcnemar(sample, reference=s, alpha=0.05).p[t] for s in range(3) for t in range(s)}
    corrected = dict(zip(p, holm(np.array(list(p.values()))), strict=True))
    chosen = mcnemar(sample, reference=1, alpha=0.05)
    assert chosen.corrected[[0, 2]] == pytest.approx([corrected[1, 0], corrected[2, 1]])
    assert np.isnan(chosen.corrected[1])


def test_other_values_than_right_and_wrong_are_refused_by_mcnemar() -> None:
    with refused("unsupported: 0 … 1"):
        mcnemar(Stratified(([[0.5], [1.0]],), [1.0]), reference=0, alpha=0.05)


@pytest.mark.parametrize("groups", [None, 9])
def test_errors_are_those_of_a_literal_resampling(groups: int | None) -> None:
    sample = drawn(5, [0.8, 0.7, 0.75], [40, 60], weights=[0.3, 0.7], groups=groups)
    literal = np.zeros((3, 3))
    for e, values in enumerate(sample.values):
        of = np.arange(values.shape[1]) if sample.groups is None else sample.groups[e]
        names = np.unique(of)
        centred = values - values.mean(axis=1, keepdims=True)
        sums = np.stack([centred[:, of == g].sum(axis=1) for g in names], axis=1)
        scale = sample.weights[e] / values.shape[1]
        literal += len(names) / (len(names) - 1) * scale**2 * (sums @ sums.T)
    np.testing.assert_allclose(sample.covariance, literal, atol=1e-15)
    moved = np.concatenate(list(deviations(sample, draws=20_000, seed=1)))
    np.testing.assert_allclose(np.cov(moved.T), literal, rtol=0.06, atol=1e-6)
    assert np.abs(moved.mean(axis=0)).max() < 4 * np.sqrt(literal.max() / 20_000)


def test_the_errors_of_single_examples_are_the_textbooks() -> None:
    values = np.array([[1.0, 0, 1, 1, 0], [1.0, 1, 1, 1, 0]])
    sample = Stratified((values,), [1.0])
    gained = values[1] - values[0]
    assert sample.difference_errors[0, 1] == pytest.approx(gained.std(ddof=1) / 5**0.5)
    assert np.sqrt(sample.covariance[1, 1]) == pytest.approx(0.2)


def test_max_t_of_two_checkpoints_is_a_normal_interval() -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=(2, 500)) * 5  # any real numbers
    sample = Stratified((values,), [1.0])
    found = max_t(sample, reference=0, alpha=0.05, draws=8000)
    assert found.critical == pytest.approx(norm.isf(0.025), abs=0.07)
    gained = values[1] - values[0]
    assert found.estimate[1] == pytest.approx(gained.mean())
    assert found.error[1] == pytest.approx(gained.std(ddof=1) / 500**0.5)
    assert found.upper[1] == pytest.approx(found.estimate[1] + found.critical * found.error[1])
    assert (found.lower[0], found.upper[0]) == (0.0, 0.0)


def test_max_t_by_the_definition() -> None:
    sample = drawn(8, [0.8, 0.7, 0.75, 0.78], [30, 50])
    found = max_t(sample, reference=2, alpha=0.1, draws=99, seed=4)
    moved = np.concatenate(list(deviations(sample, draws=99, seed=4)))
    one_more = 0.25 / 30**2 + 0.25 / 50**2
    largest, with_reference = [], []
    for row in moved:
        scores = {
            (s, t): abs(row[s] - row[t]) / np.sqrt(sample.difference_errors[s, t] ** 2 + one_more)
            for s in range(4)
            for t in range(s)
        }
        largest.append(max(scores.values()))
        with_reference.append(max(v for pair, v in scores.items() if 2 in pair))
    assert found.critical == pytest.approx(sorted(largest)[89])
    fixed = max_t(sample, reference=2, alpha=0.1, draws=99, seed=4, fixed_reference=True)
    assert fixed.critical == pytest.approx(sorted(with_reference)[89])
    assert fixed.critical <= found.critical


def test_checkpoints_that_agree_on_everything_are_still_uncertain() -> None:
    sample = Stratified(([[1, 0, 1, 1]] * 2 + [[0, 1, 1, 0]],), [1.0])
    found = max_t(sample, reference=0, alpha=0.05, draws=200)
    assert found.lower[1] < 0 < found.upper[1]


def test_spread_needs_two_units_in_every_domain() -> None:
    sample = Stratified((np.ones((2, 3)), np.ones((2, 1))), [0.5, 0.5])
    with refused("unsupported"):
        max_t(sample, reference=0, alpha=0.1)
