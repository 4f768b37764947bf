"""The kernel agrees with the literal float64 definitions below 1e-6 (NLL relatively)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from checkwise import metrics
from tests.metrics import reference
from tests.metrics.cases import Array, adversarial_cases, many_classes, random_cases

CASES = {**random_cases(), **adversarial_cases(), "many-classes": many_classes()}
LIMIT = 2e-7  # five times better than promised


def disagreements(found: dict[str, float], expected: dict[str, float]) -> dict[str, float]:
    """By how much each metric is off, of those that are."""
    assert list(found) == list(expected)
    # Probabilities end at 1e-30 and float64 cannot tell a likelihood that near 1 from 1.
    scale = {"nll": max(expected["nll"], 1e-25 / LIMIT)}
    off = {name: abs(found[name] - value) for name, value in expected.items()}
    return {name: by for name, by in off.items() if not by <= LIMIT * scale.get(name, 1.0)}


def test_logits() -> None:
    odd = {}
    for case, (z, y, bins, bandwidth) in CASES.items():
        found = metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth).values()
        expected = reference.evaluate(y, logits=z, bins=bins, bandwidth=bandwidth)
        odd[case] = disagreements(found, expected)
    assert not {case: off for case, off in odd.items() if off}


def test_probabilities() -> None:
    odd = {}
    for seed, kind in itertools.product(range(60), ("float32", "float64")):
        rng = np.random.default_rng(seed)
        classes = int(rng.choice([2, 5, 17, 64, 200]))
        p = reference.softmax(rng.standard_normal((40, classes)) * rng.choice([0.1, 2, 10]))
        p = np.maximum(p, 1e-12).astype(kind)
        y = rng.integers(0, classes, 40)
        bins, bandwidth = int(rng.choice([4, 15, 60])), float(rng.choice([0.01, 0.1, 0.5]))
        found = metrics.evaluate(probs=p, labels=y, bins=bins, bandwidth=bandwidth).values()
        expected = reference.evaluate(y, probs=p, bins=bins, bandwidth=bandwidth)
        odd[seed, kind] = disagreements(found, expected)
    assert not {case: off for case, off in odd.items() if off}


@pytest.mark.parametrize("bins", [2, 3, 10, 15])
def test_probabilities_on_the_edges_of_hard_bins(bins: int) -> None:
    edges = np.arange(bins + 1) / bins
    p = np.stack([edges, 1 - edges], axis=1)[1:-1] if bins > 2 else np.array([[0.5, 0.5]])
    y = np.arange(len(p)) % 2
    found = metrics.evaluate(probs=p, labels=y, bins=bins)
    assert not disagreements(
        found.values(), reference.evaluate(y, probs=p, bins=bins, bandwidth=0.1)
    )


@pytest.mark.parametrize("bandwidth", [1e-3, 0.1])
def test_half_precision_probabilities_above_one(bandwidth: float) -> None:
    p = np.array([[1.0098, 0.0], [0.0, 1.0], [0.25, 0.75]], dtype=np.float16)
    y = np.array([0, 1, 0])
    found = metrics.evaluate(probs=p, labels=y, bandwidth=bandwidth)
    assert not disagreements(
        found.values(), reference.evaluate(y, probs=p, bins=15, bandwidth=bandwidth)
    )


def test_class_parts_sum_to_the_metrics() -> None:
    rng = np.random.default_rng(3)
    z, y = rng.standard_normal((200, 6)) * 2, rng.integers(0, 5, 200)
    found = metrics.evaluate(logits=z, labels=y)
    part: dict[str, Array] = dict(found.per_class)
    assert part["cwece"].sum() == pytest.approx(found.cwece, abs=1e-15)
    assert part["hard_cwece"].sum() == pytest.approx(found.hard_cwece, abs=1e-15)
    assert part["count"].tolist() == np.bincount(y, minlength=6).tolist()
    right = z.argmax(1) == y
    assert part["recall"][:5] == pytest.approx([right[y == c].mean() for c in range(5)])
    assert np.isnan(part["recall"][5])
    assert part["hard_cwece"][5] == 0


def test_tiny_probabilities_keep_their_weight() -> None:
    """V_cb / sum V is a ratio: dropping p < 1e-6 would give 0.500 here."""
    z = np.array([[0.0, -14.0]] * 100, dtype=np.float32)
    y = np.ones(100, dtype=int)
    found = metrics.cwece(logits=z, labels=y)
    assert found == pytest.approx(reference.evaluate(y, logits=z, bins=15, bandwidth=0.1)["cwece"])
    assert found > 0.99
