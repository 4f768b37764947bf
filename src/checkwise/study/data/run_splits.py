"""Which rows a run trains on, validates on and is evaluated on, by what it holds out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.store import SplitBy, Validation
from checkwise.study.data.dataset import DomainDataset
from checkwise.study.data.splits import split, split_both, split_groups

Indices = NDArray[np.int64]


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
    """The splits of every source domain; nothing that is held out is among their rows.

    A domain of which places are held out is a source with the rows that are left.
    """
    if split_by != "examples" and not dataset.groups:
        raise InputError(
            f"Expected groups for split_by = {split_by!r}, but {dataset.name} has none: set "
            "`groups` to the column of the feature file that names them.",
            code="missing",
        )
    splits = []
    for domain in source_domains(dataset, held_out):
        rows = _left(dataset, domain, held_out)
        seeds = {"domain_index": domain, "trial_seed": trial_seed, "holdout": holdout}
        train, validation = _divide(dataset, domain, rows, split_by, seeds)
        splits.append(SourceSplit(domain, train, validation))
    return splits


def source_domains(dataset: DomainDataset, held_out: Sequence[str]) -> list[int]:
    """Indices of the domains with examples that are not held out."""
    for name in held_out:
        dataset.target_index(name)
    left = [d for d in range(len(dataset.domains)) if len(_left(dataset, d, held_out))]
    check_sources(held_out, left, dataset.name)
    return left


def check_sources(held_out: Sequence[str], left: Sequence[object], name: str) -> None:
    """Refuse to hold out all of a data set."""
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
        entry.update({name: len(rows) for name, rows in part.validation.items()})
        if "groups" in part.validation:
            entry["validation_groups"] = groups(part.domain, part.validation["groups"])
        facts[dataset.domains[part.domain]] = entry
    places = {place.name: place for place in dataset.places}
    wanted = [places[name] for name in held_out if name in places]
    return {
        "sources": facts,
        "places": {
            place.name: {"n": len(place.rows), "groups": groups(place.domain, place.rows)}
            for place in wanted
        },
    }


def _left(dataset: DomainDataset, domain: int, held_out: Sequence[str]) -> Indices:
    """The rows of a domain that are not held out."""
    if not dataset.places:
        gone = dataset.domains[domain] in held_out
        return np.arange(0 if gone else dataset.sizes[domain], dtype=np.int64)
    stays = np.ones(dataset.sizes[domain], dtype=bool)
    for place in dataset.places:
        if place.domain == domain and place.name in held_out:
            stays[place.rows] = False
    return np.flatnonzero(stays)


def _divide(
    dataset: DomainDataset, domain: int, rows: Indices, split_by: SplitBy, seeds: Mapping[str, Any]
) -> tuple[Indices, dict[Validation, Indices]]:
    try:
        if split_by == "examples":
            inside, out = split(len(rows), **seeds)
            return rows[inside], {"examples": rows[out]}
        groups = dataset.groups[domain][rows]
        if split_by == "groups":
            inside, out = split_groups(groups, **seeds)
            return rows[inside], {"groups": rows[out]}
        inside, by_examples, by_groups = split_both(groups, **seeds)
    except InputError as error:
        where = f"domain {dataset.domains[domain]!r} of {dataset.name}"
        raise InputError(f"{error} ({where})", code=error.code) from None
    return rows[inside], {"examples": rows[by_examples], "groups": rows[by_groups]}
