"""The finished runs of a cohort, read from disk when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.store import layout
from checkwise.store.logits import source_logits
from checkwise.store.run import read_records, read_trajectory
from checkwise.study.lodo import lodo_trajectories
from checkwise.study.protocols import ALGORITHMS, with_recalibrated_ece, with_training_terms
from checkwise.study.rows import Row


class Runs(Mapping[RunKey, Trajectory]):
    """Finished runs by key; each is read from disk when first asked for."""

    def __init__(self, folders: Mapping[RunKey, Path]):
        self._folders = folders
        self._read: dict[RunKey, Trajectory] = {}

    def __getitem__(self, key: RunKey) -> Trajectory:
        if key not in self._read:
            self._read[key] = read_trajectory(self._folders[key])
        return self._read[key]

    def folder(self, key: RunKey) -> Path:
        """Where a run is."""
        return self._folders[key]

    def wrecked(self, key: RunKey) -> bool:
        """Whether every checkpoint of a run diverged, so that it is no trajectory."""
        try:
            return not self[key]
        except InputError:
            lines = read_records(self._folders[key], layout.SOURCE)
            if lines and all(line.get("diverged") for line in lines):
                return True
            raise

    def __iter__(self) -> Iterator[RunKey]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


class Validations:
    """Validation trajectories of the usable runs of one cohort, by protocol.

    Args:
        path: the cohort's folder; inner runs are looked for beside it.
        runs: its finished runs.
        usable: those with something to choose from.
    """

    def __init__(self, path: Path, runs: Runs, usable: Mapping[RunKey, Trajectory]):
        self._path = path
        self._runs = runs
        self._usable = usable

    def of(
        self, row: Row, params: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Mapping[RunKey, Trajectory]:
        """The trajectories that a row's rule chooses from; ``options`` is how domains count."""
        if row.validation == "source":
            return self._usable
        if row.validation == "lodo":
            return lodo_trajectories(self._path, self._usable, self._runs.folder)
        if row.validation == "training terms":
            return self._training_terms(row.method.name)
        return {
            key: with_recalibrated_ece(
                run, partial(source_logits, self._runs.folder(key)), options, **params
            )
            for key, run in self._usable.items()
        }

    def _training_terms(self, name: str) -> dict[RunKey, Trajectory]:
        found = {
            key: with_training_terms(run, self._runs.folder(key))
            for key, run in self._usable.items()
            if key.algorithm in ALGORITHMS
        }
        if not found:
            raise InputError(
                f"Expected runs of {' or '.join(ALGORITHMS)} for {name}, but {self._path} has "
                "none: it needs a penalty in the training log."
            )
        return found
