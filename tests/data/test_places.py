"""Places: dealt by hand, whole groups, and what a run trains, validates and is evaluated on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkwise.store import SPLIT_BY, SplitBy
from checkwise.study.data import (
    DomainDataset,
    described,
    from_arrays,
    place_names,
    source_splits,
    split,
    target_rows,
    with_places,
)
from checkwise.study.data.dataset import deal
from tests.refusals import refused

SIZES = {"north": [9, 4, 7, 4, 6, 5, 8], "south": [3, 12, 5, 6, 6]}


def _traps(sizes: dict[str, list[int]] | None = None) -> DomainDataset:
    sizes = SIZES if sizes is None else sizes
    totals = {name: sum(counts) for name, counts in sizes.items()}
    data = from_arrays(
        "traps",
        {name: (np.zeros((n, 2), np.float32), np.zeros(n)) for name, n in totals.items()},
        kind="features",
        classes=["cat"],
    )
    groups, first = [], 0
    for counts in sizes.values():
        groups.append(np.repeat(np.arange(first, first + len(counts)), counts))
        first += len(counts)
    names = tuple(f"S{code:02d}" for code in range(first))
    return replace(data, groups=tuple(groups), group_names=names)


def test_the_largest_group_goes_first_into_the_smallest_place() -> None:
    groups = np.repeat(np.arange(7), [9, 4, 7, 4, 6, 5, 8])
    # Sizes 9, 8, 7, 6, 5, 4, 4 of the groups 0, 6, 2, 4, 5, 1, 3.
    # a=9, b=8, c=7 → c=13 → b=13 → a=13 → all have 13, so the first: a=17.
    assert deal(groups, 3) == [[0, 1, 3], [6, 5], [2, 4]]


def test_every_example_is_in_one_place_with_its_whole_group() -> None:
    data = with_places(_traps(), 3)
    assert data.targets == place_names(("north", "south"), 3)
    assert data.domains == ("north", "south")
    for domain, groups in enumerate(data.groups):
        own = [place for place in data.places if place.domain == domain]
        assert sorted(np.concatenate([place.rows for place in own])) == list(range(len(groups)))
        parts = [set(groups[place.rows].tolist()) for place in own]
        assert sum(map(len, parts)) == len(set(groups.tolist()))


def test_places_change_the_fingerprint_and_nothing_else_does() -> None:
    plain = _traps()
    assert with_places(plain, 2).fingerprint != with_places(plain, 3).fingerprint
    assert with_places(plain, 2).fingerprint == with_places(plain, 2).fingerprint
    assert plain.fingerprint != with_places(plain, 2).fingerprint


@given(
    north=st.lists(st.integers(6, 9), min_size=8, max_size=15),
    place=st.integers(0, 3),
    trial=st.integers(0, 3),
    split_by=st.sampled_from(SPLIT_BY),
)
def test_nothing_of_the_place_is_seen_and_everything_else_is_used_once(
    north: list[int], place: int, trial: int, split_by: SplitBy
) -> None:
    data = with_places(_traps({"north": north, "south": [5, 4, 4, 4, 4, 5, 3, 4]}), 2)
    name = data.targets[place]
    settings: dict[str, Any] = {"trial_seed": trial, "holdout": 0.2}
    parts = source_splits(data, (name,), split_by=split_by, **settings)
    held_domain, held_rows = target_rows(data, name, **settings)
    assert held_rows.tolist() == data.places[place].rows.tolist()
    assert [part.domain for part in parts] == [0, 1]
    for part in parts:
        seen = np.concatenate([part.train, *part.validation.values()]).tolist()
        held = held_rows if part.domain == held_domain else held_rows[:0]
        assert sorted([*seen, *held]) == list(range(data.sizes[part.domain]))
        groups = data.groups[part.domain]
        if "groups" in part.validation:
            outside = set(groups[part.validation["groups"]])
            assert not outside & set(groups[part.train])
        assert not set(groups[held]) & set(groups[seen])


def test_whole_domains_are_split_as_they_always_were() -> None:
    data = _traps()
    settings: dict[str, Any] = {"trial_seed": 2, "holdout": 0.2}
    (only,) = source_splits(data, ("south",), split_by="examples", **settings)
    inside, out = split(data.sizes[0], domain_index=0, **settings)
    assert only.train.tolist() == inside.tolist()
    assert only.validation["examples"].tolist() == out.tolist()
    target = split(data.sizes[1], domain_index=1, **settings)[0].tolist()
    assert target_rows(data, "south", **settings)[1].tolist() == target


@pytest.mark.parametrize("held_out", [*itertools.permutations(("north", "south", "west"), 2)])
def test_every_domain_that_is_held_out_is_no_source(held_out: tuple[str, str]) -> None:
    data = replace(_traps({**SIZES, "west": [8, 8]}), groups=())
    (only,) = source_splits(data, held_out, split_by="examples", trial_seed=0, holdout=0.2)
    assert data.domains[only.domain] not in held_out


def test_a_domain_without_places_left_is_no_source() -> None:
    data = with_places(_traps(), 2)
    held_out = ("south-place-1", "south-place-2")
    settings: dict[str, Any] = {"trial_seed": 0, "holdout": 0.2}
    parts = source_splits(data, held_out, split_by="groups", **settings)
    assert [part.domain for part in parts] == [0]
    with refused("empty"):
        source_splits(data, data.targets, split_by="groups", **settings)


def test_the_record_names_the_groups_of_validation_and_place() -> None:
    data = with_places(_traps(), 2)
    parts = source_splits(data, ("south-place-1",), split_by="both", trial_seed=0, holdout=0.2)
    facts = described(data, ("south-place-1",), parts)
    assert facts is not None
    north = facts["sources"]["north"]
    assert north["examples"] == north["groups"]
    assert north["train"] + 2 * north["groups"] == sum(SIZES["north"])
    by_name = dict(
        zip(data.group_names, [n for sizes in SIZES.values() for n in sizes], strict=True)
    )
    assert sum(by_name[name] for name in north["validation_groups"]) == north["groups"]
    place = facts["places"]["south-place-1"]
    assert sum(by_name[name] for name in place["groups"]) == place["n"]
    assert described(replace(data, groups=(), places=()), ("south",), parts) is None


def test_what_does_not_fit_is_refused() -> None:
    with refused("unsupported: 6 … 5 … 'south'"):
        with_places(_traps(), 6)
    with refused("unknown: north-place-1"):
        with_places(_traps(), 2).target_index("north")
