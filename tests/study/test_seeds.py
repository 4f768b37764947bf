"""Intervals over groups of seeds, against scipy on the means of the groups."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from checkwise.records import RunKey
from checkwise.study.paired import Differences, contrasts
from checkwise.study.seeds import across_seeds

KEYS = tuple(
    sorted(
        RunKey("PACS", algorithm, ("art",), h, t)
        for algorithm in ("ERM", "IRM")
        for h in range(2)
        for t in range(2)
    )
)


def table(values: np.ndarray) -> Differences:
    metrics = ("target_nll", "target_accuracy")
    return Differences("ac-nc", "source-acc", KEYS, metrics, values, np.zeros_like(values))


def test_equal_groups_give_the_t_interval_of_their_means() -> None:
    found = table(np.random.default_rng(0).normal(size=(8, 2)))
    nll, accuracy = across_seeds(found, contrasts(found))
    groups = [(key.hparams_seed, key.trial_seed) for key in KEYS]
    for row, scale, column in ((nll, 1, 0), (accuracy, 100, 1)):
        means = [
            scale * np.mean([found.mine[i, column] for i in range(8) if groups[i] == group])
            for group in sorted(set(groups))
        ]
        expected = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
        assert row.seed_groups == 4
        assert row.mean == pytest.approx(np.mean(means))
        assert (row.seed_low, row.seed_high) == pytest.approx((expected.low, expected.high))


def test_runs_without_a_finite_value_leave_their_group() -> None:
    values = np.random.default_rng(1).normal(size=(8, 2))
    values[[i for i, key in enumerate(KEYS) if key.hparams_seed == 0], 0] = np.nan
    found = table(values)
    nll, accuracy = across_seeds(found, contrasts(found))
    assert (nll.n, nll.seed_groups) == (4, 2)
    assert (accuracy.n, accuracy.seed_groups) == (8, 4)
