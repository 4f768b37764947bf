"""What a study plans: its data sets, its runs, their configurations and its folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from checkwise.errors import InputError
from checkwise.plugins import check_loaded
from checkwise.records import RunKey
from checkwise.store import (
    COHORT_FILE,
    INNER_SUFFIX,
    LAYOUT_SCHEMA,
    WORKERS_FILE,
    encode_json,
    expect,
    has_file,
    read_json,
    write_text,
    writing,
)
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
    shared_init_seed,
    training_seed,
    with_classes,
    with_places,
)
from checkwise.study.folder import CohortRecord, check_folders, is_cohort, open_cohort, write_cohort
from checkwise.study.sweep.study import OWN, DataSpec, Study
from checkwise.study.train import RunConfig, TrainingData, hparams_for


def inner_study(study: Study, roots: Mapping[str, str]) -> Study:
    """The inner runs of leave-one-domain-out validation, as a study like any other.

    For an outer target T and every other domain v an inner run holds out T and v and trains on the
    rest, with the algorithms, hyperparameters, seeds and schedule of the study. The set {T, v} is
    trained once, whichever of the two is the target. Weights and logits are not kept: only the
    results on v are needed.
    """
    if study.draws or any(spec.places for spec in study.data):
        reason = "draws" if study.draws else "places"
        raise InputError(
            f"Expected a study with seeds that inner runs share and with whole domains held out, "
            f"but {study.name} has `{reason}`: leave-one-domain-out validation cannot use it.",
            code="unsupported",
        )
    data = tuple(_inner(spec, domains_of(spec, roots)) for spec in study.data)
    return replace(
        study,
        name=f"{study.name}{INNER_SUFFIX}",
        data=data,
        keep="none",
        logits="none",
        averages=(),
    )


def _inner(spec: DataSpec, domains: Sequence[str]) -> DataSpec:
    check_held_out(spec, domains)
    sets = set()
    for outer in spec.held_out or tuple((name,) for name in domains):
        others = [name for name in domains if name not in outer]
        if len(others) < 2:
            raise InputError(
                f"Expected at least 2 source domains to leave one out, but {spec.name} without "
                f"{', '.join(outer)} has fewer: use a data set with more domains.",
                code="unsupported",
            )
        sets |= {held_out_set(outer, extra, domains) for extra in others}
    ordered = sorted(sets, key=lambda names: [domains.index(name) for name in names])
    return replace(spec, held_out=tuple(ordered))


def held_out_set(outer: Sequence[str], extra: str, domains: Sequence[str]) -> tuple[str, ...]:
    """The domains that an inner run holds out, in the order of the data set."""
    return tuple(name for name in domains if name in outer or name == extra)


def plan(study: Study, roots: Mapping[str, str]) -> list[RunKey]:
    keys = []
    for spec in study.data:
        held_out = spec.held_out or tuple((name,) for name in targets_of(spec, roots))
        cells = [(algorithm, names) for algorithm in study.algorithms for names in held_out]
        seeds = [study.seeds(spec.name, *cell) for cell in cells]
        for number in range(len(seeds[0])):
            keys += [
                RunKey(spec.name, *cell, *of_cell[number])
                for cell, of_cell in zip(cells, seeds, strict=True)
            ]
    check_folders(keys)
    return keys


def make_cohort(study: Study, out: Path, roots: Mapping[str, str]) -> CohortRecord:
    planned = check_place(study, out)
    if planned is not None:
        return planned
    write_cohort(
        out,
        name=study.name,
        roles={spec.name: spec.role for spec in study.data},
        study=study.as_dict(),
        metrics={"bins": study.bins, "bandwidth": study.bandwidth},
        keys=plan(study, roots),
    )
    return open_cohort(out)


def begin_round(cohort: Path, roots: Mapping[str, str]) -> str:
    """Note where the data are, and draw the name under which failures count from here on.

    Workers that are started by hand read both: see ``noted_round``.
    """
    drawn = secrets.token_hex(8)
    content = {"schema": LAYOUT_SCHEMA, "round": drawn, "data": dict(roots)}
    with writing(cohort):
        write_text(cohort / WORKERS_FILE, encode_json(content))
    return drawn


def noted_round(cohort: Path) -> tuple[str, dict[str, str]]:
    """The round that was begun last, and where the data were then; nothing where none was."""
    if not has_file(cohort, WORKERS_FILE):
        return "", {}
    path = cohort / WORKERS_FILE
    content = read_json(path)
    return expect(content, "round", str, path), expect(content, "data", dict, path)


def check_place(study: Study, out: Path) -> CohortRecord | None:
    if is_cohort(out):
        cohort = open_cohort(out)
        planned = Study.from_dict(cohort.study)
        check_loaded(planned.plugins, out)
        new, old = study.as_dict(), planned.as_dict()
        differing = sorted(name for name in {*new, *old} if new.get(name) != old.get(name))
        if differing:
            names = [spec.name for spec in planned.data]
            called = f" Its data sets are called {', '.join(map(repr, names))}."
            raise InputError(
                f"Expected the study that {out} was planned for, but got other values of "
                f"{', '.join(differing)}: use another --out."
                + called
                * (names != [spec.name for spec in study.data]),
                code="differs",
            )
        return cohort
    unwritten = out.glob(f".{COHORT_FILE}.*.tmp")  # of a process that was killed
    if out.is_dir() and {*out.iterdir()} - {*unwritten}:
        raise InputError(
            f"Expected an empty folder or a study's, but {out} holds other files: use "
            "another --out.",
            code="exists",
        )
    places = (out.absolute(), *out.absolute().parents)
    nearest = next(folder for folder in places if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(
            f"Expected a folder that can be written for {out}, but {nearest} is "
            f"{'not writable' if nearest.is_dir() else 'a file'}: use another --out.",
            code="system",
        )
    return None


def run_config(study: Study, key: RunKey, data: TrainingData) -> RunConfig:
    held_out = [data.dataset.target_index(name) for name in key.held_out]
    run = (key.dataset, key.algorithm, held_out)
    hparams_seed, trial_seed = key.hparams_seed, key.trial_seed
    return RunConfig(
        key=key,
        fingerprint=data.dataset.fingerprint,
        hparams=hparams_for(
            data.kind,
            key.algorithm,
            hparams_seed=hparams_seed,
            trial_seed=trial_seed,
            overrides=study.overrides(hparams_seed),
        ),
        training_seed=training_seed(*run, hparams_seed=hparams_seed, trial_seed=trial_seed),
        device=data.device,
        init_seed=shared_init_seed(*run) if study.shared_init else None,
        **study.settings(),
    )


ENVIRONMENT = "CHECKWISE_DATA"


def read_roots(options: Iterable[str]) -> dict[str, str]:
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
    if spec.dataset in EMBEDDED:
        return "digits"
    return "features" if spec.dataset == "Features" else "images"


def check_held_out(spec: DataSpec, domains: Sequence[str]) -> None:
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
