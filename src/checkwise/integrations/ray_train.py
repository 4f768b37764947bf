"""Ray Train: workers report what selection needs, and a finished run is chosen from.

In a worker ``Validation`` adds up batches and reports; on the driver ``choose`` reads
``Result.best_checkpoints``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from checkwise.calibrators import get_calibrator
from checkwise.errors import InputError, naming_extras
from checkwise.integrations.live import CALIBRATOR, ChoiceCalibrator, LiveSelector
from checkwise.integrations.tracker import PREFIX, STEP
from checkwise.integrations.validation import ValidationSums, measured_together, own_rows
from checkwise.metrics import BANDWIDTH, BINS, NAMES, CountedExamples, Report
from checkwise.records import Recorder, check_step
from checkwise.selection import DEFAULT_RULE, Choice, Selection
from checkwise.store import Home, Predictions, name_as_file, read_outputs
from checkwise.words import shown

_COUNT: Final = "n"
_CORRECT: Final = "correct"
_OF_RAY: Final = re.compile(r"checkpoint_[\d_.-]+")


class Validation:
    """The validation sets of one checkpoint, as far as this worker sees them.

    Args:
        loaders: name → the dataloader of this worker, or None where a worker sees rows that no
            other one sees. Rows that a ``DistributedSampler`` repeats are not counted.
        predictions: a folder to keep the logits of validation in, which all workers and the driver
            see; the first worker writes it. Pass the same to ``choose``.
        bins, bandwidth: settings of the calibration errors.
    """

    def __init__(
        self,
        loaders: Mapping[str, Any],
        *,
        predictions: str | os.PathLike[str] | None = None,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
    ) -> None:
        if not isinstance(loaders, Mapping) or not loaders:
            raise InputError(
                f"Expected validation sets by name, but got {shown(loaders)}: write "
                'Validation({"photo": loader}).'
            )
        self._kept = None if predictions is None else _folder(predictions)
        self._settings: dict[str, Any] = {"bins": bins, "bandwidth": bandwidth}
        self._sums = {
            name: ValidationSums(
                name,
                bins,
                bandwidth,
                None if loader is None else own_rows(loader),
                logits=self._kept is not None,
            )
            for name, loader in loaders.items()
        }

    def update(self, name: str, logits: Any, labels: Any) -> None:
        """Add a batch of a set: logits [n, C] and labels [n]."""
        if name not in self._sums:
            raise InputError(
                f"Expected one of the validation sets {', '.join(self._sums)}, but got {name!r}.",
                code="unknown",
            )
        self._sums[name].update(logits, labels)

    def metrics(self, step: int) -> dict[str, float]:
        """What to report of a step, the same in every worker; all of them have to call it.

        ``checkwise/<set>/n``, ``correct``, accuracy, NLL, calibration errors and the others, and
        ``checkwise/step``. Of a set with logits that are not finite only ``n``.
        """
        workers = _of_training("get_world_size", 1)
        sums = measured_together(list(self._sums.values()), workers)
        reported = {STEP: float(check_step(step))}
        entries = {part.name: part.entry() for part in sums}
        if self._kept is not None and _of_training("get_world_rank", 0) == 0:
            self._keep(self._kept, step, entries)
        for part in sums:
            entry = entries[part.name]
            values = {_COUNT: float(part.counted)}
            if isinstance(entry, Report):
                values |= {_CORRECT: float(entry.correct), **entry.values()}
            reported |= {f"{PREFIX}/{part.name}/{name}": value for name, value in values.items()}
        return reported

    def _keep(self, kept: Predictions, step: int, entries: Mapping[str, Any]) -> None:
        """Write the predictions of a step, whole; what looks held out is not among them."""
        recorder = Recorder(**self._settings, keeps_examples=True, keeps_logits=True)
        record = recorder.measure(step, entries)
        if not record.diverged:
            kept.write(record, record, {})
        kept.move_aside(step)  # of a training that failed; the last report counts
        kept.publish(record)

    def report(
        self,
        step: int,
        *,
        checkpoint: Any = None,
        metrics: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Call ``ray.train.report`` with these metrics and your own, in every worker.

        Args:
            step: the training step of the checkpoint.
            checkpoint: the ``ray.train.Checkpoint`` of this worker, if it has one.
            metrics: further ones.
            options: of ``ray.train.report``.
        """
        with naming_extras():
            import ray.train

        together = {**(metrics or {}), **self.metrics(step)}
        ray.train.report(together, checkpoint=checkpoint, **options)


