"""Identical examples: which there are, and which of them a de-duplicated data set keeps.

Examples are identical when their arrays are, byte for byte. The rule, for each group of them:

- one domain, one label: the first stays, the others go (``"repeat"``);
- more than one label: all go, since nobody knows which is right (``"conflicting labels"``);
- one label, more than one domain: all go, since otherwise a held-out domain would share an example
  with a source (``"several domains"``).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Reason = Literal["repeat", "conflicting labels", "several domains"]


@dataclass(frozen=True)
class RemovedRow:
    """One example that a de-duplicated data set leaves out."""

    domain: int
    row: int
    reason: Reason


@dataclass(frozen=True)
class Duplicates:
    """The groups of identical examples of a data set, and what the rule removes.

    Groups with conflicting labels and groups across domains may overlap.
    """

    sizes: tuple[int, ...]
    groups: int
    conflicting_groups: int
    groups_across_domains: int
    removed: tuple[RemovedRow, ...]

    def kept(self, domain: int) -> NDArray[np.int64]:
        """Return the rows of ``domain`` that stay, ascending."""
        keep = np.ones(self.sizes[domain], dtype=bool)
        keep[[gone.row for gone in self.removed if gone.domain == domain]] = False
        return np.flatnonzero(keep)


def find_duplicates(x: Sequence[NDArray[Any]], y: Sequence[NDArray[np.int64]]) -> Duplicates:
    """Find the identical examples among the rows ``x[domain]`` with labels ``y[domain]``."""
    members: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for domain, rows in enumerate(x):
        for row, example in enumerate(rows):
            content = np.ascontiguousarray(example).tobytes()
            members[hashlib.blake2b(content, digest_size=16).digest()].append((domain, row))
    groups = [group for group in members.values() if len(group) > 1]
    conflicting = [len({int(y[domain][row]) for domain, row in group}) > 1 for group in groups]
    across = [len({domain for domain, _ in group}) > 1 for group in groups]
    removed: list[RemovedRow] = []
    for group, conflicts, spans in zip(groups, conflicting, across, strict=True):
        reason: Reason = (
            "conflicting labels" if conflicts else "several domains" if spans else "repeat"
        )
        gone = group[1:] if reason == "repeat" else group
        removed.extend(RemovedRow(domain, row, reason) for domain, row in gone)
    return Duplicates(
        sizes=tuple(len(rows) for rows in x),
        groups=len(groups),
        conflicting_groups=sum(conflicting),
        groups_across_domains=sum(across),
        removed=tuple(sorted(removed, key=lambda gone: (gone.domain, gone.row))),
    )
