"""Ray Train: workers report what selection needs, and a finished run is chosen from.

In a worker ``Validation`` adds up batches and reports; on the driver ``choose`` reads
``Result.best_checkpoints``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.extras import naming_extras
from checkwise.integrations.live import LiveSelector
from checkwise.integrations.processes import gathered
from checkwise.integrations.tracked_metrics import PREFIX, STEP
from checkwise.integrations.validation_sums import ValidationSums, merged, own_rows
from checkwise.metrics.report import NAMES, Report
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.records.from_predictions import check_step
from checkwise.selection.default_rule import DEFAULT_RULE
from checkwise.selection.result import Selection
from checkwise.text import shown

_COUNT: Final = "n"
_CORRECT: Final = "correct"
_OF_RAY: Final = re.compile(r"checkpoint_[\d_.-]+")


class Validation:
    """The validation sets of one checkpoint, as far as this worker sees them.

    Args:
        loaders: name → the dataloader of this worker, or None where a worker sees rows that no
            other one sees. Rows that a ``DistributedSampler`` repeats are not counted.
        bins, bandwidth: settings of the calibration errors.
    """

    def __init__(
        self, loaders: Mapping[str, Any], *, bins: int = BINS, bandwidth: float = BANDWIDTH
    ) -> None:
        if not isinstance(loaders, Mapping) or not loaders:
            raise InputError(
                f"Expected validation sets by name, but got {shown(loaders)}: write "
                'Validation({"photo": loader}).'
            )
        self._sums = {
            name: ValidationSums(
                name, bins, bandwidth, None if loader is None else own_rows(loader)
            )
            for name, loader in loaders.items()
        }

    def update(self, name: str, logits: Any, labels: Any) -> None:
        """Add a batch of a set: logits [n, C] and labels [n]."""
        if name not in self._sums:
            raise InputError(
                f"Expected one of the validation sets {', '.join(self._sums)}, but got {name!r}."
            )
        self._sums[name].update(logits, labels)

    def metrics(self, step: int) -> dict[str, float]:
        """What to report of a step, the same in every worker; all of them have to call it.

        ``checkwise/<set>/n``, ``correct``, accuracy, NLL, calibration errors and the others, and
        ``checkwise/step``. Of a set with logits that are not finite only ``n``.
        """
        sums = list(self._sums.values())
        if _workers() > 1:
            sums = [merged(parts) for parts in zip(*gathered(sums), strict=True)]
        reported = {STEP: float(check_step(step))}
        for part in sums:
            entry = part.entry()
            values = {_COUNT: float(part.counted)}
            if isinstance(entry, Report):
                values |= {_CORRECT: float(entry.correct), **entry.values()}
            reported |= {f"{PREFIX}/{part.name}/{name}": value for name, value in values.items()}
        return reported

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


def choose(result: Any, rule: str = DEFAULT_RULE, **options: Any) -> Selection:
    """Choose among the checkpoints that a run of Ray Train reported and kept.

    A training that goes on after a failure may report a step again: the last report counts.

    Args:
        result: what ``trainer.fit()`` returned.
        rule: a name from ``cw.rules()``.
        options: as for ``cw.LiveSelector``: ``delta_pp``, ``held_out`` …
    """
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
        live.add(step, _entries(metrics, checkpoint))
    paths = {step: str(checkpoint.path) for step, (checkpoint, _) in latest.items()}
    chosen = live.selection
    if chosen is None:
        raise InputError(f"Expected a checkpoint to choose, but all {len(paths)} diverged.")
    run = chosen.trajectory
    placed = replace(run, paths=tuple(paths[step] for step in run.steps.tolist()))
    return replace(chosen, trajectory=placed)


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
            "from your own metrics with `checkwise select FOLDER`."
        )
    return int(step)


def _entries(metrics: Mapping[str, Any], checkpoint: Any) -> dict[str, dict[str, float]]:
    """Set → its metrics; a set without an accuracy diverged."""
    entries: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        prefix, _, rest = str(key).partition("/")
        name, _, metric = rest.rpartition("/")
        if prefix == PREFIX and name and metric in (*NAMES, _COUNT):
            entries.setdefault(name, {})[metric] = value
    for name, entry in entries.items():
        if _COUNT not in entry:
            raise InputError(f"Expected the count of {name!r} in the metrics of {checkpoint.path}.")
        entry[_COUNT] = int(entry[_COUNT])
        entry.setdefault("accuracy", float("nan"))
    return entries


def _workers() -> int:
    """How many workers train; 1 outside a training."""
    with naming_extras():
        import ray.train

    try:
        return int(ray.train.get_context().get_world_size())
    except (RuntimeError, AssertionError, AttributeError):
        return 1