def choose(
    result: Any,
    rule: str | Choice = DEFAULT_RULE,
    *,
    predictions: str | os.PathLike[str] | None = None,
    calibrator: str | None = None,
    **options: Any,
) -> Selection:
    """Choose among the checkpoints that a run of Ray Train reported and kept.

    A training that goes on after a failure may report a step again: the last report counts.

    Args:
        result: what ``trainer.fit()`` returned.
        rule: a name from ``cw.rules()``, or a whole ``cw.Choice``.
        predictions: the folder in which ``Validation`` kept predictions.
        calibrator: fit this calibrator, as "ts-soften", to the predictions of the choice, and write
            it to ``calibrator.json`` in that folder; ``selection.calibration`` has it too.
        options: as for ``cw.LiveSelector``: ``delta_pp``, ``held_out`` …
    """
    kept = None if predictions is None else _folder(predictions)
    if kept is not None and not kept.folder.is_dir():
        raise InputError(
            f"Expected the folder in which Validation kept predictions, but there is none at "
            f"{kept.folder}: pass the same folder to both, one that the driver sees too.",
            code="missing",
        )
    if calibrator is not None and kept is None:
        raise InputError(
            f"Expected predictions to fit {calibrator} to, but there are none: pass predictions=, "
            "the folder that Validation was given.",
            code="missing",
        )
    pairs = getattr(result, "best_checkpoints", None)
    if not pairs:
        raise InputError(
            f"Expected a Result with checkpoints, but got {shown(result)}: report each one with "
            "Validation.report(step, checkpoint=checkpoint)."
        )
    live = LiveSelector(rule, **options)
    latest: dict[int, tuple[Any, Mapping[str, Any]]] = {}
    for checkpoint, metrics in sorted(pairs, key=_reported):
        latest[_step(metrics, checkpoint)] = checkpoint, metrics
    for step, (checkpoint, metrics) in latest.items():
        live.add(step, _entries(metrics, checkpoint, None if kept is None else kept.of_step(step)))
    paths = {step: str(checkpoint.path) for step, (checkpoint, _) in latest.items()}
    chosen = live.selection
    if chosen is None:
        raise InputError(
            f"Expected a checkpoint to choose, but all {len(paths)} diverged.", code="empty"
        )
    run = chosen.trajectory
    placed = replace(run, paths=tuple(paths[step] for step in run.steps.tolist()))
    if kept is None:
        return replace(chosen, trajectory=placed)
    chosen = replace(chosen, trajectory=kept.added_to(placed, live.records))
    if calibrator is None:
        return chosen
    fitting = ChoiceCalibrator(get_calibrator(calibrator).name, kept.folder / CALIBRATOR)
    chosen = fitting.calibrated(chosen, kept, live.records, {})
    fitting.write(chosen)
    return chosen


def _folder(predictions: Any) -> Predictions:
    if not isinstance(predictions, str | os.PathLike) or "://" in str(predictions):
        raise InputError(
            "Expected a folder that the workers and the driver see as predictions, but got "
            f"{shown(predictions)}."
        )
    folder = Path(predictions)
    return Predictions(folder, Home((folder,)))


def _reported(pair: tuple[Any, Mapping[str, Any]]) -> str:
    """Ray names checkpoints by the time or the number of their report; their order may be a score.

    The sort is stable, so that other names stay in the order in which Ray has them.
    """
    name = PurePosixPath(str(pair[0].path)).name
    return name if _OF_RAY.fullmatch(name) else ""


def _step(metrics: Mapping[str, Any], checkpoint: Any) -> int:
    step = metrics.get(STEP)
    if not isinstance(step, int | float) or step % 1:
        raise InputError(
            f"Expected {STEP} in the metrics of {checkpoint.path}, but got "
            f"{', '.join(map(str, metrics)) or 'none'}: report with Validation.report, or choose "
            "from your own metrics with `checkwise select FOLDER`.",
            code="missing",
        )
    return int(step)


def _entries(
    metrics: Mapping[str, Any], checkpoint: Any, predictions: Path | None
) -> dict[str, dict[str, Any]]:
    """Set → its metrics, and its examples where they were kept; without an accuracy it diverged."""
    entries: dict[str, dict[str, Any]] = {}
    for key, value in metrics.items():
        prefix, _, rest = str(key).partition("/")
        name, _, metric = rest.rpartition("/")
        if prefix == PREFIX and name and metric in (*NAMES, _COUNT):
            entries.setdefault(name, {})[metric] = value
    for name, entry in entries.items():
        if _COUNT not in entry:
            raise InputError(
                f"Expected the count of {name!r} in the metrics of {checkpoint.path}.",
                code="missing",
            )
        entry[_COUNT] = int(entry[_COUNT])
        entry.setdefault("accuracy", float("nan"))
        if predictions is not None and not isnan(entry["accuracy"]):
            entry |= _kept_examples(predictions, name)
    return entries


def _kept_examples(folder: Path, name: str) -> dict[str, Any]:
    """What a tolerance reads of every example; nothing of a set that was not kept."""
    file = folder / f"{name_as_file(name)}.npz"
    if not file.is_file():
        return {}
    saved = read_outputs(file, outputs=False)
    if saved.outcomes is None:
        raise InputError(
            f"Expected `correct` and `nll` in {file}, but got none of them.", code="missing"
        )
    return {"examples": CountedExamples(saved.outcomes.correct, saved.labels.astype(np.int64))}


def _of_training(fact: str, otherwise: int) -> int:
    """How many workers train, or which of them this is; something else outside a training."""
    with naming_extras():
        import ray.train

    try:
        return int(getattr(ray.train.get_context(), fact)())
    except (RuntimeError, AssertionError, AttributeError):
        return otherwise
