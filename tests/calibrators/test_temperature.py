"""Temperatures: known answers, an independent optimiser, and where there is none to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from checkwise.calibrators import TS, TS_LIMIT, fit_temperature
from checkwise.calibrators.temperature import scaled
from checkwise.metrics import evaluate
from tests.calibrators.drawn import drawn
from tests.refusals import refused


def nll(beta: float, z: Any, y: Any) -> float:
    return float(-log_softmax(beta * z, axis=1)[np.arange(len(y)), y].mean())


def independent(z: Any, y: Any) -> float:
    """T by Brent's method on the NLL itself, in log β."""
    found = minimize_scalar(
        lambda s: nll(float(np.exp(s)), z, y), bracket=(-1.0, 1.0), tol=1e-14, method="brent"
    )
    return float(np.exp(-found.x))


def test_by_hand() -> None:
    # Three of four examples belong to the first class: p = 3/4, so β·2 = log 3.
    fit = fit_temperature([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    assert fit.state == "fitted"
    assert fit.value == pytest.approx(2 / np.log(3), rel=1e-12)
    assert fit.after == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)), rel=1e-12)
    assert fit.before == pytest.approx(nll(1.0, np.array([[2.0, 0.0]] * 4), [0, 0, 0, 1]))
    assert (fit.n, fit.note) == (4, "")


@pytest.mark.parametrize("true", [0.05, 0.4, 1.0, 3.0, 250.0])
def test_a_known_temperature_is_recovered(true: float) -> None:
    z, y = drawn(7, 20_000, classes=5, heat=1)
    assert fit_temperature(true * z, y).value == pytest.approx(true, rel=0.05)
    # Exactly: multiplying all logits by c multiplies the best temperature by c.
    assert fit_temperature(true * z, y).value == pytest.approx(
        true * fit_temperature(z, y).value, rel=1e-9
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stretch", [0.01, 1.0, 30.0])
def test_an_independent_optimiser_agrees(seed: int, stretch: float) -> None:
    z, y = drawn(seed, 500, classes=3 + seed, heat=1)
    assert fit_temperature(stretch * z, y).value / stretch == pytest.approx(
        independent(z, y), rel=1e-6
    )


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    classes=st.integers(2, 6),
    size=st.floats(-8, 8),
)
def test_the_answer_is_a_minimum_or_says_that_there_is_none(
    seed: int, n: int, classes: int, size: float
) -> None:
    random = np.random.default_rng(seed)
    z = 10.0**size * random.normal(size=(n, classes))
    y = random.integers(0, classes, n)
    fit = fit_temperature(z, y)
    unit = z / np.abs(z).max()
    right = (z.argmax(axis=1) == y).all()
    useful = (unit.mean(axis=1) - unit[np.arange(n), y]).mean() < 0
    assert fit.finite == (useful and not right)
    if fit.finite:
        best = nll(1 / fit.value, z, y)
        assert best <= fit.before + 1e-12
        for factor in (0.9, 0.999, 1.001, 1.1):
            assert best <= nll(factor / fit.value, z, y) + 1e-12
    else:
        assert fit.value == 1.0
        assert fit.state == ("separable" if right and useful else "uniform")


def test_it_says_when_no_finite_temperature_is_best() -> None:
    separable = fit_temperature([[1.0, 0.0], [0.0, 2.0]], [0, 1])
    assert (separable.state, separable.value) == ("separable", 1.0)
    assert "T falls to 0" in separable.note
    uniform = fit_temperature([[1.0, 0.0], [0.0, 2.0]], [1, 0])
    assert uniform.state == "uniform"
    assert "T stays 1" in uniform.note
    flat = fit_temperature([[3.0, 3.0], [0.0, 0.0]], [1, 0])
    assert flat.state == "flat"
    assert flat.after == pytest.approx(np.log(2))


def test_weights_count_like_repetitions() -> None:
    z, y = drawn(3, 40)
    times = np.random.default_rng(0).integers(0, 4, 40)
    repeated = fit_temperature(np.repeat(z, times, axis=0), np.repeat(y, times))
    assert fit_temperature(z, y, weights=times).value == pytest.approx(repeated.value, rel=1e-12)


def test_scaling_leaves_predictions_alone_even_between_neighbouring_floats() -> None:
    random = np.random.default_rng(5)
    z = random.normal(size=(3000, 4)).astype(np.float32)
    z[:, 1] = np.nextafter(z[:, 0], np.float32(9))  # the closest race single precision allows
    y = random.integers(0, 4, 3000)
    for t in (1e-3, 1 / 3, 0.7, 1.1, 17.0, 1e4):
        assert (scaled(z, t).argmax(axis=1) == z.argmax(axis=1)).all()
    before, after = evaluate(logits=z, labels=y), evaluate(logits=scaled(z, 1.7), labels=y)
    assert after.accuracy == before.accuracy
    np.testing.assert_allclose(scaled(z, np.full(3000, 2.0)), z.astype(float) / 2)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (([[[1.0, 2.0]]], [0]), "value: 2 … 1, 1, 2"),
        (([], []), "value: 1"),
        (([[1.0, 2.0]], [2]), "value: 1 … 0"),
        (([[1.0, 2.0]], [0.5]), "value: float64"),
        (([[1.0, 2.0]], [0, 1]), "value: 2"),
        (([[1.0, 2.0], [np.inf, 0.0]], [0, 1]), "value: 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(given_: Any, message: str) -> None:
    with refused(message):
        fit_temperature(*given_)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]])
def test_weights_have_to_be_weights(weights: Any) -> None:
    with refused("value: 2 … 0"):
        fit_temperature([[1.0, 2.0], [0.0, 1.0]], [0, 1], weights=weights)


@pytest.mark.parametrize(("labels", "limit"), [([1, 1, 1], np.log(2)), ([0, 0, 0], 0.0)])
def test_at_best_a_temperature_reaches_its_limit_where_no_finite_one_is_best(
    labels: list[int], limit: float
) -> None:
    logits = {"here": (np.array([[2.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), np.array(labels))}
    fitted = TS_LIMIT.fit(logits, force=True)
    assert fitted.after == pytest.approx(limit, abs=1e-12)
    assert fitted.metrics(logits, bins=15, bandwidth=0.1)["here"]["accuracy"] == (limit == 0.0)
    assert TS.fit(logits, force=True).temperature == 1.0
