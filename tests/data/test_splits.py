"""Splits and seeds: the check values of DomainBed's scheme, and that a split is a partition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkwise.study.data import split
from tests.refusals import refused


def test_out_is_the_start_of_the_shuffled_keys() -> None:
    inside, out = split(2048, domain_index=0, trial_seed=0)
    assert len(out) == 409
    assert out[:5].tolist() == [548, 677, 1997, 977, 1553]
    keys = list(range(2048))
    np.random.RandomState(894182419).shuffle(keys)
    assert np.concatenate([out, inside]).tolist() == keys


@given(
    n=st.integers(5, 3000),
    domain=st.integers(0, 9),
    trial=st.integers(0, 9),
    holdout=st.floats(0.2, 0.8),
)
def test_a_split_is_a_partition_of_the_stated_sizes(
    n: int, domain: int, trial: int, holdout: float
) -> None:
    inside, out = split(n, domain_index=domain, trial_seed=trial, holdout=holdout)
    assert len(out) == int(n * holdout)
    assert sorted([*inside.tolist(), *out.tolist()]) == list(range(n))


def test_trials_and_domains_split_differently() -> None:
    outs = {
        tuple(split(100, domain_index=domain, trial_seed=trial)[1].tolist())
        for domain in range(4)
        for trial in range(3)
    }
    assert len(outs) == 12


@pytest.mark.parametrize("holdout", [0.0, 1.0, -0.1])
def test_a_holdout_outside_the_unit_interval_is_refused(holdout: float) -> None:
    with refused("empty"):
        split(100, domain_index=0, trial_seed=0, holdout=holdout)


def test_a_domain_too_small_to_split_is_refused_by_number() -> None:
    with refused("empty: 4 … 2"):
        split(4, domain_index=2, trial_seed=0)
