"""Runs that carry a mean by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from checkwise.records import RunKey
from checkwise.study.tables.robustness import influence


def test_one_run_that_carries_a_mean_is_named_first() -> None:
    keys = [RunKey("OfficeHome", "IRM", ("Art",), 0, t) for t in range(50)]
    values = np.full(50, 0.01)
    values[7] = -73.0
    first, second = influence(keys, values)[:2]
    assert first.run == keys[7]
    assert first.notable
    assert first.sign_changes
    assert first.without == pytest.approx(0.01)
    assert not second.notable


def test_leaving_each_run_out_is_what_it_says() -> None:
    values = np.random.default_rng(0).normal(size=6)
    keys = [RunKey("A", "B", ("c",), 0, t) for t in range(6)]
    for found in influence(keys, values):
        rest = np.delete(values, keys.index(found.run))
        assert found.without == pytest.approx(rest.mean())
        assert found.value == values[keys.index(found.run)]
