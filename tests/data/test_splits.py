"""Splits and seeds: the check values of DomainBed's scheme; partitions that keep groups whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkwise.study.data import seed_hash, split, split_both, split_groups, training_seed
from tests.refusals import refused

SIZES = st.lists(st.integers(1, 40), min_size=2, max_size=30)
SEEDS = {"domain_index": st.integers(0, 5), "trial_seed": st.integers(0, 5)}


@pytest.mark.parametrize(
    ("second", "expected"), [(0, 894182419), (1, 1514274641), (2, 1325548499), (3, 1796103049)]
)
def test_seed_hash_has_the_reference_values(second: int, expected: int) -> None:
    assert seed_hash(0, second) == expected


def test_numpy_integers_hash_as_integers() -> None:
    assert seed_hash(np.int64(0), np.int32(1)) == seed_hash(0, 1)
    assert seed_hash([np.int64(3)], (np.int64(1),)) == seed_hash([3], (1,))


def test_training_seed_has_the_reference_values() -> None:
    assert training_seed("PACS", "ERM", [0], hparams_seed=0, trial_seed=0) == 94828300
    assert training_seed("PACS", "IRM", (3,), hparams_seed=1, trial_seed=2) == 648282712


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


def _groups(sizes: list[int]) -> np.ndarray:
    """Rows of the groups in a mixed order."""
    whole = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.RandomState(0).permutation(whole)


def test_a_group_is_held_out_if_that_brings_the_size_nearer() -> None:
    # 100 examples, 20 wanted. The shuffled order of the groups is worked through by hand.
    groups = np.repeat(np.arange(6), [10, 50, 8, 12, 15, 5])
    order = np.arange(6)
    np.random.RandomState(seed_hash(3, 1, "groups")).shuffle(order)
    assert order.tolist() == [0, 5, 1, 2, 4, 3]
    # 0: 10, taken. 5: 15, taken. 1: 65, no. 2: 23 is 3 off instead of 5, taken. 4: 38, no. 3: no.
    inside, out = split_groups(groups, domain_index=1, trial_seed=3)
    assert np.unique(groups[out]).tolist() == [0, 2, 5]
    assert len(out) == 23
    assert np.unique(groups[inside]).tolist() == [1, 3, 4]


def test_the_smallest_group_is_held_out_where_all_are_too_large() -> None:
    groups = np.repeat([7, 8], [55, 45])
    inside, out = split_groups(groups, domain_index=0, trial_seed=0)
    assert set(groups[out]) == {8}
    assert set(groups[inside]) == {7}


@given(sizes=SIZES, holdout=st.floats(0.05, 0.5), **SEEDS)
def test_every_example_is_on_one_side_with_its_whole_group(
    sizes: list[int], holdout: float, domain_index: int, trial_seed: int
) -> None:
    groups = _groups(sizes)
    inside, out = split_groups(
        groups, domain_index=domain_index, trial_seed=trial_seed, holdout=holdout
    )
    assert sorted([*inside, *out]) == list(range(len(groups)))
    assert not set(groups[inside]) & set(groups[out])
    assert len(inside)
    assert len(out)
    # Off by at most half of a group, unless every group is more than twice as large as wanted.
    wanted = int(len(groups) * holdout)
    if min(sizes) < 2 * wanted:
        assert abs(len(out) - wanted) <= max(sizes) / 2
    else:
        assert len(out) == min(sizes)


@given(sizes=st.lists(st.integers(10, 40), min_size=8, max_size=30), **SEEDS)
def test_both_validation_sets_have_one_size_and_share_nothing(
    sizes: list[int], domain_index: int, trial_seed: int
) -> None:
    groups = _groups(sizes)
    seeds = {"domain_index": domain_index, "trial_seed": trial_seed}
    train, examples, by_groups = split_both(groups, **seeds)
    assert sorted([*train, *examples, *by_groups]) == list(range(len(groups)))
    assert len(examples) == len(by_groups) > 0
    assert len(train)
    assert not set(groups[by_groups]) & {*groups[train], *groups[examples]}
    assert by_groups.tolist() == split_groups(groups, **seeds)[1].tolist()


def test_one_group_cannot_be_split() -> None:
    with refused("unsupported: 2 … 4"):
        split_groups(np.zeros(10, np.int64), domain_index=4, trial_seed=0)


def test_a_holdout_that_takes_every_group_is_refused() -> None:
    with refused("empty"):
        split_groups(np.repeat([0, 1], 50), domain_index=0, trial_seed=0, holdout=0.99)


def test_two_validation_sets_leave_something_to_train_on() -> None:
    with refused("empty"):
        split_both(np.repeat([0, 1], [50, 50]), domain_index=0, trial_seed=0)
