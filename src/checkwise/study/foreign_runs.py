"""Runs of other people's logs and tables, with what those say about held-out domains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers.loading import find_runs
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import RunKey, Trajectory
from checkwise.records.held_out import same_name
from checkwise.study.target_rows import BeyondSource, ByStep, TargetRow, beyond_source


@dataclass(frozen=True)
class ForeignRun:
    """One run of other people's files: source validation, and held-out rows by domain and step."""

    key: RunKey
    trajectory: Trajectory
    targets: Mapping[str, ByStep]
    file: Path
    hparams: Mapping[str, Any] | None

    @property
    def gaps(self) -> int:
        """Checkpoints that lack the accuracy on a held-out domain."""
        return sum(
            any(_accuracy(rows.get(step)) is None for rows in self.targets.values())
            for step in self.trajectory.steps.tolist()
        )


def read_runs(path: Path, request: Request) -> list[ForeignRun]:
    """Every run of a log, a table or a folder of logs that has a held-out domain.

    Raises:
        InputError: something else lies there, a held-out domain has the name of a source, or rows
            of a target belong to no run.
    """
    loaded = find_runs(path, request)
    for run in loaded.values():
        if run.file is None:
            raise InputError(
                f"Expected logs or a table to import, but {run.where} is a folder of predictions "
                "or a run of checkwise: write metrics of all domains into a table with a column "
                "`role`, or give the study itself.",
                code="unsupported",
            )
        if "accuracy" not in run.trajectory.metrics:
            raise InputError(
                f"Expected runs with accuracy to import, but {run.where} carries only "
                f"{', '.join(run.trajectory.metrics)}: comparisons are about accuracy; add it, or "
                "choose a checkpoint with `checkwise select`.",
                code="missing",
            )
    files = dict.fromkeys(run.file for run in loaded.values() if run.file is not None)
    beyond = {file: beyond_source(file, request) for file in files}
    runs: list[ForeignRun] = []
    without: list[LoadedRun] = []
    for key, run in loaded.items():
        assert run.file is not None
        rest = beyond[run.file].pop(run.key, BeyondSource())
        held_out = key.held_out or tuple(sorted(rest.targets))
        if not held_out:
            without.append(run)
            continue
        _check_names(held_out, run)
        runs.append(
            ForeignRun(
                key=replace(key, held_out=held_out),
                trajectory=run.trajectory,
                targets={domain: rest.targets.get(domain, {}) for domain in held_out},
                file=run.file,
                hparams=rest.hparams,
            )
        )
    _check_all_taken(beyond)
    if runs and without:
        warnings.warn(
            f"{len(without)} of {len(loaded)} runs in {path} are left out: they hold out no domain "
            f"(first: {without[0].where}).",
            CheckwiseWarning,
            stacklevel=2,
        )
    return runs


def _check_all_taken(beyond: Mapping[Path, Mapping[RunKey | None, BeyondSource]]) -> None:
    """Refuse rows of a target that belong to no run: their run would look unmeasured."""
    for file, rest in beyond.items():
        for key in rest:
            named = "rows without a run" if key is None else f"those of {key}"
            raise InputError(
                f"Expected rows of a target to belong to a run with source rows, but in {file} "
                f"{named} do not: write the columns that tell runs apart, and `held_out`, in the "
                "rows of the target as in those of the sources.",
                code="missing",
            )


def _check_names(held_out: Sequence[str], run: LoadedRun) -> None:
    for domain in held_out:
        if any(same_name(domain, source) for source in run.trajectory.domains):
            raise InputError(
                f"Expected held-out domains with names of their own, but {domain!r} is also a "
                f"source domain of {run.where}: rename it in the rows of the target.",
                code="ambiguous",
            )


def _accuracy(row: TargetRow | None) -> float | None:
    return None if row is None else row.values.get("accuracy")
