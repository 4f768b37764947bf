"""The models of a run that checkwise trained, for ``deploy``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.deployed import (
    WEIGHTS,
    BundleFile,
    Format,
    Logits,
    StoredModel,
    checkpoint_content,
    encode,
    file_place,
    read_checkpoint,
)
from checkwise.errors import InputError, naming_extras
from checkwise.metrics import Groups
from checkwise.records import Trajectory
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    RUN_FILE,
    checkpoint_file,
    finished,
    has_file,
    read_run,
)
from checkwise.study.baselines.means import averaged
from checkwise.study.baselines.recipe import BATCHNORM
from checkwise.study.folder import is_cohort, open_cohort

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun


def _is_own(place: Path) -> bool:
    return place.parent.name == CHECKPOINTS_FOLDER and has_file(place.parent.parent, RUN_FILE)


@dataclass(frozen=True)
class OwnModels:
    """A run that checkwise trained; ``first`` is its first step."""

    folder: Path
    roots: Mapping[str, str]
    first: int
    format: Format = "safetensors"

    @property
    def facts(self) -> Mapping[str, Any]:
        run = read_run(self.folder)
        return {"run": run.key.as_dict(), "network": run.config.get("network")}

    @cached_property
    def _open(self) -> OpenRun:
        """The run with its data, to evaluate models that have no saved logits."""
        from checkwise.study.baselines.evaluate import OpenRuns

        place = self.folder.absolute().parents[1]
        if not is_cohort(place) or not finished(self.folder):
            raise InputError(
                f"Expected a finished run inside its study, to evaluate a model of it, but "
                f"{self.folder} is none: use the run where `checkwise study run` trained it, or "
                "leave the calibrator out (--calibrator none).",
                code="missing",
            )
        return OpenRuns(self.roots)(open_cohort(place), read_run(self.folder).key)

    def checkpoint(self, step: int, *, alone: bool) -> StoredModel:
        content = partial(checkpoint_content, self.folder, step)
        place = file_place(step, alone=alone)
        return StoredModel(place, [BundleFile(place, content)])

    @naming_extras()
    def logits(self, step: int) -> Logits:
        if read_run(self.folder).saved_at([step]) or not has_file(
            self.folder, checkpoint_file(step)
        ):
            return read_run(self.folder).predictions().logits(step)  # which says how to keep them
        return self._open.outputs(read_checkpoint(self.folder, step)).of("source")

    @property
    @naming_extras()
    def groups(self) -> Groups | None:
        if read_run(self.folder).saved_at([self.first]):
            return read_run(self.folder).predictions().groups(self.first)
        parts = self._open.source_parts
        known = {part.domain: part.groups for part in parts if part.groups is not None}
        return known or None

    @naming_extras()
    def mean(self, steps: Sequence[int]) -> StoredModel:
        counted = {"steps": list(steps), "multiplicities": [1] * len(steps)}
        model = averaged(self._open, counted, minibatches=BATCHNORM["minibatches"])
        content = encode(dict(model.weights or {}))
        files = [BundleFile(WEIGHTS, content)]
        return StoredModel(WEIGHTS, files, model.outputs.of("source"), model.notes)


def models_of(
    path: Path, run: Trajectory, places: Mapping[int, Path], roots: Mapping[str, str]
) -> OwnModels | None:
    """The models of a run in a study's folder; None for any other."""
    folders = {place.parent.parent for place in places.values() if _is_own(place)}
    if not places and has_file(path, RUN_FILE):
        folders = {path}
    return OwnModels(folders.pop(), dict(roots), int(run.steps[0])) if len(folders) == 1 else None
