"""Which rows a run trains on, validates on and is evaluated on, and its minibatches.

Seeds are derived from names: a run's randomness depends on what it is and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store import SplitBy, Validation
from checkwise.study.data.dataset import DomainDataset

Indices = NDArray[np.int64]


def seed_hash(*parts: object) -> int:
    """md5 of the printed tuple of `parts`, as an integer modulo 2³¹.

    NumPy integers count as the integers they hold: their printed form differs between versions.

    Example:
        >>> seed_hash(0, 0)
        894182419
    """
    printed = str(tuple(_plain(part) for part in parts))
    return int(hashlib.md5(printed.encode("utf-8"), usedforsecurity=False).hexdigest(), 16) % 2**31


def training_seed(
    dataset: str, algorithm: str, held_out: Sequence[int], *, hparams_seed: int, trial_seed: int
) -> int:
    """The seed of initialisation, sampling and dropout of one run; `held_out` are domain indices.

    Example:
        >>> training_seed("PACS", "ERM", [0], hparams_seed=0, trial_seed=0)
        94828300
    """
    return seed_hash(dataset, algorithm, list(held_out), hparams_seed, trial_seed)


def shared_init_seed(dataset: str, algorithm: str, held_out: Sequence[int]) -> int:
    return seed_hash(dataset, algorithm, list(held_out), "init")


def draw_seed(dataset: str, algorithm: str, held_out: Sequence[str], draw: int) -> int:
    """The trial seed of one of several draws; other algorithms and held-out sets have others.

    Example:
        >>> draw_seed("PACS", "ERM", ["sketch"], 1)
        1470938037
    """
    return 1 + seed_hash(dataset, algorithm, list(held_out), "draw", draw) % (2**31 - 2)


def _plain(part: object) -> object:
    if isinstance(part, list | tuple):
        return type(part)(map(_plain, part))
    return part.item() if isinstance(part, np.generic) else part


def split(
    n: int, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices]:
    """Return ``(in_indices, out_indices)`` of a domain with ``n`` examples.

    The keys 0..n-1 are shuffled with a seed that depends on the trial and the domain only;
    ``out`` is the first ``int(n * holdout)`` of them, ``in`` the rest, both in shuffled order.

    Example:
        >>> inside, out = split(2048, domain_index=0, trial_seed=0)
        >>> len(inside), len(out), out[:5].tolist()
        (1639, 409, [548, 677, 1997, 977, 1553])
    """
    held_out = int(n * holdout)
    if held_out < 1 or held_out >= n:
        raise InputError(
            f"Expected examples on both sides of the split, but got {n} examples with "
            f"holdout {holdout} in domain {domain_index}: add examples or change `holdout`.",
            code="empty",
        )
    keys = np.arange(n, dtype=np.int64)
    np.random.RandomState(seed_hash(trial_seed, domain_index)).shuffle(keys)
    return keys[held_out:], keys[:held_out]


def split_groups(
    groups: Indices, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices]:
    """Return ``(in_indices, out_indices)`` of a domain; no group is on both sides.

    The groups are shuffled with a seed that depends on the trial and the domain only. Each in turn
    is held out if that brings the number of held-out examples nearer to ``int(n * holdout)``. Where
    every group is more than twice as large as wanted, the smallest one is held out. Both sides are
    in the order of the rows.

    Example:
        >>> inside, out = split_groups(np.repeat(np.arange(10), 5), domain_index=0, trial_seed=0)
        >>> out.tolist()
        [25, 26, 27, 28, 29, 40, 41, 42, 43, 44]
    """
    names, sizes = np.unique(groups, return_counts=True)
    if len(names) < 2:
        raise InputError(
            f"Expected at least 2 groups to split, but got {len(names)} in domain {domain_index}: "
            'split this data set with split_by = "examples", or use other groups.',
            code="unsupported",
        )
    wanted = int(len(groups) * holdout)
    order = np.arange(len(names))
    np.random.RandomState(seed_hash(trial_seed, domain_index, "groups")).shuffle(order)
    held_out: list[int] = []
    taken = 0
    for group in order.tolist():
        size = int(sizes[group])
        if abs(taken + size - wanted) < abs(taken - wanted):
            held_out.append(group)
            taken += size
    if not held_out:
        held_out = [int(order[np.argmin(sizes[order])])]
    outside = np.isin(groups, names[held_out])
    if outside.all():
        raise InputError(
            f"Expected groups on both sides of the split, but all of domain {domain_index} are "
            f"held out with holdout {holdout}: lower `holdout`.",
            code="empty",
        )
    return np.flatnonzero(~outside), np.flatnonzero(outside)


def split_both(
    groups: Indices, *, domain_index: int, trial_seed: int, holdout: float = 0.2
) -> tuple[Indices, Indices, Indices]:
    """Return ``(in, out_examples, out_groups)``: two validation sets of one size.

    ``out_groups`` are whole groups, as ``split_groups`` holds them out. ``out_examples`` are
    equally many examples of the other groups, drawn at random; the rest is trained on.

    Example:
        >>> parts = split_both(np.repeat(np.arange(10), 5), domain_index=0, trial_seed=0)
        >>> [len(part) for part in parts]
        [30, 10, 10]
    """
    others, by_groups = split_groups(
        groups, domain_index=domain_index, trial_seed=trial_seed, holdout=holdout
    )
    if len(by_groups) >= len(others):
        raise InputError(
            f"Expected examples to train on, but the groups of domain {domain_index} that are held "
            f"out have {len(by_groups)} examples and the others {len(others)}: lower `holdout`, or "
            "use smaller groups.",
            code="empty",
        )
    keys = np.arange(len(others))
    np.random.RandomState(seed_hash(trial_seed, domain_index)).shuffle(keys)
    drawn = np.zeros(len(others), dtype=bool)
    drawn[keys[: len(by_groups)]] = True
    return others[~drawn], others[drawn], by_groups


@dataclass(frozen=True, eq=False)
class SourceSplit:
    """The rows of one source domain: to train on, and of each validation set.

    The first of ``validation`` is the run's own; with ``split_by = "both"`` there are two.
    """

    domain: int
    train: Indices
    validation: Mapping[Validation, Indices]


def source_splits(
    dataset: DomainDataset,
    held_out: Sequence[str],
    *,
    split_by: SplitBy,
    trial_seed: int,
    holdout: float,
) -> list[SourceSplit]:
    """The splits of every source domain, without rows that are held out."""
    splits = []
    for domain in source_domains(dataset, held_out):
        rows = _left(dataset, domain, held_out)
        seeds: dict[str, Any]
        seeds = {"domain_index": domain, "trial_seed": trial_seed, "holdout": holdout}
        try:
            if split_by == "examples":
                train, *out = split(len(rows), **seeds)
            else:
                deal = split_groups if split_by == "groups" else split_both
                train, *out = deal(dataset.groups[domain][rows], **seeds)
        except InputError as error:
            where = f"domain {dataset.domains[domain]!r} of {dataset.name}"
            raise InputError(f"{error} ({where})", code=error.code) from None
        names: Sequence[Validation]
        names = ("examples", "groups") if split_by == "both" else (split_by,)
        validation = dict(zip(names, (rows[part] for part in out), strict=True))
        splits.append(SourceSplit(domain, rows[train], validation))
    return splits


def source_domains(dataset: DomainDataset, held_out: Sequence[str]) -> list[int]:
    for name in held_out:
        dataset.target_index(name)
    left = [d for d in range(len(dataset.domains)) if len(_left(dataset, d, held_out))]
    check_sources(held_out, left, dataset.name)
    return left


def check_sources(held_out: Sequence[str], left: Sequence[object], name: str) -> None:
    if not left:
        raise InputError(
            f"Expected at least one source domain, but all of {', '.join(held_out)} are held out "
            f"of {name}: hold out fewer domains.",
            code="empty",
        )


def target_rows(
    dataset: DomainDataset, name: str, *, trial_seed: int, holdout: float
) -> tuple[int, Indices]:
    """The domain of what is held out, and its rows: a place whole, a domain's `in` split."""
    if dataset.places:
        place = dataset.places[dataset.target_index(name)]
        return place.domain, place.rows
    domain = dataset.domain_index(name)
    inside, _ = split(
        dataset.sizes[domain], domain_index=domain, trial_seed=trial_seed, holdout=holdout
    )
    return domain, inside


