"""A data set of several domains, parts of it, and its identical examples.

Examples are identical when their arrays are, byte for byte. What
a de-duplicated data set keeps of each group of them:

- one domain, one label: the first stays, the others go;
- more than one label: all go, since nobody knows which is right;
- one label, more than one domain: all go, since otherwise a held-out domain would share an example
  with a source."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import same_name

Kind: TypeAlias = Literal["images", "digits", "features"]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Place:
    """Whole groups of one domain that are held out together: the rows of that domain."""

    name: str
    domain: int
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DomainDataset:
    """Examples of several domains that share their classes.

    ``x[d]`` holds the examples of domain ``d``, perhaps memory-mapped and always read-only: uint8
    [n, height, width, channels] for images and digits, floating [n, …] for features. ``y[d]`` holds
    their labels, indices into ``classes``; ``ids[d]`` says where each came from; ``groups[d]`` to
    which of ``group_names`` each belongs (its site, its patient), if known. ``places`` are what
    runs hold out instead of a domain, if any. ``fingerprint`` changes whenever any of this does.
    """

    name: str
    kind: Kind
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    x: tuple[NDArray[Any], ...]
    y: tuple[Labels, ...]
    ids: tuple[tuple[str, ...], ...]
    fingerprint: str
    groups: tuple[Labels, ...] = ()
    group_names: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        for what, names in (("domain", self.domains), ("class", self.classes)):
            if not names or len(set(names)) < len(names) or not all(names):
                raise InputError(
                    f"Expected distinct, non-empty {what} names, but got {list(names)} in "
                    f"{self.name}: give every {what} a name of its own.",
                    code="ambiguous",
                )
        check_unlike(self.name, self.domains)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of examples in each domain."""
        return tuple(len(y) for y in self.y)

    def domain_index(self, domain: str) -> int:
        """The position of ``domain``; an unknown name lists the known ones."""
        check_domain_name(self.name, domain, self.domains)
        return self.domains.index(domain)

    @property
    def targets(self) -> tuple[str, ...]:
        """What a run may hold out: the places where there are any, else the domains."""
        return tuple(place.name for place in self.places) or self.domains

    def target_index(self, name: str) -> int:
        """Return the position of a place or domain that is held out."""
        check_domain_name(self.name, name, self.targets)
        return self.targets.index(name)

    def rows(self, domain: int, indices: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Return a writable in-memory copy of some examples, as torch.from_numpy needs."""
        return np.array(self.x[domain][indices])

    def without_duplicates(self) -> DomainDataset:
        """Return the data set without identical examples, by the rule stated in this module.

        Rows of memory-mapped arrays are copied into memory where something is removed.
        """
        members: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for domain, rows in enumerate(self.x):
            for row, example in enumerate(rows):
                content = np.ascontiguousarray(example).tobytes()
                members[hashlib.blake2b(content, digest_size=16).digest()].append((domain, row))
        removed: list[tuple[int, int]] = []
        for group in members.values():
            one_label = len({int(self.y[domain][row]) for domain, row in group}) == 1
            one_domain = len({domain for domain, _ in group}) == 1
            removed += group[1:] if one_label and one_domain else group
        if not removed:
            return self
        removed.sort()
        staying = [np.ones(size, dtype=bool) for size in self.sizes]
        for domain, row in removed:
            staying[domain][row] = False
        identity = fingerprint("without duplicates", self.fingerprint, repr(removed))
        return self.rows_only([np.flatnonzero(stays) for stays in staying], identity)

    def rows_only(self, staying: Sequence[NDArray[np.int64]], identity: str) -> DomainDataset:
        """Return the data set with some rows of every domain, under another fingerprint.

        Places are made of all rows of a domain, so they have to be made again.
        """
        parts = list(zip(staying, self.x, self.y, self.ids, strict=True))
        return replace(
            self,
            x=tuple(x if len(rows) == len(x) else x[rows] for rows, x, _, _ in parts),
            y=tuple(y[rows] for rows, _, y, _ in parts),
            ids=tuple(tuple(ids[row] for row in rows) for rows, _, _, ids in parts),
            groups=tuple(groups[rows] for groups, rows in zip(self.groups, staying, strict=False)),
            places=(),
            fingerprint=identity,
        )


def from_arrays(
    name: str,
    arrays: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
    *,
    kind: Kind,
    classes: Sequence[str],
    ids: Sequence[Sequence[str]] | None = None,
) -> DomainDataset:
    """Make a data set from ``{domain: (examples, labels)}``, fingerprinting every byte.

    The arrays are not copied; they must not be changed afterwards.

    Example:
        >>> data = from_arrays("toy", {"a": (np.zeros((2, 3), np.float32), np.array([0, 1]))},
        ...                    kind="features", classes=["cat", "dog"])
        >>> data.num_classes, data.sizes
        (2, (2,))
    """
    x = tuple(_read_only(examples) for examples, _ in arrays.values())
    y = tuple(_read_only(np.asarray(labels).astype(np.int64)) for _, labels in arrays.values())
    numbered = [[f"row {row}" for row in range(len(labels))] for labels in y]
    return DomainDataset(
        name=name,
        kind=kind,
        domains=tuple(arrays),
        classes=tuple(classes),
        x=x,
        y=y,
        ids=tuple(tuple(names) for names in (numbered if ids is None else ids)),
        fingerprint=fingerprint(repr(tuple(arrays)), repr(tuple(classes)), *x, *y),
    )


def fingerprint(*parts: str | NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        # The leading length keeps ("ab", "c") apart from ("a", "bc").
        if isinstance(part, str):
            text = part.encode(errors="surrogateescape")
            digest.update(f"text {len(text)}:".encode() + text)
            continue
        digest.update(f"array {part.dtype.str} {part.shape}:".encode())
        for start in range(0, len(part), 1024):
            digest.update(np.ascontiguousarray(part[start : start + 1024]).tobytes())
    return digest.hexdigest()


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def check_domain_name(name: str, domain: str, domains: Sequence[str]) -> None:
    if domain not in domains:
        raise InputError(
            f"Expected a domain of {name}, but got {domain!r}: choose from {', '.join(domains)}.",
            code="unknown",
        )


def check_unlike(name: str, domains: Sequence[str]) -> None:
    """Refuse domains whose names selection would take for one another.

    A run that holds one of them out could not be read: the other would count as its target.
    """
    for one, other in combinations(domains, 2):
        if same_name(one, other):
            raise InputError(
                f"Expected domains whose names differ in more than case or space, but got {one!r} "
                f"and {other!r} in {name}: rename one.",
                code="ambiguous",
            )


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
    return tuple(f"{name}-place-{i:0{width}d}" for name in domains for i in range(1, count + 1))


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
