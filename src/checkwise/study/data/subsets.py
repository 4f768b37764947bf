"""Data sets with some of their classes: smaller problems from one benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.study.data.dataset import DomainDataset, Place, fingerprint


def with_classes(dataset: DomainDataset, classes: Sequence[str]) -> DomainDataset:
    """Return the data set without the examples of other classes; the order of classes stays."""
    unknown = [name for name in classes if name not in dataset.classes]
    if unknown:
        raise InputError(
            f"Expected classes of {dataset.name}, but got {unknown[0]!r}: choose from "
            f"{', '.join(dataset.classes)}.",
            code="unknown",
        )
    kept = tuple(name for name in dataset.classes if name in classes)
    new = [kept.index(name) if name in kept else -1 for name in dataset.classes]
    new_label = np.array(new, dtype=np.int64)
    rows = [np.flatnonzero(new_label[y] >= 0) for y in dataset.y]
    for domain, left in zip(dataset.domains, rows, strict=True):
        if not len(left):
            raise InputError(
                f"Expected examples of the chosen classes in every domain, but got none in "
                f"{domain!r} of {dataset.name}: choose other classes.",
                code="empty",
            )
    fewer = dataset.rows_only(rows, fingerprint("classes", dataset.fingerprint, repr(kept)))
    return replace(fewer, classes=kept, y=tuple(new_label[y] for y in fewer.y))


def class_subset(classes: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    """Subset ``number`` (from 1) of ``count`` disjoint ones: every ``count``-th class.

    Example:
        >>> class_subset("abcdefg", 2, 3)
        ('b', 'e')
    """
    if len(classes) < 2 * count:
        raise InputError(
            f"Expected at least 2 classes for each of {count} subsets, but got {len(classes)} "
            "classes: lower `class_subsets`.",
            code="unsupported",
        )
    return tuple(classes[number - 1 :: count])


def with_places(dataset: DomainDataset, count: int) -> DomainDataset:
    """Deal the groups of every domain into ``count`` places; nothing is random: see ``deal``."""
    if not dataset.groups:
        raise InputError(
            f"Expected groups to make places of, but {dataset.name} has none: set `groups` to the "
            "column that names them.",
            code="missing",
        )
    names = iter(place_names(dataset.domains, count))
    places = []
    for domain, groups in enumerate(dataset.groups):
        present = np.unique(groups)
        if len(present) < count:
            raise InputError(
                f"Expected at least {count} groups in every domain for {count} places, but got "
                f"{len(present)} in {dataset.domains[domain]!r} of {dataset.name}: lower `places`.",
                code="unsupported",
            )
        for members in deal(groups, count):
            rows = np.flatnonzero(np.isin(groups, members))
            places.append(Place(next(names), domain, rows))
    parts = [place.rows for place in places]
    return replace(
        dataset,
        places=tuple(places),
        fingerprint=fingerprint("places", dataset.fingerprint, str(count), *parts),
    )


def place_names(domains: Sequence[str], count: int) -> tuple[str, ...]:
    """What the places of some domains are called.

    Example:
        >>> place_names(["north", "south"], 2)
        ('north-place-1', 'north-place-2', 'south-place-1', 'south-place-2')
    """
    width = len(str(count))
    names = tuple(f"{name}-place-{i:0{width}d}" for name in domains for i in range(1, count + 1))
    if len({*names, *domains}) != len(names) + len(domains):
        raise InputError(
            f"Expected domains whose places have names of their own, but got {', '.join(domains)}: "
            "rename those that end in `-place-` and a number."
        )
    return names


def deal(groups: NDArray[np.int64], count: int) -> list[list[int]]:
    """The groups of every place: the largest group first, into the place with the fewest examples.

    Groups of one size go in their order, and of equally small places the first is taken.

    Example:
        >>> deal(np.repeat([0, 1, 2, 3], [5, 1, 3, 2]), 2)
        [[0, 1], [2, 3]]
    """
    present, sizes = np.unique(groups, return_counts=True)
    members: list[list[int]] = [[] for _ in range(count)]
    filled = [0] * count
    for at in np.lexsort((present, -sizes)).tolist():
        smallest = filled.index(min(filled))
        members[smallest].append(int(present[at]))
        filled[smallest] += int(sizes[at])
    return members