def described(
    dataset: DomainDataset, held_out: Sequence[str], splits: Sequence[SourceSplit]
) -> dict[str, Any] | None:
    """Sizes of the splits and names of their groups, for ``run.json``; None without groups."""
    if not dataset.groups:
        return None

    def groups(domain: int, rows: Indices) -> list[str]:
        present = np.unique(dataset.groups[domain][rows]).tolist()
        return [dataset.group_names[group] for group in present]

    facts: dict[str, Any] = {}
    for part in splits:
        entry: dict[str, Any] = {"train": len(part.train)}
        entry |= {name: len(rows) for name, rows in part.validation.items()}
        if "groups" in part.validation:
            entry["validation_groups"] = groups(part.domain, part.validation["groups"])
        facts[dataset.domains[part.domain]] = entry
    known = {place.name: place for place in dataset.places}
    wanted = [known[name] for name in held_out if name in known]
    places = {p.name: {"n": len(p.rows), "groups": groups(p.domain, p.rows)} for p in wanted}
    return {"sources": facts, "places": places}


def _left(dataset: DomainDataset, domain: int, held_out: Sequence[str]) -> Indices:
    if not dataset.places:
        gone = dataset.domains[domain] in held_out
        return np.arange(0 if gone else dataset.sizes[domain], dtype=np.int64)
    stays = np.ones(dataset.sizes[domain], dtype=bool)
    for place in dataset.places:
        if place.domain == domain and place.name in held_out:
            stays[place.rows] = False
    return np.flatnonzero(stays)


