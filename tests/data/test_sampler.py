"""The sampler: draws with replacement, independent streams, exact resume."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkwise.study.data import MinibatchSampler


def _sampler(seed: int = 7, batch_size: int = 5) -> MinibatchSampler:
    return MinibatchSampler(
        [np.arange(10, 30), np.arange(3), np.array([8, 2, 6])], batch_size=batch_size, seed=seed
    )


def _draw(sampler: MinibatchSampler, count: int) -> list[list[list[int]]]:
    return [[rows.tolist() for rows in sampler.next()] for _ in range(count)]


@given(before=st.integers(0, 200), after=st.integers(1, 100), seed=st.integers(0, 2**31 - 1))
def test_a_resumed_sampler_continues_bit_for_bit(before: int, after: int, seed: int) -> None:
    uninterrupted = _sampler(seed)
    _draw(uninterrupted, before)
    state = json.loads(json.dumps(uninterrupted.state()))
    resumed = _sampler(seed)
    resumed.set_state(state)
    assert _draw(resumed, after) == _draw(uninterrupted, after)


def test_batches_come_from_each_pool_with_replacement() -> None:
    batches = _draw(_sampler(batch_size=50), 40)
    for position, pool in enumerate([range(10, 30), range(3), [8, 2, 6]]):
        drawn = [row for batch in batches for row in batch[position]]
        assert set(drawn) == set(pool)
        counts = np.unique(drawn, return_counts=True)[1]
        assert counts.min() > 0.5 * counts.mean()
        assert counts.max() < 1.5 * counts.mean()


def test_domains_have_streams_of_their_own() -> None:
    pools = [np.arange(1000), np.arange(1000)]
    first, second = MinibatchSampler(pools, batch_size=100, seed=0).next()
    assert not np.array_equal(first, second)
    alone = MinibatchSampler(pools[:1], batch_size=100, seed=0).next()[0]
    assert np.array_equal(first, alone)


def test_the_stream_is_pinned() -> None:
    first = MinibatchSampler([np.arange(1000)], batch_size=4, seed=94828300).next()[0]
    assert first.tolist() == [436, 497, 483, 303]
