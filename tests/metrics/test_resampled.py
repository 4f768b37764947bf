"""Metrics of resamples from sums are those of the resampled examples themselves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkwise.metrics import RESAMPLED, evaluate, resampled
from checkwise.metrics import resamples as module
from checkwise.statistics import TOGETHER, resampled_counts
from tests.refusals import refused


def drawn(n: int, classes: int, sharpness: float, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = 1.5 * random.normal(size=(n, classes))
    logits[np.arange(n), labels] += sharpness
    return logits, labels


def literal(counts: Any, values: Any, labels: Any, **settings: Any) -> dict[str, Any]:
    """Every resample written out and measured afresh."""
    found = []
    for row in counts:
        rows = np.repeat(np.arange(len(labels)), row)
        given = {kind: array[rows] for kind, array in values.items()}
        found.append(evaluate(**given, labels=labels[rows], **settings).values())
    return {name: np.array([one[name] for one in found]) for name in RESAMPLED}


@pytest.mark.parametrize(
    ("n", "classes", "sharpness", "bins", "bandwidth"),
    [(60, 7, 4.0, 15, 0.1), (40, 65, 6.0, 15, 0.1), (9, 3, 0.0, 10, 0.02), (25, 2, 30.0, 4, 0.5)],
)
def test_equal_to_the_literal_version(
    n: int, classes: int, sharpness: float, bins: int, bandwidth: float
) -> None:
    logits, labels = drawn(n, classes, sharpness)
    counts = resampled_counts(n, 25, seed=1)
    fast = resampled(
        RESAMPLED, counts, logits=logits, labels=labels, bins=bins, bandwidth=bandwidth
    )
    slow = literal(counts, {"logits": logits}, labels, bins=bins, bandwidth=bandwidth)
    for name in RESAMPLED:
        np.testing.assert_allclose(fast[name], slow[name], rtol=0, atol=1e-10, err_msg=name)


@settings(max_examples=40, deadline=None)
@example(1, 3, 3)  # powers of the smallest probability underflow
@given(st.integers(1, 12), st.integers(2, 6), st.integers(0, 10**6))
def test_any_counts_of_any_predictions(n: int, classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(n, classes)) * random.choice([0.0, 1.0, 20.0])
    labels = random.integers(0, classes, n)
    counts = random.integers(0, 4, (5, n))
    counts[:, random.integers(0, n)] += 1  # no sample is empty
    fast = resampled(RESAMPLED, counts, logits=logits, labels=labels)
    slow = literal(counts, {"logits": logits}, labels)
    for name in RESAMPLED:  # to what eight moments leave of a Gaussian: see `gaussians`
        np.testing.assert_allclose(fast[name], slow[name], rtol=0, atol=6e-9, err_msg=name)


def test_every_example_once_is_the_report_itself() -> None:
    logits, labels = drawn(50, 5, 2.0)
    once = resampled(RESAMPLED, np.ones((1, 50), dtype=int), logits=logits, labels=labels)
    for name, value in evaluate(logits=logits, labels=labels).values().items():
        assert once[name][0] == pytest.approx(value, abs=1e-10)


def test_probabilities_are_taken_as_given() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    labels = np.arange(30) % 4
    counts = resampled_counts(30, 10, seed=0)
    fast = resampled(RESAMPLED, counts, probs=probs, labels=labels)
    slow = literal(counts, {"probs": probs}, labels)
    for name in RESAMPLED:
        np.testing.assert_allclose(fast[name], slow[name], rtol=0, atol=1e-10, err_msg=name)


def test_many_classes_are_taken_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = drawn(30, 23, 5.0)
    counts = resampled_counts(30, 10, seed=0)
    whole = resampled(RESAMPLED, counts, logits=logits, labels=labels)
    monkeypatch.setattr(module, "_POWERS_AT_ONCE", 30 * 10 * 5)  # five classes
    monkeypatch.setattr(module, "_SUMS_AT_ONCE", 1)
    parts = resampled(RESAMPLED, counts, logits=logits, labels=labels)
    for name in RESAMPLED:
        np.testing.assert_allclose(parts[name], whole[name], rtol=0, atol=1e-13, err_msg=name)


def test_what_cannot_be_used_is_refused_with_its_place() -> None:
    logits, labels = drawn(10, 3, 1.0)
    with refused("value: 10"):
        resampled(["nll"], np.ones((2, 9)), logits=logits, labels=labels)
    with refused("unknown: accuracy"):
        resampled(["f1"], np.ones((2, 10)), logits=logits, labels=labels)
    logits[4, 1] = np.nan
    with refused("value: 4"):
        resampled(["nll"], np.ones((2, 10)), logits=logits, labels=labels)


def test_counts_are_those_of_draws_with_replacement() -> None:
    counts = resampled_counts(40, 4000, seed=3)
    assert (counts.sum(axis=1) == 40).all()
    # Multinomial: mean 1, variance 1 - 1/n, covariance -1/n.
    assert counts.mean(axis=0) == pytest.approx(np.ones(40), abs=0.08)
    assert np.cov(counts.T).trace() / 40 == pytest.approx(1 - 1 / 40, abs=0.02)


def test_whole_groups_are_drawn() -> None:
    groups = np.array([5, 5, 5, 9, 2, 2])
    counts = resampled_counts(6, 300, seed=0, groups=groups)
    assert (counts[:, [0]] == counts[:, :3]).all()
    assert (counts[:, 4] == counts[:, 5]).all()
    assert (counts[:, [0, 3, 4]].sum(axis=1) == 3).all()


def test_draws_do_not_depend_on_how_many_are_made_together() -> None:
    whole = resampled_counts(7, 2 * TOGETHER + 5, seed=0, name="photo")
    again = resampled_counts(7, TOGETHER, seed=0, name="photo", first=TOGETHER)
    assert np.array_equal(whole[TOGETHER : 2 * TOGETHER], again)
    other = resampled_counts(7, TOGETHER, seed=0, name="sketch", first=TOGETHER)
    assert not np.array_equal(again, other)
