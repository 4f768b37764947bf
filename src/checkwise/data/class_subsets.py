"""Data sets with some of their classes: smaller problems from one benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checkwise.data.dataset import DomainDataset, fingerprint
from checkwise.errors import InputError


def with_classes(dataset: DomainDataset, classes: Sequence[str]) -> DomainDataset:
    """Return the data set without the examples of other classes; the order of classes stays."""
    unknown = [name for name in classes if name not in dataset.classes]
    if unknown or not classes:
        raise InputError(
            f"Expected classes of {dataset.name}, but got {unknown[0]!r}: choose from "
            f"{', '.join(dataset.classes)}."
            if unknown
            else f"Expected at least one class of {dataset.name}, but got none: name one.",
            code="unknown",
        )
    kept = tuple(name for name in dataset.classes if name in classes)
    new_label = np.full(len(dataset.classes), -1, dtype=np.int64)
    for label, name in enumerate(kept):
        new_label[dataset.classes.index(name)] = label
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
