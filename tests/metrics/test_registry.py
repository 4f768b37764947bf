"""Metrics of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from checkwise import metrics
from checkwise.metrics import METRICS, get_metric, metric
from checkwise.testing import check_metric
from tests.refusals import refused

P, Y = np.array([[0.75, 0.25], [0.4, 0.6]]), np.array([0, 0])


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.mark.parametrize("name", list(METRICS))
def test_every_built_in_metric_keeps_the_contract(name: str) -> None:
    check_metric(METRICS[name])


def test_one_decorator_registers_a_metric() -> None:
    @metric("error-entropy", direction="lower", scale=100)
    def entropy(probs: Any, labels: Any) -> float:
        """Mean entropy."""
        assert probs.dtype == np.float64
        return float(-(probs * np.log(np.maximum(probs, 1e-300))).sum(1).mean())

    found = get_metric("error-entropy")
    assert (found.direction, found.scale, found.summary) == ("lower", 100, "Mean entropy.")
    expected = entropy(P, Y)
    assert found(probs=P, labels=Y) == expected
    assert found(logits=np.log(P), labels=Y) == pytest.approx(expected)
    assert metrics.evaluate_registered(probs=P, labels=Y) == {"error-entropy": expected}
    check_metric(found)


def test_without_metrics_of_ones_own_nothing_is_computed() -> None:
    assert metrics.evaluate_registered(probs=P, labels=Y) == {}


def test_unknown_and_duplicate_names() -> None:
    with refused("unknown: 'nil'"):
        get_metric("nil")
    with refused("exists: 'nll'"):
        metric("nll", direction="lower")
    with refused("value"):
        metric("my metric", direction="lower")
    with refused("value: 'lower' … 'higher'"):
        metric("mine", direction="up")  # type: ignore[arg-type]
    with refused("value: 1 … 100"):
        metric("mine", direction="lower", scale=10)


def _ordered(probs: Any, labels: Any) -> float:
    return float(probs[0, 0])


def _not_finite(probs: Any, labels: Any) -> float:
    return float("nan")


def _wrong_way(probs: Any, labels: Any) -> float:
    return float((probs.argmax(1) == labels).mean())


def _changes_input(probs: Any, labels: Any) -> float:
    probs[:] = 0.5
    return 0.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_ordered, "order"),
        (_not_finite, "finite"),
        (_wrong_way, "direction"),
        (_changes_input, "change"),
    ],
)
def test_the_contract_finds_what_is_wrong(function: Any, message: str) -> None:
    metric("broken", direction="lower")(function)
    with pytest.raises(AssertionError, match=message):
        check_metric(METRICS["broken"])
