"""The checkpoints of a training in one folder: which is chosen, where each is saved, which stay.

For trainers whose checkpoint has to name the choice before it is written. A checkpoint goes through
``weigh`` (what would be chosen), ``plan`` (where it goes), the save itself, ``commit`` (it is
whole, and the journal learns of it) and ``prune``. Killed at any instant, ``open`` finds the chosen
checkpoint whole and removes what was half done.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseError, InputError
from checkwise.integrations.callback_arguments import check_log, keeping, say_members
from checkwise.integrations.live import LiveSelector, keeps_logits
from checkwise.integrations.saving import JOURNAL, LAST, Place, clean_up, last_link, point
from checkwise.integrations.tracker import Log, measured
from checkwise.selection import (
    AnyOf,
    Choice,
    KeepFeasible,
    LiveSelection,
    Points,
    Policy,
    RunSoFar,
    Selection,
    parts,
)
from checkwise.store import real_place, writing
from checkwise.words import counted

Name = Callable[[int | None], str]
_SAFE: Final = "the choice and the newest checkpoint before are whole"


@dataclass(frozen=True)
class Outcome:
    """What follows if a checkpoint is added.

    Attributes:
        number: the step under which it is recorded.
        entries: its metrics per domain.
        choice: the step that is chosen then.
        scores: step → score, of every step that may still be chosen.
        logged: metrics per domain and the choice, by name.
    """

    number: int
    entries: Mapping[str, Any]
    choice: int | None
    scores: Mapping[int, float]
    logged: Mapping[str, float]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "entries": {}}  # only the process that decides writes them


@dataclass(frozen=True)
class Plan:
    """Paths; an empty one where there is none.

    Attributes:
        number: the step under which the checkpoint is recorded; None where there is no checkpoint.
        path: where the checkpoint goes.
        part: where it is written until it is whole.
        best: the chosen checkpoint.
        last: the link to the newest.
        scores: path → score, of every checkpoint that may still be chosen.
    """

    number: int | None = None
    path: str = ""
    part: str = ""
    best: str = ""
    last: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class KeepMeasured(Policy):
    """What may still be chosen, what another policy keeps, and no step without a record."""

    also: Policy
    steps: frozenset[int] = frozenset()

    def keep(self, steps: Iterable[int], live: RunSoFar) -> frozenset[int]:
        """The measured steps that either keeps, and ``steps``.

        While every checkpoint diverged, none may be chosen.
        """
        measured = [step for step in steps if step in live.steps]
        also = parts(self.also)
        policy = AnyOf(also if live.selection is None else (KeepFeasible(), *also))
        return policy.keep(measured, live) | self.steps

    def why(self, step: int, live: RunSoFar) -> str:
        """Of a step that it keeps."""
        return "resumed from" if step in self.steps else "may be chosen, or kept on request"


class CheckpointFolder:
    """The checkpoints in one folder; only the first process of a training uses it.

    Args:
        choice: how to choose.
        also: what else stays.
        measuring: what ``LiveSelector`` takes besides: ``bins``, ``held_out`` …
        average_within_pp: also keep the members of an average, all within this many points of the
            best accuracy.
        predictions, calibrator: as for ``LiveSelector``.
        log: what ``Outcome.logged`` holds: "main" or "all".
        last: the name of the link to the newest checkpoint.
        go_on: how a user goes on with a training, in a few words.
    """

    def __init__(
        self,
        choice: Choice,
        also: Policy | None,
        measuring: Mapping[str, Any],
        *,
        average_within_pp: Points | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
        log: Log = "main",
        last: str = LAST,
        go_on: str = 'use fit(…, ckpt_path="last")',
    ) -> None:
        check_log(log)
        self._last, self._go_on, self.log = last, go_on, log
        # A wrong setting is refused before any training.
        self.needs_examples = LiveSelector(choice, **measuring).needs_examples
        self.needs_logits = keeps_logits(predictions, calibrator)
        self._keeping: dict[str, Any] = {"predictions": predictions, "calibrator": calibrator}
        self._choice, self._measuring = choice, dict(measuring)
        self._also = keeping(also or AnyOf(()), average_within_pp)
        self._within_pp = average_within_pp
        self._live: LiveSelector | None = None
        self._folder = Path()
        self._newest: int | None = None
        self._continues = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}  # a journal has one writer

    @property
    def described(self) -> str:
        """How it chooses and measures."""
        return f"{self._choice.as_dict()} {self._measuring}"

    @property
    def selection(self) -> Selection | None:
        """The selection among the checkpoints so far."""
        return None if self._live is None else self._live.selection

    def open(self, folder: Path, resumed: str | None = None) -> Plan:
        """Rebuild everything from the journal and finish what was cut off.

        Args:
            folder: where the checkpoints are.
            resumed: the checkpoint that it goes on from.
        """
        self.close()
        self._folder = folder
        source = None if resumed is None else real_place(Path(resumed))
        live = self._selector()
        with self._writing():
            cleaned = clean_up(
                folder, live.home, {real_place(last_link(folder, self._last)), source}
            )
        if cleaned:
            live.close()
            live = self._selector()  # which notes what is gone
        self._live = live
        self._continues = source is not None and source.is_relative_to(real_place(folder))
        self._link()
        found = [step for step, path in live.checkpoints.items() if real_place(path) == source]
        self._newest = found[0] if found else None
        self.prune(found)
        return self._planned(live, live.checkpoints, self._newest)

    def check_continues(self, *, told: bool) -> None:
        """Refuse records of another training.

        A process that was killed within its first save may have left a record, but no checkpoint:
        nobody can go on from there, so the training may start again.

        Args:
            told: whether training is known to go on, although from a checkpoint elsewhere.
        """
        live = self._opened
        if told or self._continues:
            return
        if live.checkpoints or len(live.steps) > 1:
            raise InputError(
                f"Expected a folder without records, but {self._folder / JOURNAL} has "
                f"{counted(len(live.steps), 'checkpoint')} of an earlier training: to go on from "
                f"it, {self._go_on}, or choose another dirpath.",
                code="exists",
            )
        live.resume(0)

    def members(self, k: int | None = None) -> tuple[int, ...]:
        """The steps of an average if training stopped now, all or ``k`` spread over them."""
        within = {} if self._within_pp is None else {"delta_pp": self._within_pp}
        return () if self._live is None else self._live.members(k, **within)

    def say_members(self, *, of_keras: bool = False) -> None:
        """Say at the end of a training which checkpoints are averaged, if they were kept."""
        if self._live is not None:
            how = {"calibrator": self._keeping["calibrator"], "of_keras": of_keras}
            say_members(self._live, self._within_pp, self._folder, **how)

    def newest_file(self, folder: Path) -> Path | None:
        """The newest checkpoint in a folder, by its link; None if there is none."""
        link = last_link(folder, self._last)
        return link if link.is_symlink() and link.exists() else None

    def close(self) -> None:
        """Let another process write to the journal."""
        if self._live is not None:
            self._live.close()

    def weigh(self, step: int, entries: Mapping[str, Any], *, again: bool = False) -> Outcome:
        """What is chosen if the checkpoint of a step is added; nothing is written.

        Args:
            step: the training step.
            entries: metrics per domain.
            again: the checkpoint is the newest one, measured again.
        """
        number = self._newest if again and self._newest is not None else self._number(step)
        ahead = self._opened.preview(number, entries)
        logged = _logged(ahead, number, self.log)
        return Outcome(number, entries, ahead.choice, _scores(ahead), logged)

    def plan(self, step: int, outcome: Outcome | None, name: Name) -> Plan:
        """Where the checkpoint of a step goes, and what is chosen once it is there.

        Args:
            step: the training step.
            outcome: from ``weigh``; None if it is not recorded.
            name: ``name(None)`` is the file for it, ``name(1)`` … if that exists.
        """
        live = self._opened
        number = outcome.number if outcome else self._number(step)
        place = Place(_free(name))
        with self._writing():
            place.announce()
        return self._planned(
            outcome or live, {**live.checkpoints, number: place.path}, number, place
        )

    def commit(self, outcome: Outcome | None, plan: Plan) -> None:
        """After the save: give the file its name, and write it down."""
        live, place = self._opened, Place(Path(plan.path))
        if plan.number is None:
            raise InputError(
                "Expected a plan for a checkpoint: call plan() before commit().", code="missing"
            )
        with self._writing():
            place.finish()
            live.saved(plan.number, place.path)
            if outcome is not None:
                live.add(plan.number, outcome.entries)
            self._newest = plan.number
            self._link()
            place.settle()

    @contextmanager
    def saving(self, plan: Plan, *, first: bool = True) -> Iterator[None]:
        """Around the save itself: one that fails leaves nothing, and a full disk is said.

        Args:
            plan: from ``plan``.
            first: whether this is the process that decides.
        """
        try:
            with writing(Path(plan.path).parent, Path(plan.path).name, then=_SAFE):
                yield
        except BaseException:
            if first:
                with suppress(OSError, CheckwiseError):  # the next start deletes it
                    Place(Path(plan.path)).abandon(self._opened.home)
            raise

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._folder, "a checkpoint", then=_SAFE)

    def prune(self, stay: Iterable[int] = ()) -> None:
        """Delete what can no longer be chosen, but never the newest."""
        self._opened.prune(KeepMeasured(self._also, frozenset(stay)))

    def _number(self, step: int) -> int:
        """The number under which a step is recorded: its own, or else the next free one.

        A training that goes on from an older checkpoint reaches steps again. What is on disk of
        the earlier way there stays, and may be chosen as before.
        """
        live = self._opened
        if step not in live.checkpoints:
            return step
        taken = {*live.checkpoints, *live.steps}
        return next(number for number in itertools.count(step) if number not in taken)

    def _selector(self) -> LiveSelector:
        return LiveSelector(
            self._choice,
            journal=self._folder / JOURNAL,
            **self._keeping,
            **self._measuring,
        )

    @property
    def _opened(self) -> LiveSelector:
        if self._live is None:
            raise InputError(
                "Expected an open journal, but there is none: call open() first.", code="missing"
            )
        return self._live

    def _link(self) -> None:
        """Let ``last.ckpt`` point to the newest checkpoint."""
        if paths := list(self._opened.checkpoints.values()):
            point(last_link(self._folder, self._last), paths[-1])

    def _planned(
        self,
        ahead: Outcome | LiveSelection,
        files: Mapping[int, Path],
        number: int | None,
        place: Place | None = None,
    ) -> Plan:
        scores = ahead.scores if isinstance(ahead, Outcome) else _scores(ahead)
        best = None if ahead.choice is None else files.get(ahead.choice)
        return Plan(
            number=number,
            path=str(place.path) if place else "",
            part=str(place.part) if place else "",
            best=str(best or ""),
            last=str(last_link(self._folder, self._last)) if files else "",
            scores={str(files[step]): score for step, score in scores.items() if step in files},
        )


def _free(name: Name) -> Path:
    """The first name that nothing has."""
    version: int | None = None
    while os.path.lexists(path := name(version)):
        version = (version or 0) + 1
    return Path(path)


def _scores(live: LiveSelection) -> dict[int, float]:
    selection = live.selection
    if selection is None:
        return {}
    scores = dict(zip(selection.trajectory.steps.tolist(), selection.ranking.score, strict=True))
    return {step: float(scores[step]) for step in live.keep if step in scores}


def _logged(live: LiveSelection, step: int, log: Log) -> dict[str, float]:
    """Metrics of a step per set, and the choice; nothing that is not finite."""
    selection = live.selection
    if selection is None:
        return {}
    run = live.trajectory
    logged = measured(run, run.steps.tolist().index(step), live.looks_at, log)
    return {**logged, "choice": float(selection.step), "score": selection.score}
