"""A live selection that survives the process: rebuilt from its journal, with its checkpoints."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from checkwise.calibrators import get_calibrator
from checkwise.errors import CheckwiseWarning, InputError, naming_extras
from checkwise.integrations.validation import ValidationSums, in_order, sets_to_read
from checkwise.metrics import BANDWIDTH, BINS, Groups
from checkwise.records import CheckpointRecord, Trajectory, check_step, packed_numbers
from checkwise.selection import (
    CalibratedChoice,
    Choice,
    KeepFeasible,
    LiveSelection,
    Policy,
    Rule,
    Selection,
    calibrate_choice,
    get_rule,
    plain,
    reasons_to_keep,
)
from checkwise.store import (
    PREDICTIONS_FOLDER,
    Home,
    LiveHistory,
    LiveJournal,
    Predictions,
    Pruning,
    beside,
    damaged_line,
    delete_others,
    plan_pruning,
    read_live_journal,
    real_place,
    remove_unwritten,
    state_of,
    write_text,
    writing,
)
from checkwise.words import shown

CALIBRATOR: Final = "calibrator.json"


class LiveSelector(LiveSelection):
    """A selection that grows with the run.

    Args:
        rule: a name from :func:`rules`, or a whole :class:`Choice`; by default ac-nc.
        journal: a file that holds every record. It is created with its folder if there is none;
            otherwise the selection is rebuilt from it, so that resuming never loses the best. A
            journal that was begun with another rule or other settings is refused.
        read_only: rebuild the selection from the journal, write nothing to it and delete nothing,
            as the other processes of a distributed training do.
        checkpoints: the folder of the weights, by default that of the journal. ``prune`` deletes
            nothing outside of it.
        bins, bandwidth: settings of the calibration errors.
        held_out, sources: domains that ``add`` skips unread, and domains that are validation
            although their names look held out (``test``, ``ood`` …).
        predictions: keep the logits of validation, in half precision, with their labels, and with
            correctness and NLL from full precision: a predictions folder that ``select`` reads.
            True is the folder ``predictions`` beside the journal; or name one. ``add`` then needs
            ``(logits, labels)``, or the result of an ``Accumulator(…, logits=True)``.
        calibrator: fit this calibrator, as "ts-soften", to the predictions of the choice, and keep
            it in ``calibrator.json`` beside the journal; ``selection.calibration`` has it too. It
            needs predictions, and keeps them.
        settings: as for :func:`select`; with another tolerance than "fixed" the journal also holds
            one bit per validation example and checkpoint.

    Example:
        >>> import numpy as np
        >>> z, y = np.array([[2.0, 0.0], [0.0, 1.0]]), [0, 1]
        >>> live = LiveSelector("ac-nc", delta_pp=0.5)
        >>> live.add(100, {"val": (-z, y)})
        >>> live.add(200, {"val": (z, y)})
        >>> live.choice, live.keep, live.droppable
        (200, (200,), (100,))
    """

    def __init__(
        self,
        rule: str | Rule | Choice | None = None,
        *,
        journal: str | os.PathLike[str] | None = None,
        read_only: bool = False,
        checkpoints: str | os.PathLike[str] | None = None,
        predictions: bool | str | os.PathLike[str] = False,
        calibrator: str | None = None,
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        **settings: Any,
    ):
        super().__init__(
            rule,
            bins=bins,
            bandwidth=bandwidth,
            held_out=held_out,
            sources=sources,
            **settings,
        )
        self._journal: LiveJournal | None = None
        self._trajectory: Trajectory | None = None
        self._warned = False
        self._history = LiveHistory(Path())
        self._read_only, self._named = read_only, set[int]()
        self._earlier = -1  # the last step that was there before this training said where it is
        self._folder = None if checkpoints is None else Path(os.path.abspath(checkpoints))
        self._own: tuple[Path, ...] = ()
        self._calibrator: ChoiceCalibrator | None = None
        self._predictions_home = Home()
        folder = predictions_folder(predictions or calibrator is not None, journal)
        self._recorder.keeps_logits = folder is not None and not read_only
        self._recorder.keeps_examples |= self._recorder.keeps_logits
        if journal is None:
            return
        path = Path(os.path.abspath(journal))
        file = beside(path, CALIBRATOR)
        self._folder, self._own = self._folder or path.parent, (path, file)
        if read_only:
            lines = read_live_journal(path, plain(self.settings))[1] if path.exists() else []
            self._replay(lines, path)
            return
        if calibrator is not None:
            self._calibrator = ChoiceCalibrator(get_calibrator(calibrator).name, file)
        self._journal = LiveJournal(path, plain(self.settings))
        try:
            with writing(path.parent, CALIBRATOR):
                remove_unwritten(file)
            self._replay(self._journal.lines, path)
            self._open_predictions(folder)
        except InputError:
            self.close()
            raise
        self._calibrate()

    def _replay(self, lines: Iterable[Mapping[str, Any]], path: Path) -> None:
        """Rebuild what a journal holds."""
        history = LiveHistory.replay(lines, path, held_out=self.settings["held_out"])
        # What vanished was deleted when a process was killed, or by somebody else.
        gone = [step for step, at in history.checkpoints.items() if not os.path.exists(at)]
        history.forget_weights(gone)
        self._history = history
        self._earlier = max((*history.records, *history.checkpoints), default=-1)
        self._refresh()

    def _open_predictions(self, folder: Path | None) -> None:
        """Finish what a killed process left undone, or begin a folder."""
        before = self._history.predictions
        if before is not None:
            if folder is not None and real_place(folder) != real_place(before):
                raise InputError(
                    f"Expected the folder in which predictions were begun, {before}, but got "
                    f"{folder}: name that one, or predictions=True.",
                    code="differs",
                )
            # A folder that only the journal names may be somebody else's.
            if folder is not None or not Home((self._history.folder,)).objection(before):
                self._predictions_home = Home((before,))
            self._tidy()
        elif folder is not None:
            Predictions(folder).check_unused()
            self._note({"predictions": _relative(folder, self._history.folder)})
            self._predictions_home = Home((folder,))

    def _tidy(self) -> None:
        if self._journal is not None and self._kept is not None:
            self._kept.tidy(self._history.records, self._history.forgotten)

    @property
    def _kept(self) -> Predictions | None:
        """The predictions folder, if there is one."""
        folder = self._history.predictions
        if folder is None:
            return None
        return Predictions(folder, self._predictions_home, self._history.written)

    @classmethod
    def from_journal(
        cls,
        journal: str | os.PathLike[str],
        *,
        read_only: bool = True,
        checkpoints: str | os.PathLike[str] | None = None,
    ) -> Self:
        """The selection that a journal holds, under the rule and settings it was begun with."""
        header, _ = read_live_journal(Path(journal))
        reading = {name: header[name] for name in ("bins", "bandwidth", "held_out", "sources")}
        settings = {**header["choice"], **reading}
        get_rule(settings["rule"])  # of a plug-in, perhaps, that is not there
        try:
            LiveSelection(**settings)
        except (InputError, TypeError):
            raise damaged_line(Path(journal), 1, header) from None
        return cls(journal=journal, read_only=read_only, checkpoints=checkpoints, **settings)

    def _check_goes_on(self, record: CheckpointRecord) -> None:
        """Refuse what only another training says of a step that the journal holds."""
        there = self._history.records.get(record.step)
        again = there is not None and there.as_dict() == record.as_dict()
        if record.step <= self._earlier and not again:
            raise InputError(
                f"Expected a step after {self._earlier}, which an earlier training reached, but "
                f"got step {record.step} with other results: to go on from there, load a "
                "checkpoint of it and call `resume` with its step; to begin anew, call "
                "`resume(0)` or name another journal.",
                code="exists",
            )

    def _put(self, record: CheckpointRecord) -> None:
        self._check_goes_on(slim := self._slim(record))
        named = {d: g for d, g in self._recorder.groups.items() if d not in self._history.groups}
        if named and self._recorder.keeps_examples:
            self._note({"groups": {domain: packed_numbers(g) for domain, g in named.items()}})
        kept = self._kept if self._recorder.keeps_logits else None
        line = slim.as_dict()
        if kept is not None:
            kept.check_free(record.step)
        if kept is not None and not record.diverged:
            line["predictions"] = kept.write(slim, record, self._recorder.groups)
        self._note(line)
        if kept is not None:
            kept.publish(slim)
        self._calibrate()
        self._warn_of_left_out()

    def _warn_of_left_out(self) -> None:
        """Say once that what was kept before a resume is kept no longer."""
        if self._journal is None or self._warned:
            return
        left = []
        if self._kept is not None and not self._recorder.keeps_logits:
            folder = self._kept.folder
            left.append(f"Predictions were kept in {folder} before: pass predictions=True again")
        file = beside(self._journal.path, CALIBRATOR)
        if self._calibrator is None and file.exists():
            left.append(f"{file} is of an earlier choice: pass calibrator= again, or delete it")
        if left:
            warnings.warn(". ".join([*left, ""]).strip(), CheckwiseWarning, stacklevel=4)
            self._warned = True

    def _calibrate(self) -> None:
        """Let ``calibrator.json`` be that of the choice."""
        if self._calibrator is not None and self._journal is not None:
            self._calibrator.write(self.selection)

    def _note(self, line: Mapping[str, Any]) -> None:
        """Write a line, then take it into account: what is not in the journal did not happen."""
        if self._journal is not None:
            self._journal.append(line)
        self._history.apply(line)
        self._refresh()

    def _refresh(self) -> None:
        self._recorder.records = self._history.records
        self._recorder.groups.update(self._history.groups)
        self._without_weights = self._history.without_weights
        self._selection = self._trajectory = None

    def evaluate(self, step: int, model: Any, sets: Mapping[str, Iterable[Any]]) -> None:
        """``add`` what a network of PyTorch says of validation sets, in evaluation mode.

        Args:
            step: the training step.
            model: called with the inputs of a batch; gives logits [n, C], or [n] of class 1 of two.
            sets: domain → batches of inputs and labels, as a ``DataLoader`` has them.
        """
        if not isinstance(sets, Mapping):
            raise InputError(
                f"Expected validation sets by name, but got {type(sets).__name__}: pass "
                '{"val": loader}.',
                code="format",
            )
        with naming_extras():
            import torch
        recorder, outputs = self._recorder, dict.fromkeys(sets)
        device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            for name in sets_to_read(tuple(sets), recorder.held_out, recorder.sources):
                sums = ValidationSums(
                    name,
                    recorder.bins,
                    recorder.bandwidth,
                    examples=self.needs_examples or in_order(sets[name]),
                    logits=recorder.keeps_logits,
                )
                for inputs, labels in sets[name]:
                    with torch.no_grad():
                        sums.update(model(inputs.to(device)), labels)
                outputs[name] = sums.entry()
        finally:
            for module, training in modes:
                module.training = training
        self.add(step, outputs)

    def saved(self, step: int, path: str | os.PathLike[str]) -> None:
        """Say that the weights of a step have been saved, as a file or a folder.

        ``prune`` deletes only what was named here, in this process or an earlier one, and has not
        changed since. A path that an earlier step was saved to holds the later one's weights; the
        earlier one's are gone.
        """
        number, place = check_step(step), Path(os.path.abspath(path))
        if not place.exists():
            raise InputError(
                f"Expected the checkpoint of step {step}, but there is nothing at {place}: call "
                "`saved` after the save.",
                code="missing",
            )
        if self.home.is_part(place):
            raise InputError(
                f"Expected a checkpoint, but {place} is or holds the journal of the run, its "
                "predictions or all its checkpoints: save each checkpoint to a file or folder of "
                "its own.",
                code="outside",
            )
        saved = {"saved": _relative(place, self._history.folder), "state": state_of(place)}
        self._note({"step": number, **saved})
        self._named.add(number)
        self._calibrate()

    def resume(self, step: int) -> None:
        """Say that training goes on from the checkpoint of a step; 0 is the start.

        What was recorded and saved after that step is forgotten: training does it again. Until
        then, a record without its weights must neither be chosen nor raise the best accuracy.
        A training that does not say so may only add steps after those in the journal.
        """
        number, self._earlier = check_step(step), -1
        known = (*self.steps, *self._history.checkpoints, *self._without_weights)
        if any(later > number for later in known):
            self._note({"resumed": number})
            self._tidy()
            self._calibrate()

    @property
    def home(self) -> Home:
        """Where checkpoints may be deleted; what was read from the journal has no say in it."""
        kept = self._history.predictions
        spared = self._own if kept is None else (*self._own, kept)
        return Home(() if self._folder is None else (self._folder,), spared)

    @property
    def checkpoints(self) -> Mapping[int, Path]:
        """Step → where its weights were saved, in the order of saving, without deleted ones."""
        return dict(self._history.checkpoints)

    @property
    def _with_weights(self) -> tuple[int, ...]:
        """Steps whose weights are there: those that were named, or, where none was, all."""
        there = super()._with_weights
        saved = self._history.checkpoints
        return tuple(step for step in there if step in saved) if saved else there

    @property
    def path(self) -> Path | None:
        """Where the weights of the choice are, as far as ``saved`` said so."""
        return None if self.choice is None else self._history.checkpoints.get(self.choice)

    def plan_pruning(self, policy: Policy | None = None) -> Pruning:
        """What ``prune`` would delete, and why the others stay."""
        history = self._history
        run = self.among(history.checkpoints)
        reasons = reasons_to_keep(tuple(history.checkpoints), run, policy or KeepFeasible())
        if self.choice is not None:
            reasons[self.choice] = "chosen"
        return plan_pruning(history.checkpoints, reasons, home=self.home, states=history.states)

    def prune(self, policy: Policy | None = None) -> Pruning:
        """Delete the saved checkpoints that no policy keeps, and note it in the journal.

        The newest checkpoint is synced to the disk before another is deleted. The newest and the
        chosen one always stay, and so does what an earlier process saved outside the folder of
        checkpoints. What may still be chosen is judged among the saved checkpoints.

        Args:
            policy: what stays; by default everything that may still be chosen.
        """
        if self._read_only:
            raise InputError(
                "Expected a LiveSelector that may delete, but this one was made with "
                "read_only=True: prune in the process that writes the journal.",
                code="unsupported",
            )
        history = self._history
        for step in self._named.intersection(history.checkpoints):
            path = history.checkpoints[step]
            if self.home.objection(path):  # checkpoints of this process would fill the disk
                where = "a folder that was named" if self._folder is None else self._folder
                raise InputError(
                    f"Expected checkpoints to be in {where}, but {path} is not: name their folder, "
                    'as in LiveSelector(…, checkpoints="weights"). Nothing was deleted.',
                    code="outside",
                )
        plan = self.plan_pruning(policy)
        deleted = delete_others(
            history.checkpoints, plan.stays, home=self.home, states=history.states
        )
        if deleted:
            self._note({"deleted": list(deleted)})
        return plan

    def _select(self) -> Selection | None:
        """The selection, with the kept predictions of its checkpoints."""
        chosen, kept = super()._select(), self._kept
        if chosen is None or kept is None:
            return chosen
        run = kept.added_to(chosen.trajectory, self._history.records)
        chosen = replace(chosen, trajectory=run)
        if self._calibrator is None:
            return chosen
        history = self._history
        return self._calibrator.calibrated(chosen, kept, history.records, history.groups)

    @property
    def trajectory(self) -> Trajectory:
        """Everything added so far, with the paths of the weights that are there."""
        if self._trajectory is None:
            facts = self._recorder.facts()
            if saved := self._history.checkpoints:
                paths = [saved.get(step) for step in self.steps]
                facts["paths"] = tuple(None if path is None else str(path) for path in paths)
            self._trajectory = Trajectory(**facts)
        return self._trajectory

    def close(self) -> None:
        """Close the journal, so that another process may write to it."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def predictions_folder(
    predictions: bool | str | os.PathLike[str], journal: str | os.PathLike[str] | None
) -> Path | None:
    """Where predictions are kept: in a folder that was named, or beside the journal.

    Example:
        >>> predictions_folder(True, "run/checkwise.jsonl"), predictions_folder(True, "run/b.jsonl")
        (PosixPath('run/predictions'), PosixPath('run/b-predictions'))
    """
    if not isinstance(predictions, bool | str | os.PathLike) or predictions == "":
        raise InputError(
            f"Expected True, False or a folder as predictions, but got {shown(predictions)}."
        )
    if predictions is False:
        return None
    if journal is None:
        raise InputError(
            "Expected a journal beside kept predictions, but there is none: pass journal=.",
            code="missing",
        )
    if predictions is not True:
        return Path(predictions)
    return beside(Path(journal), PREDICTIONS_FOLDER)


