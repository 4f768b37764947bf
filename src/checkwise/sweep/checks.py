"""Checks of a sweep before it plans or trains anything; a dry run makes the same checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from checkwise.data import DomainDataset, split
from checkwise.data.run_splits import check_sources, source_splits, target_rows
from checkwise.errors import InputError
from checkwise.sweep.datasets import check_held_out, image_domains, kind_of, open_spec
from checkwise.sweep.executors import Executor, ExecutorSettings, get_executor
from checkwise.sweep.plan import check_place
from checkwise.sweep.study import DataSpec, Study
from checkwise.train.build import check_kind
from checkwise.train.networks import frozen_part
from checkwise.train.networks.extract import backbone_named


def check_sweep(
    study: Study,
    roots: Mapping[str, str],
    *,
    settings: ExecutorSettings,
    out: Path | None,
    absent: tuple[str, ...] = (),
) -> Executor:
    """Make every check that needs no training, and return the executor.

    ``absent`` names data sets that were not found: only their kind is checked.
    """
    launcher = get_executor(settings)
    for spec in study.data:
        check_kind(study.network, kind_of(spec), spec.name)
        if spec.name not in absent:
            _check_domains(study, spec, roots)
    if study.network.kind == "backbone":
        frozen_part(backbone_named(study.network.backbone), study.network.tune)
    if out is not None:
        check_place(study, out)
    return launcher


def _check_domains(study: Study, spec: DataSpec, roots: Mapping[str, str]) -> None:
    if kind_of(spec) != "images":
        _check_splits(study, spec, open_spec(spec, roots))
        return
    sizes = image_domains(spec, roots)
    domains = tuple(sizes)
    check_held_out(spec, domains)
    for names in spec.held_out or [(domain,) for domain in domains]:
        check_sources(names, sorted({*domains} - {*names}), spec.name)
    for index, (domain, size) in enumerate(sizes.items()):
        try:
            split(size, domain_index=index, trial_seed=0, holdout=study.holdout)
        except InputError as error:
            raise InputError(
                f"{error} (domain {domain!r} of {spec.name})", code=error.code
            ) from None


def _check_splits(study: Study, spec: DataSpec, dataset: DomainDataset) -> None:
    """Split as some run would: what is too small, or lacks groups, shows."""
    check_held_out(spec, dataset.targets)
    for names in spec.held_out or [(name,) for name in dataset.targets]:
        source_splits(dataset, names, split_by=study.split_by, trial_seed=0, holdout=study.holdout)
        for name in names:
            target_rows(dataset, name, trial_seed=0, holdout=study.holdout)
