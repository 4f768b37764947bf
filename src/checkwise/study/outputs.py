"""Logits of a chosen checkpoint: as they were saved, or made again from its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import heldout, layout
from checkwise.store.cohort import is_cohort, open_cohort
from checkwise.study.targets import Targets
from checkwise.weights.logits import Logits, has_source_logits, source_logits

if TYPE_CHECKING:
    from checkwise.train.build import TrainingData

NOT_SAVED: Final = 'No held-out logits were saved; train with logits = "all" to see them.'
OUTSIDE: Final = "Held-out results are shown only for a run inside its cohort; this one is in none."


@dataclass(frozen=True, eq=False)
class CheckpointOutputs:
    """Logits on the source-validation splits, and on held-out domains where there are any.

    Calling ``held_out`` opens the latter, which marks the cohort. ``again`` says that both were
    computed from the weights because none were saved. ``closed`` says why there are none on
    held-out domains.
    """

    source: Logits
    held_out: Callable[[], Logits]
    again: bool = False
    closed: str = ""


class OutputsOf:
    """Finds or makes the outputs of checkpoints; a data set is opened once for all runs.

    Args:
        roots: where data sets lie, for runs without saved logits.
    """

    def __init__(self, roots: Mapping[str, str] | None = None):
        self._roots = dict(roots or {})
        self._data: dict[str, TrainingData] = {}

    def __call__(self, folder: Path, key: RunKey, step: int) -> CheckpointOutputs:
        """The outputs of one checkpoint of a run."""
        if has_source_logits(folder) or not (folder / layout.checkpoint_file(step)).is_file():
            return _saved(folder, key, step)
        return self._again(folder, key, step)

    def _again(self, folder: Path, key: RunKey, step: int) -> CheckpointOutputs:
        from checkwise.weights.checkpoints import read_checkpoint
        from checkwise.weights.evaluate import open_data, open_run

        place = folder.absolute().parents[1]
        if not is_cohort(place):
            raise InputError(
                f"Expected saved logits, or a run inside its cohort, but {folder} has neither: "
                "give the run where `checkwise sweep` trained it."
            )
        cohort = open_cohort(place)
        if key.dataset not in self._data:
            self._data = {key.dataset: open_data(cohort, key.dataset, self._roots)}
        run = open_run(cohort, key, self._data[key.dataset])
        outputs: Any = run.outputs(read_checkpoint(folder, step))

        def held_out() -> Logits:
            heldout.unseal(folder)
            made: Logits = outputs.of("heldout")
            return made

        return CheckpointOutputs(outputs.of("source"), held_out, again=True)


def _saved(folder: Path, key: RunKey, step: int) -> CheckpointOutputs:
    source = source_logits(folder, step)
    if not (folder / layout.PREDICTIONS / "heldout").is_dir():
        return CheckpointOutputs(source, dict, closed=NOT_SAVED)
    if not heldout.in_cohort(folder):
        return CheckpointOutputs(source, dict, closed=OUTSIDE)
    targets = Targets(folder, key.held_out)
    return CheckpointOutputs(
        source, lambda: {name: targets.logits(name, step)[name] for name in key.held_out}
    )