# Part of the stream's definition, like the seed: changing it changes every draw.
BLOCK = 64


class MinibatchSampler:
    """Draws one minibatch of row indices per domain and update, with replacement.

    ``pools[d]`` holds the rows of domain ``d`` that may be drawn (its `in` split). Every domain has
    its own stream, a function of ``(seed, position of the domain, number of batches drawn)`` alone:
    the whole state is one counter, and domains neither share nor disturb each other's draws.
    The legacy generator is used because NumPy promises never to change its stream.

    Example:
        >>> sampler = MinibatchSampler([np.arange(5), np.arange(9)], batch_size=3, seed=0)
        >>> state = sampler.state()
        >>> first = sampler.next()
        >>> sampler.set_state(state)
        >>> all((a == b).all() for a, b in zip(first, sampler.next()))
        True
    """

    def __init__(self, pools: Sequence[Indices], *, batch_size: int, seed: int) -> None:
        self._pools = [np.asarray(pool, dtype=np.int64) for pool in pools]
        self._batch_size = batch_size
        self._seed = seed
        self._drawn = 0
        self._blocks: dict[int, list[tuple[Indices, ...]]] = {}  # the one in use

    def next(self) -> tuple[Indices, ...]:
        """Return the next minibatch: one read-only array of ``batch_size`` rows per domain."""
        block, offset = divmod(self._drawn, BLOCK)
        if block not in self._blocks:
            self._blocks = {block: self._draw(block)}
        self._drawn += 1
        return self._blocks[block][offset]

    def state(self) -> dict[str, int]:
        """Return what ``set_state`` needs to continue exactly here; plain JSON."""
        return {"drawn": self._drawn}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Continue where ``state`` of a sampler of the same pools, size and seed was taken."""
        self._drawn = state["drawn"]

    def _draw(self, block_index: int) -> list[tuple[Indices, ...]]:
        streams = []
        for position, pool in enumerate(self._pools):
            entropy = np.random.SeedSequence([self._seed, position, block_index])
            random = np.random.RandomState(np.random.MT19937(entropy))
            drawn = random.randint(0, len(pool), size=(BLOCK, self._batch_size), dtype=np.int64)
            rows = pool[drawn]
            rows.flags.writeable = False
            streams.append(rows)
        return list(zip(*streams, strict=True))
