"""The data set record: what it checks, its fingerprint, and the rule for identical examples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from checkwise.study.data import DomainDataset, from_arrays


def _features(*rows: tuple[float, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    values = np.array([[value, 0.5] for value, _ in rows], dtype=np.float32)
    return values, np.array([label for _, label in rows])


def _dataset(**domains: tuple[NDArray[Any], NDArray[Any]]) -> DomainDataset:
    return from_arrays("toy", domains, kind="features", classes=["c0", "c1", "c2"])


def test_labels_become_int64_and_arrays_read_only() -> None:
    data = from_arrays(
        "toy",
        {"a": (np.zeros((2, 3), np.float16), np.array([0, 1], np.int8))},
        kind="features",
        classes=["x", "y"],
    )
    assert data.y[0].dtype == np.int64
    assert not data.x[0].flags.writeable
    assert data.rows(0, slice(None)).flags.writeable
    assert (data.num_classes, data.sizes, data.domain_index("a")) == (2, (2,), 0)


def test_the_fingerprint_sees_names_labels_and_values() -> None:
    base = _dataset(a=_features((1, 0), (2, 1)))
    assert _dataset(a=_features((1, 0), (2, 1))).fingerprint == base.fingerprint
    others = [
        _dataset(b=_features((1, 0), (2, 1))),
        _dataset(a=_features((1, 0), (2, 2))),
        _dataset(a=_features((1, 0), (3, 1))),
        _dataset(a=_features((2, 1), (1, 0))),
        _dataset(a=_features((1, 0)), b=_features((2, 1))),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_each_kind_of_duplicate_is_treated_by_its_rule() -> None:
    data = _dataset(
        a=_features((1, 0), (1, 0), (1, 0), (2, 0), (2, 1), (3, 2), (4, 0)),
        b=_features((3, 2), (5, 1), (2, 0), (6, 2)),
    )
    clean = data.without_duplicates()
    assert [x[:, 0].tolist() for x in clean.x] == [[1, 4], [5, 6]]
    assert [y.tolist() for y in clean.y] == [[0, 0], [1, 2]]
    assert clean.ids == (("row 0", "row 6"), ("row 1", "row 3"))
    assert clean.fingerprint != data.fingerprint


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=30))
def test_what_is_left_is_unique_and_was_never_ambiguous(rows: list[tuple[int, int]]) -> None:
    data = _dataset(a=_features((99, 0), *rows), b=_features((100, 0), *rows[::2]))
    clean = data.without_duplicates()
    left = [float(x) for part in clean.x for x in part[:, 0]]
    assert max(Counter(left).values()) == 1
    assert clean.without_duplicates() is clean
    labels = {value: {label for v, label in rows if v == value} for value, _ in rows}
    in_both = {value for value, _ in rows[::2]}
    expected = {value for value, seen in labels.items() if len(seen) == 1} - in_both
    assert set(left) == {99, 100} | expected
