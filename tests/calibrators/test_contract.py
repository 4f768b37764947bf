"""What every registered calibrator promises."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise.calibrators import LEAST_ERRORS, calibrators, fit, from_dict, get_calibrator
from checkwise.errors import InputError
from checkwise.metrics import Logits
from tests.calibrators.drawn import domains, drawn, nearly_perfect
from tests.refusals import refused

NAMES = list(calibrators())
EVERY = pytest.mark.parametrize("name", NAMES)


def confidence(p: Any) -> Any:
    return p.max(axis=1)


@EVERY
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    classes=st.integers(2, 6),
    size=st.floats(-4, 4),
    force=st.booleans(),
)
def test_probabilities_whatever_the_logits(
    name: str, seed: int, n: int, classes: int, size: float, force: bool
) -> None:
    rng = np.random.default_rng(seed)
    z = 10.0**size * rng.normal(size=(n, classes))
    y = np.where(rng.uniform(size=n) < 0.5, z.argmax(axis=1), rng.integers(0, classes, n))
    fitted = fit({"a": (z, y)}, name, force=force)
    new = 10.0**size * rng.normal(size=(50, classes))
    p = fitted.probabilities(new)
    assert np.isfinite(fitted.apply(new)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert (p >= 0).all()
    if fitted.calibrator.keeps_predictions:
        # The winner stays at least as probable as any other, also where all round to the same.
        winner = np.take_along_axis(p, new.argmax(axis=1)[:, None], axis=1)[:, 0]
        assert (winner >= p.max(axis=1) * (1 - 1e-12)).all()
    if not fitted.calibrator.sharpens:
        plain = get_calibrator("ts").fit({"a": (z, y)}).probabilities(new)
        assert fitted.temperature is not None
        assert fitted.temperature >= 1
        if n < LEAST_ERRORS:  # then ts changes nothing
            assert (confidence(p) <= confidence(plain) + 1e-12).all()


@EVERY
def test_json_gives_the_same_bits(name: str) -> None:
    logits = domains()
    fitted = fit(logits, name)
    text = json.dumps(fitted.to_dict(), allow_nan=False)
    again = from_dict(json.loads(text))
    new = drawn(99)[0]
    assert again.apply(new).tobytes() == fitted.apply(new).tobytes()
    assert json.dumps(again.to_dict()) == text
    assert fitted.state == "fitted"
    assert not fitted.conditions


@EVERY
def test_neither_the_order_of_examples_nor_that_of_domains_matters(name: str) -> None:
    logits = domains()
    rng = np.random.default_rng(1)
    moved: Logits = {}
    for domain in reversed(logits):
        z, y = logits[domain]
        order = rng.permutation(len(y))
        moved[domain] = z[order], y[order]
    new = drawn(99)[0]
    np.testing.assert_allclose(
        fit(moved, name).probabilities(new), fit(logits, name).probabilities(new), atol=1e-7
    )
    assert fit(dict(reversed(logits.items())), name).params == fit(logits, name).params


@EVERY
def test_a_shift_of_the_logits_changes_nothing_and_the_input_is_left_alone(name: str) -> None:
    logits = domains()
    before = {d: (z.copy(), y.copy()) for d, (z, y) in logits.items()}
    new = drawn(99)[0]
    shifted: Logits = {d: (z + 5, y) for d, (z, y) in logits.items()}
    moved, plain = fit(shifted, name), fit(logits, name)
    np.testing.assert_allclose(moved.probabilities(new + 5), plain.probabilities(new), atol=1e-6)
    for d, (z, y) in logits.items():
        assert z.tobytes() == before[d][0].tobytes()
        assert y.tobytes() == before[d][1].tobytes()


@EVERY
@pytest.mark.parametrize("errors", [0, 1, 2, 5])
def test_nearly_perfect_validation_sharpens_nothing_unless_forced(name: str, errors: int) -> None:
    logits = nearly_perfect(errors)
    z = logits["validation"][0]
    fitted = fit(logits, name)
    assert fitted.state == "saturated"
    assert f"{errors} error" in fitted.conditions[0]
    plain = fit(logits, "ts").probabilities(z)  # refused, so as they are
    assert (confidence(fitted.probabilities(z)) <= confidence(plain) + 1e-12).all()
    if fitted.calibrator.sharpens:
        assert fitted.params is None
        np.testing.assert_array_equal(fitted.apply(z), z)
    forced = fit(logits, name, force=True)
    assert forced.state == "saturated"
    if name in ("ts", "ts-multi", "ts-weighted") and errors:
        assert forced.temperature is not None
        assert forced.temperature < 0.9


@EVERY
def test_twenty_errors_are_enough(name: str) -> None:
    for errors, state in ((LEAST_ERRORS - 1, "saturated"), (LEAST_ERRORS, "fitted")):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 200)
        z = 8 * np.eye(3)[y] + 2 * rng.normal(size=(200, 3))
        wrong = np.flatnonzero(z.argmax(axis=1) == y)
        missing = errors - int((z.argmax(axis=1) != y).sum())
        z[wrong[:missing]] = np.roll(z[wrong[:missing]], 1, axis=1)
        fitted = fit({"a": (z, y)}, name)
        assert (fitted.errors, fitted.state) == (errors, state)


@EVERY
def test_what_was_measured_is_recorded(name: str) -> None:
    logits = domains()
    fitted = fit(logits, name)
    pooled = [np.concatenate([pair[i] for pair in logits.values()]) for i in (0, 1)]
    p = fitted.probabilities(pooled[0])
    assert fitted.after == pytest.approx(-np.log(p[np.arange(600), pooled[1]]).mean())
    assert (fitted.n, fitted.classes) == (600, 4)
    assert fitted.errors == (pooled[0].argmax(axis=1) != pooled[1]).sum()
    assert fitted.calibrator.summary


@EVERY
def test_other_logits_and_damaged_records_are_refused(name: str) -> None:
    fitted = fit(domains(), name)
    with refused("value: 4]"):
        fitted.apply(np.zeros((3, 5)))
    record = fitted.to_dict()
    assert record["params"]
    for broken in (
        {**record, "schema": 1},
        {**record, "calibrator": "magic"},
        {**record, "params": {}},
        {**record, "params": "T = 2"},
        {name: value for name, value in record.items() if name != "classes"},
    ):
        with pytest.raises(InputError):
            from_dict(broken)


@pytest.mark.parametrize("name", ["ts-soften", "ts-max"])
def test_a_record_never_sharpens_where_a_fit_never_does(name: str) -> None:
    record = fit(domains(), name).to_dict()
    record["params"]["temperature"] = 1.0
    assert from_dict(record).temperature == 1
    record["params"]["temperature"] = 0.999
    with refused("damaged"):
        from_dict(record)


def test_an_unknown_name_lists_the_known() -> None:
    with refused("unknown: ts-soften … ts-max"):
        fit(domains(), "platt")


def test_logits_of_different_models_are_refused() -> None:
    with refused("differs"):
        fit({"a": drawn(0), "b": drawn(0, classes=5)})
    with refused("empty"):
        fit({})
