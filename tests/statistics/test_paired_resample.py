"""Resamples without copies give what copies give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checkwise import statistics as paired
from checkwise.statistics import Resample, Stratified


def drawn(grouped: bool, *, values: str = "answers") -> tuple[Stratified, list[Any], Stratified]:
    """A sample, how often its examples occur, and the same with copies written out."""
    rng = np.random.default_rng(3)
    sizes, weights = (60, 45), [0.7, 0.3]
    scores = [rng.normal(size=(1, n)) + 0.5 * rng.normal(size=(8, n)) for n in sizes]
    tables = [s if values == "reals" else (s > 0).astype(float) for s in scores]
    groups = [np.arange(n) // 3 for n in sizes] if grouped else None
    times = []
    for e, n in enumerate(sizes):
        member = np.arange(n) if groups is None else groups[e]
        units = int(member.max()) + 1
        times.append(np.bincount(rng.integers(0, units, units), minlength=units)[member])
    rows = [np.repeat(np.arange(n), t) for n, t in zip(sizes, times, strict=True)]
    copied = None
    if groups is not None:
        copied = [
            np.array([10 * g + k for g, c in zip(of, t, strict=True) for k in range(c)])
            for of, t in zip(groups, times, strict=True)
        ]
    literal = Stratified([t[:, r] for t, r in zip(tables, rows, strict=True)], weights, copied)
    return Stratified(tables, weights, groups), times, literal


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("values", ["answers", "reals"])
def test_a_resample_is_what_copies_are(grouped: bool, values: str) -> None:
    sample, times, literal = drawn(grouped, values=values)
    fast = Resample(sample, times)
    assert len(fast) == len(literal)
    assert fast.counts.tolist() == literal.counts.tolist()
    np.testing.assert_allclose(fast.mean, literal.mean, atol=1e-12)
    for e in range(2):
        np.testing.assert_allclose(fast.joint(e), literal.joint(e), atol=1e-9)
        assert sorted(fast.unit_sizes[e]) == sorted(literal.unit_sizes[e])


@pytest.mark.parametrize("grouped", [False, True])
def test_tolerances_of_a_resample_are_those_of_copies(grouped: bool) -> None:
    sample, times, literal = drawn(grouped)
    fast = Resample(sample, times)
    for delta in (0.0, 0.05, 0.3):
        how: Any = {"delta": delta, "alpha": 0.3}
        found, expected = (paired.not_shown_worse(one, **how) for one in (fast, literal))
        assert found.tolist() == expected.tolist()
