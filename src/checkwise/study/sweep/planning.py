"""What a study plans: its runs, their configurations and its folder; the study of inner runs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
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
from checkwise.study.data import shared_init_seed, training_seed
from checkwise.study.folder import CohortRecord, check_folders, is_cohort, open_cohort, write_cohort
from checkwise.study.sweep.opening import check_held_out, domains_of, targets_of
from checkwise.study.sweep.study import DataSpec, Study
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
    """Every run of a study; the data are opened only where the study says "each"."""
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
    if study.draws and len({key.trial_seed for key in keys}) != len(keys):
        raise InputError(
            f"Expected a seed of its own for each of the {len(keys)} runs of {study.name}, but two "
            "fall together: give the data set another `name`."
        )
    check_folders(keys)
    return keys


def make_cohort(study: Study, out: Path, roots: Mapping[str, str]) -> CohortRecord:
    """Plan a study in ``out``, or open the plan that is there; another study is refused."""
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
    """The cohort of this study in ``out``, or None if ``out`` is free for one."""
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
    """The complete configuration of one run."""
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
