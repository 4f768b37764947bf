"""What the single calibrators do, by hand, and where they find nothing to fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise.calibrators import (
    change_of,
    cross_fitted,
    fit,
    fit_temperature,
    get_calibrator,
    nll_after,
)
from checkwise.calibrators.cross_fit import SMALL, folds_of
from tests.calibrators.drawn import domains, drawn, nearly_perfect


def coins(rights: int, n: int, stretch: float = 2.0) -> Any:
    """n examples that prefer the first class by ``stretch``; ``rights`` belong to it."""
    return np.tile([stretch, 0.0], (n, 1)), np.array([0] * rights + [1] * (n - rights))


def test_ts_soften_is_ts_above_one_and_stays_at_one_below() -> None:
    soft = fit({"a": coins(75, 100)})
    assert (soft.name, soft.state) == ("ts-soften", "fitted")
    assert soft.temperature == pytest.approx(2 / np.log(3))
    sharp = fit({"a": coins(950, 1000, stretch=1.0)})
    assert (sharp.temperature, sharp.state) == (1.0, "edge")
    assert "sharper (T = 0.3396); T stays 1" in sharp.conditions[0]
    guessing = fit({"a": coins(40, 100)})
    assert (guessing.params, guessing.state) == (None, "no-optimum")
    assert "no better than uniform guessing" in guessing.conditions[0]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 80), heat=st.floats(0.3, 4))
def test_ts_soften_never_raises_the_nll_it_was_fitted_on(seed: int, n: int, heat: float) -> None:
    z, y = drawn(seed, n, heat=heat)
    for stretch in (1.0, fit_temperature(z, y).value):  # also where T = 1 is best already
        fitted = fit({"a": (z / stretch, y)})
        assert fitted.after <= fitted.before


def test_ts_max_takes_the_domain_that_asks_for_most() -> None:
    logits: Any = {"a": coins(75, 100), "b": coins(60, 100), "c": coins(100, 100)}
    fitted = fit(logits, "ts-max")
    assert fitted.temperature == pytest.approx(2 / np.log(60 / 40))
    assert fitted.state == "fitted"
    few = fit({"a": coins(75, 100), "b": coins(6, 10)}, "ts-max")
    assert few.conditions == ("It rests on 4 errors in b.",)
    none = fit({"a": coins(950, 1000, 1.0), "b": coins(970, 1000, 1.0)}, "ts-max")
    assert (none.temperature, none.state) == (1.0, "edge")
    lost = fit({"a": coins(75, 100), "b": coins(30, 100)}, "ts-max")
    assert lost.temperature == pytest.approx(2 / np.log(3))
    assert lost.conditions[0].startswith("b is left out: the logits are no better than")
    assert fit({"b": coins(30, 100)}, "ts-max").state == "no-optimum"


def test_a_class_without_examples_cannot_be_calibrated_by_itself() -> None:
    z, y = drawn(0, 400)
    z[:, 2] -= 50
    y = np.where(y == 2, 3, y)
    fitted = fit({"a": (z, y)}, "isotonic")
    assert (fitted.params, fitted.state) == (None, "no-optimum")
    assert "class 2 has no validation example" in fitted.conditions[0]


def test_folds_are_even_and_the_same_for_every_checkpoint() -> None:
    assert np.bincount(folds_of(103)).tolist() == [21, 21, 21, 20, 20]
    assert folds_of(50).tolist() == folds_of(50).tolist()


def test_cross_fitting_by_hand() -> None:
    logits = domains()
    ts = get_calibrator("ts")
    crossed = cross_fitted(logits, ts)
    fold = {domain: folds_of(len(y)) for domain, (_, y) in logits.items()}
    for k in range(5):
        rest = [(z[fold[d] != k], y[fold[d] != k]) for d, (z, y) in logits.items()]
        t = fit_temperature(*(np.concatenate(part) for part in zip(*rest, strict=True))).value
        for domain, (z, _) in logits.items():
            mine = fold[domain] == k
            np.testing.assert_allclose(crossed[domain][0][mine], z[mine] / t)


def test_the_cross_fitted_change_is_less_flattering_and_has_an_interval() -> None:
    z, y = drawn(5, 100, classes=8)
    fitted = fit({"a": (z, y)}, "isotonic")
    change = change_of({"a": (z, y)}, fitted)
    assert fitted.after - fitted.before < change.mean
    assert change.low < change.mean < change.high
    assert change.n == 100
    again = change_of({"a": (z, y)}, fitted)
    assert again == change


def test_what_is_refused_changes_nothing_across_folds_either() -> None:
    logits = nearly_perfect(2)
    refused = change_of(logits, fit(logits, "ts"))
    assert (refused.mean, refused.low, refused.high) == (0, 0, 0)
    assert change_of(logits, fit(logits, "ts", force=True)).mean != 0
    # Enough errors in all are enough, though every part has fewer.
    z, y = coins(78, 100)
    assert change_of({"a": (z, y)}, fit({"a": (z, y)}, "ts")).mean < 0


def test_one_example_has_no_others() -> None:
    alone: Any = {"a": coins(1, 1)}
    assert change_of(alone, fit(alone)).mean == 0


def test_refined_nll_is_the_nll_after_the_own_temperature() -> None:
    z, y = drawn(0, SMALL)
    own = fit_temperature(z, y)
    assert nll_after({"a": (z, y)})["a"] == pytest.approx(own.after, rel=1e-12)
    halves: Any = {"a": (z[:400], y[:400]), "b": (z[400:], y[400:])}
    parts = nll_after(halves)
    assert 0.4 * parts["a"] + 0.6 * parts["b"] == pytest.approx(own.after, rel=1e-12)
    # One example fewer is cross-fitted, which does not flatter.
    few: Any = {"a": (z[1:], y[1:])}
    crossed = cross_fitted(few, get_calibrator("ts"))["a"][0]
    expected = float(np.mean(np.log(np.exp(crossed).sum(1)) - crossed[np.arange(999), y[1:]]))
    assert nll_after(few)["a"] == pytest.approx(expected)
    assert expected > fit_temperature(z[1:], y[1:]).after
