"""Splits that keep groups whole: by hand, and for any groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkwise.study.data import seed_hash, split_both, split_groups
from tests.refusals import refused

SIZES = st.lists(st.integers(1, 40), min_size=2, max_size=30)
SEEDS = {"domain_index": st.integers(0, 5), "trial_seed": st.integers(0, 5)}


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
