"""What every callback shares: its options, what it keeps, and what it says in the end."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.calibrators import DEFAULT, get_calibrator
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.integrations.live import LiveSelector, predictions_folder
from checkwise.integrations.tracker import Log, Tracker, report_to
from checkwise.integrations.validation import Kind, ValidationSums, sets_to_read
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.selection import (
    MEMBERS_DELTA_PP,
    AnyOf,
    Choice,
    KeepFeasible,
    KeepMembers,
    LiveSelection,
    Points,
    Policy,
    RunSoFar,
    parts,
)
from checkwise.store import FileState
from checkwise.words import bytes_shown, counted, listed, shown

SINGLE: Final = "validation"  # the name of a validation set where there is one, without a name


@dataclass(frozen=True)
class Options:
    """What every callback takes; a wrong option is refused before any training.

    Args:
        choice: how to choose.
        keep: further checkpoints to keep, as ``KeepLast(2) | KeepEvery(1000)``; what may still be
            chosen, the choice and the newest always stay.
        average_within_pp: also keep every checkpoint within this many points of the best accuracy,
            as ``1``, for an average: ``members()`` has their steps, and a line on stderr says at
            the end how to make it.
        predictions: keep the logits of validation, so that how sure the choice is can be said, and
            a calibrator fitted: True for a folder ``predictions`` beside the journal, or name one.
            ``checkwise select`` reads it.
        calibrator: fit this calibrator, as "ts-soften", to the predictions of the choice, and keep
            it in ``calibrator.json`` beside the journal. It keeps predictions, too.
        tracker: where the selection is logged when training ends, as ``MlflowLog``.
        log: what loggers and the tracker get: "main" is accuracy, NLL and soft CwECE of each set,
            what else the rule looks at, and the choice; "all" is every metric. The journal has all.
        bins, bandwidth: settings of the calibration errors.
        held_out, sources: as for ``LiveSelector``.
    """

    choice: Choice
    keep: Policy | None = None
    average_within_pp: Points | None = None
    predictions: bool | str | os.PathLike[str] = False
    calibrator: str | None = None
    tracker: Tracker | None = None
    log: Log = "main"
    bins: int = BINS
    bandwidth: float = BANDWIDTH
    held_out: str | Iterable[str] | None = None
    sources: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and not isinstance(self.keep, Policy):
            raise InputError(
                f"Expected a policy as keep, as KeepLast(2), but got {shown(self.keep)}: policies "
                "are in checkwise.selection.retention."
            )
        is_class = isinstance(self.tracker, type)
        if self.tracker is not None and (is_class or not hasattr(self.tracker, "log")):
            raise InputError(
                f"Expected a tracker as MlflowLog(run_id), but got {shown(self.tracker)}: trackers "
                "are in checkwise.integrations."
            )
        if self.log not in ("main", "all"):
            raise InputError(f'Expected "main" or "all" as log, but got {shown(self.log)}.')
        predictions_folder(self.predictions, "journal")
        if self.calibrator is not None:
            get_calibrator(self.calibrator)
        self.policy()
        self.selector()

    @property
    def measuring(self) -> dict[str, Any]:
        """What ``LiveSelector`` takes beside the choice."""
        return {
            "bins": self.bins,
            "bandwidth": self.bandwidth,
            "held_out": self.held_out,
            "sources": self.sources,
        }

    @property
    def needs_examples(self) -> bool:
        """Whether the tolerance compares checkpoints example by example."""
        return not self.choice.kind.fixed

    @property
    def needs_logits(self) -> bool:
        """Whether predictions are kept."""
        return bool(self.predictions) or self.calibrator is not None

    def sums(
        self,
        name: str,
        *,
        ordered: bool,
        kind: Kind = "logits",
        own_rows: int | None = None,
    ) -> ValidationSums:
        """An empty validation set; where it is ``ordered`` its examples are known again."""
        return ValidationSums(
            name,
            self.bins,
            self.bandwidth,
            own_rows,
            kind=kind,
            examples=self.needs_examples or ordered,
            logits=self.needs_logits,
        )

    def sets_to_read(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """The names of the sets to choose by; the others are held out, and must not be read."""
        return sets_to_read(names, self.held_out, self.sources, where=where)

    def selector(self, journal: Path | None = None, **where: Any) -> LiveSelector:
        """An empty selection, or that of a journal, with what is kept beside it."""
        if journal is not None:
            where |= {"predictions": self.predictions, "calibrator": self.calibrator}
        return LiveSelector(self.choice, journal=journal, **where, **self.measuring)

    def policy(self, stay: Iterable[int] = ()) -> Policy:
        """Which checkpoints stay beside the newest and the chosen one; ``stay`` always do."""
        members = () if self.average_within_pp is None else (KeepMembers(self.average_within_pp),)
        also = () if self.keep is None else parts(self.keep)
        return KeepChoosable(AnyOf((*also, *members)), frozenset(stay))

    def members(self, live: LiveSelection, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average if training stopped now, all or ``k`` spread over them."""
        within = self.average_within_pp
        return live.members(k, delta_pp=MEMBERS_DELTA_PP if within is None else within)

    def say_disk(self, live: LiveSelector, folder: Path, *, planned: int, size: int) -> None:
        """At the start of a training, say how much disk the checkpoints near the best may take.

        A checkpoint takes what one that is there takes, or else about ``size``.
        """
        for path in live.checkpoints.values():
            size = FileState.of(path).bytes
        if planned < 2 or not size:
            return
        there = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(there).free
        print(
            f"checkwise: a checkpoint takes about {bytes_shown(size)}. Those near the best stay: "
            f"at most {planned}, {bytes_shown(planned * size)}, if all are; {bytes_shown(free)} "
            "are free.",
            file=sys.stderr,
        )

    def end(self, live: LiveSelection, folder: Path, *, of_keras: bool = False) -> None:
        """At the end of a training, log the selection, and say which checkpoints are averaged."""
        report_to(self.tracker, live.selection, self.log)
        if self.average_within_pp is not None and (steps := self.members(live)):
            print(self.average_of(steps, folder, of_keras=of_keras), file=sys.stderr)

    def average_of(self, steps: tuple[int, ...], folder: Path, *, of_keras: bool = False) -> str:
        """The members of the average, and what makes it.

        ``deploy`` reads weights of PyTorch alone, so for Keras it is a function. ``deploy`` fits
        the calibrator to the average's own logits: that of one checkpoint would not do for it.
        """
        text = str(self.average_within_pp)
        named = (
            f"checkwise: {counted(len(steps), 'checkpoint')} for an average: "
            f"{'step' if len(steps) == 1 else 'steps'} {listed([str(step) for step in steps])}."
        )
        if of_keras:
            call = f"load_chosen({str(folder)!r}, average_within_pp={text})"
            return f"{named} Load it with checkwise.integrations.keras.{call}."
        other = "" if self.calibrator in (None, DEFAULT) else f" --calibrator {self.calibrator}"
        options = f"--average all --within-pp {text}{other}"
        command = f"checkwise deploy {shlex.quote(str(folder))} {options} -o MODEL"
        return f"{named} Deploy it with `{command}`, or with `--average weights`."


