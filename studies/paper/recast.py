"""Cohorts as pages count them, where that is not as their files have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checkwise.records import RunKey, Trajectory
from checkwise.study import Cohort, Runs
from checkwise.study.folder import open_cohort


def as_development(cohort: Cohort) -> Cohort:
    """Runs whose held-out results were seen before what a page compares was fixed."""
    role = "development"
    record = open_cohort(cohort.path)
    return Cohort(replace(record, role=role, roles=dict.fromkeys(record.roles, role)))


def on_dataset(cohort: Cohort, dataset: str) -> Cohort:
    """The runs on one data set alone."""
    record = open_cohort(cohort.path)
    runs = {key: folder for key, folder in record.runs.items() if key.dataset == dataset}
    return Cohort(replace(record, runs=runs, roles={dataset: record.roles[dataset]}))


def as_whole(cohort: Cohort, dataset: str) -> Cohort:
    """Runs on parts of a data set as runs on one: a held-out domain of all parts is one place."""
    record = open_cohort(cohort.path)
    parts = {replace(key, dataset=dataset): key for key in record.runs}
    if len(parts) < len(record.runs):
        raise SystemExit(
            f"Expected runs on parts of {dataset} that differ in more than the part, but the "
            f"{len(record.runs)} runs of {cohort.path.name} would have {len(parts)} keys."
        )
    runs = {key: record.runs[part] for key, part in parts.items()}
    whole = Cohort(replace(record, runs=runs, roles={dataset: record.role}))
    whole.runs = _Renamed({key: whole.runs.folder(key) for key in whole.runs}, parts)
    return whole


class _Renamed(Runs):
    """Runs under other keys; random draws stay what they are."""

    def __init__(self, folders: Mapping[RunKey, Path], parts: Mapping[RunKey, RunKey]):
        super().__init__(folders)
        self._parts = parts

    def __getitem__(self, key: RunKey) -> Trajectory:
        return replace(super().__getitem__(key), key=key, seeded_by=str(self._parts[key]))