def _relative(path: Path, folder: Path) -> str:
    """A path from the journal's folder where it is inside, so that both can be moved together."""
    place, base = Path(os.path.abspath(path)), Path(os.path.abspath(folder))
    return str(place.relative_to(base)) if place.is_relative_to(base) else str(place)


@dataclass
class ChoiceCalibrator:
    """Fits one calibrator to the predictions of the choice, once for each record that is chosen."""

    name: str
    file: Path
    last: tuple[CheckpointRecord, CalibratedChoice] | None = None
    written: str | None = field(default=None, repr=False)

    def calibrated(
        self,
        chosen: Selection,
        kept: Predictions,
        records: Mapping[int, CheckpointRecord],
        groups: Groups,
    ) -> Selection:
        """The selection with its calibrator; with a note where its predictions were not kept."""
        record = records[chosen.step]
        if not kept.has(record):
            run = chosen.trajectory
            note = f"no calibrator: the predictions of step {chosen.step} were not kept"
            return replace(chosen, trajectory=replace(run, notes=(*run.notes, note)))
        if self.last is None or self.last[0] != record:
            fitted = calibrate_choice(kept.logits_of(record), self.name, groups=groups or None)
            self.last = (record, fitted)
        return replace(chosen, calibration=self.last[1])

    def _step_of_file(self) -> int | None:
        """The step that the file is of; where its predictions are gone, it stays."""
        try:
            step = json.loads(self.file.read_text())["step"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return step if type(step) is int else None

    def write(self, chosen: Selection | None) -> None:
        """Let the file be that of the choice; there is none where none is calibrated."""
        with writing(self.file.parent, self.file.name, then="the calibrator is fitted again"):
            if chosen is None or chosen.calibration is None:
                if chosen is None or self._step_of_file() != chosen.step:
                    self.file.unlink(missing_ok=True)
                self.written = None
                return
            record = chosen.calibration.record(chosen, str(self.file.parent))
            text = json.dumps(record, indent=2, allow_nan=False) + "\n"
            if text != self.written:
                write_text(self.file, text)
                self.written = text
