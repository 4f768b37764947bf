"""What a row's rule looks at for every run: its own validation, or another protocol's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.study.lodo import lodo_trajectories
from checkwise.study.rows import Row
from checkwise.study.runs import Runs
from checkwise.weights.logits import source_logits
from checkwise.weights.pair import ALGORITHMS, with_training_terms
from checkwise.weights.recalibrated import with_recalibrated_ece


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
