"""The 24 places are those that the rule of the protocol gives, dealt here by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.docs.test_pages import builder
from tests.requirements import SHARED, requires

FEATURES = SHARED / "data" / "taicam_lite0.npz"
SITES, PLACES = "taicam-sites", 6


@pytest.fixture(scope="module")
def dealt() -> dict[str, tuple[int, list[str]]]:
    """Place → images and sites: the largest site first, into the place with the fewest images."""
    with np.load(FEATURES, allow_pickle=False) as data:
        domains, domain, site = data["domains"], data["domain"], data["site"]
    places = {}
    for number, name in enumerate(domains.tolist()):
        images: list[int] = [0] * PLACES
        sites: list[list[str]] = [[] for _ in range(PLACES)]
        counts = Counter(site[domain == number].tolist())
        for one in sorted(counts, key=lambda one: (-counts[one], one)):
            smallest = images.index(min(images))
            images[smallest] += counts[one]
            sites[smallest].append(one)
        for i in range(PLACES):
            places[f"{name}-place-{i + 1}"] = images[i], sorted(sites[i])
    return places


@requires("shared", FEATURES.is_file(), "the features are not beside the clone")
def test_registered_places_and_those_of_the_packed_runs(
    dealt: dict[str, tuple[int, list[str]]],
) -> None:
    registered = builder("registered_table").named_places(SITES)
    assert set(registered) == set(dealt)
    named = {place: found for place, found in registered.items() if found}
    sizes = {len(sites) for _, sites in dealt.values()}
    known = {len(found["groups"]) for found in named.values()}
    assert (min(sizes), max(sizes)) == (min(known), max(known))  # as results.md has them
    assert len(named) == 20  # no run of the others was finished when the contrasts were registered
    for place, found in named.items():
        assert (found["n"], sorted(found["groups"])) == dealt[place]
    with builder("packed").packed_cohorts((SITES,)) as cohorts:
        held_out = {key.held_out[0]: cohorts[SITES].held_out(key) for key in cohorts[SITES].usable}
        evaluated = {place: int(journals[place]["n"][0]) for place, journals in held_out.items()}
    assert evaluated == {place: images for place, (images, _) in dealt.items()}
