"""The data sets of a study: where they are, and how to open them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from checkwise.errors import InputError
from checkwise.study.data import (
    EMBEDDED,
    DomainDataset,
    Kind,
    Progress,
    check_domain_name,
    check_unlike,
    class_subset,
    domain_names,
    list_images,
    open_dataset,
    place_names,
    with_classes,
    with_places,
)
from checkwise.study.sweep.study import OWN, DataSpec, Study

ENVIRONMENT = "CHECKWISE_DATA"


def read_roots(options: Iterable[str]) -> dict[str, str]:
    """The ``--data NAME=PATH`` options as absolute paths by name."""
    roots = {}
    for word in options:
        name, separator, place = word.partition("=")
        if not separator or not name or not place:
            raise InputError(
                f"Expected --data NAME=PATH, but got {word!r}: for example PACS=/data/PACS."
            )
        roots[name] = str(Path(place).expanduser().absolute())
    return roots


def root_of(spec: DataSpec, roots: Mapping[str, str]) -> str | None:
    """Where a data set is: from --data, the study file, or ``$CHECKWISE_DATA/<name>``."""
    if spec.dataset in EMBEDDED:
        return None
    whole = spec.part_of or spec.name
    for name in (spec.name, whole):
        if name in roots:
            return roots[name]
    if spec.root is not None:
        return spec.root
    common = os.environ.get(ENVIRONMENT)
    if common:
        places = [Path(common) / whole, Path(common) / f"{whole}.npz"]
        return str(next((place for place in places if place.exists()), places[0]))
    raise InputError(
        f"Expected a place for the data set {whole}, but got none: add --data "
        f"{whole}=PATH, or set {ENVIRONMENT} to the folder that holds it.",
        code="missing",
    )


def open_spec(
    spec: DataSpec, roots: Mapping[str, str], *, progress: Progress | None = None
) -> DomainDataset:
    """Open a data set of a study; the first time, images are decoded into the cache."""
    options: dict[str, object] = {"domain_by": spec.domain_by, "groups": spec.groups}
    if spec.dataset in OWN:
        options["name"] = spec.name
    if kind_of(spec) == "images":
        options |= {"progress": progress, "size": spec.size}
    options = {name: value for name, value in options.items() if value is not None}
    dataset = open_dataset(spec.dataset, root_of(spec, roots), **options)
    if spec.deduplicate:
        dataset = dataset.without_duplicates()
    classes = spec.classes
    if spec.class_subset is not None:
        classes = class_subset(dataset.classes, *spec.class_subset)
    if classes:
        dataset = with_classes(dataset, classes)
    return dataset if spec.places is None else with_places(dataset, spec.places)


def domains_of(spec: DataSpec, roots: Mapping[str, str]) -> tuple[str, ...]:
    """The names of a data set's domains, without reading one example."""
    columns = {} if spec.domain_by is None else {"domain_by": spec.domain_by}
    names = domain_names(spec.dataset, root_of(spec, roots), **columns)
    check_unlike(spec.name, names)
    return names


def targets_of(spec: DataSpec, roots: Mapping[str, str]) -> tuple[str, ...]:
    """What the runs on a data set may hold out: its domains, or the places inside them."""
    domains = domains_of(spec, roots)
    return domains if spec.places is None else place_names(domains, spec.places)


def image_domains(spec: DataSpec, roots: Mapping[str, str]) -> dict[str, int]:
    """The domains of a data set of images with their sizes, in order; no image is read."""
    folder = list_images(spec.dataset, root_of(spec, roots) or "")
    return dict(zip(folder.domains, map(len, folder.labels), strict=True))


def kind_of(spec: DataSpec) -> Kind:
    """What the examples of a data set are."""
    if spec.dataset in EMBEDDED:
        return "digits"
    return "features" if spec.dataset == "Features" else "images"


def check_held_out(spec: DataSpec, domains: Sequence[str]) -> None:
    """Refuse a study that holds out a domain that its data do not have."""
    for name in (name for names in spec.held_out or () for name in names):
        check_domain_name(spec.name, name, domains)


def with_domains(study: Study, roots: Mapping[str, str]) -> tuple[Study, tuple[str, ...]]:
    """The study with its held-out domains checked and "each" replaced by the domains' names.

    Data sets that are not found stay as they are; their names are returned too.
    """
    data, absent = [], []
    for spec in study.data:
        try:
            root = root_of(spec, roots)
            found = root is None or Path(root).exists()
        except InputError:
            found = False
        if not found:
            absent.append(spec.name)
            data.append(spec)
            continue
        targets = targets_of(spec, roots)
        check_held_out(spec, targets)
        held_out = spec.held_out or tuple((name,) for name in targets)
        data.append(replace(spec, held_out=held_out))
    return replace(study, data=tuple(data)), tuple(absent)


def check_roots(study: Study, roots: Mapping[str, str]) -> None:
    """Refuse --data for a data set that the study does not have."""
    names = list(dict.fromkeys(spec.part_of or spec.name for spec in study.data))
    for name in roots:
        if name not in (*names, *(spec.name for spec in study.data)):
            raise InputError(
                f"Expected --data for {', '.join(names)}, but got {name!r}: use one of these.",
                code="unknown",
            )


def all_roots(study: Study, roots: Mapping[str, str]) -> dict[str, str]:
    """Where every data set of a study is, for workers that see neither study file nor shell."""
    check_roots(study, roots)
    places = {spec.name: root_of(spec, roots) for spec in study.data}
    return {name: place for name, place in places.items() if place is not None}
