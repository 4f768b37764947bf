"""Data sets with some of their classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checkwise.study.data import class_subset, from_arrays, with_classes
from tests.refusals import refused

LABELS = {"a": np.array([0, 1, 2, 3, 1]), "b": np.array([3, 3, 1])}
DATA = from_arrays(
    "animals",
    {
        name: (np.arange(3 * len(y), dtype=np.float32).reshape(-1, 3), y)
        for name, y in LABELS.items()
    },
    kind="features",
    classes=["cat", "dog", "fox", "hen"],
)


def test_rows_of_the_classes_stay_under_new_numbers() -> None:
    few = with_classes(DATA, ["hen", "dog"])
    assert few.classes == ("dog", "hen")
    assert [y.tolist() for y in few.y] == [[0, 1, 0], [1, 1, 0]]
    assert np.array_equal(few.x[0], DATA.x[0][[1, 3, 4]])
    assert few.ids[0] == ("row 1", "row 3", "row 4")
    assert few.fingerprint not in (DATA.fingerprint, with_classes(DATA, ["dog"]).fingerprint)


def test_groups_follow_their_rows() -> None:
    groups = (np.array([0, 1, 0, 1, 2]), np.array([3, 4, 3]))
    few = with_classes(replace(DATA, groups=groups, group_names=tuple("vwxyz")), ["dog"])
    assert [part.tolist() for part in few.groups] == [[1, 2], [3]]


def test_subsets_are_disjoint_and_cover_the_classes() -> None:
    classes = [f"class {i:02d}" for i in range(65)]
    subsets = [class_subset(classes, number, 13) for number in range(1, 14)]
    assert {len(subset) for subset in subsets} == {5}
    assert sorted(name for subset in subsets for name in subset) == classes
    assert subsets[0] == ("class 00", "class 13", "class 26", "class 39", "class 52")


def test_what_does_not_fit_is_refused() -> None:
    with refused("unknown: 'cow' … cat, dog"):
        with_classes(DATA, ["dog", "cow"])
    with refused("empty: 'b' … animals"):
        with_classes(DATA, ["cat"])
    with refused("unsupported: 2 … 3"):
        class_subset(DATA.classes, 1, 3)