@dataclass(frozen=True)
class KeepChoosable(Policy):
    """What may still be chosen, what another policy keeps, and ``stay``.

    A checkpoint that was not measured can never be chosen, because callbacks measure before they
    save; policies that count checkpoints, as ``KeepLast``, count it too.
    """

    also: Policy
    stay: frozenset[int] = frozenset()

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The steps that stay beside the newest and the chosen one."""
        saved = tuple(steps)
        # Without a selection, every checkpoint with a record diverged.
        measured = () if live.selection is None else tuple(s for s in saved if s in live.steps)
        kept = (
            part.keep(measured if isinstance(part, KeepFeasible) else saved, live)
            for part in (KeepFeasible(), *parts(self.also))
        )
        return self.stay.union(*kept)

    def why(self, step: int, live: RunSoFar) -> str:
        """Of a step that it keeps."""
        return "resumed from" if step in self.stay else "may be chosen, or kept on request"


def torch_bytes(model: Any, optimizers: Iterable[Any]) -> int:
    """About what a checkpoint takes: weights, and what optimizers will keep of each weight."""
    total = _bytes([*model.parameters(), *model.buffers()])
    for optimizer in optimizers:
        defaults = getattr(optimizer, "defaults", {})  # those of DeepSpeed have none
        copies = 2 if "betas" in defaults else int(bool(defaults.get("momentum")))
        groups = optimizer.param_groups if copies else ()
        total += copies * _bytes(weight for group in groups for weight in group["params"])
    return total


def _bytes(tensors: Iterable[Any]) -> int:
    from torch.nn.parameter import is_lazy

    return sum(one.numel() * one.element_size() for one in tensors if not is_lazy(one))


def local_folder(path: str | os.PathLike[str]) -> Path:
    """A folder of this machine, where what is saved is synced before others are deleted."""
    if "://" in str(path) or not str(path):
        raise InputError(f"Expected a folder of this machine as dirpath, but got {shown(path)}.")
    return Path(os.path.abspath(path))


def warn_unchanged() -> None:
    """Of a validation without an optimizer step since the one before."""
    warnings.warn(
        "No optimizer step since the last checkpoint: the weights are the same, and are not saved "
        "again.",
        CheckwiseWarning,
        stacklevel=3,
    )


def check_function(function: Any, name: str, form: str) -> None:
    """Refuse, before any training, what cannot be called after the first epoch."""
    if function is not None and not callable(function):
        raise InputError(
            f"Expected a function as {name}, as {form}, but got {shown(function)}: pass one, or "
            "leave it out."
        )
