"""Seeds are those of DomainBed."""

from __future__ import annotations

import numpy as np
import pytest

from checkwise.study.data import seed_hash, training_seed


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
