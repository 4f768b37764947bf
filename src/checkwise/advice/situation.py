"""What there is to work with: logs, logits, weights, domains, validation examples and errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from checkwise.data.registry import EMBEDDED
from checkwise.readers import predictions_folder
from checkwise.records import Trajectory
from checkwise.selection import Selection, members, select
from checkwise.selection.constraint import ACCURACY
from checkwise.store import layout
from checkwise.store.cohort import is_cohort
from checkwise.store.done import finished
from checkwise.store.logits import saved_at
from checkwise.store.run import read_run
from checkwise.store.safe_read import has_file
from checkwise.text import counted
from checkwise.weights.trainer_checkpoint import readable

Logits: TypeAlias = Literal["saved", "from weights", "from weights and data", "none"]
Kind: TypeAlias = Literal["own run", "predictions", "log or table"]


@dataclass(frozen=True)
class Situation:
    """One run as ``advise`` sees it.

    Attributes:
        kind: a run that checkwise trained, a predictions folder, or a log or table.
        runs: how many runs the path holds.
        steps: checkpoints with validation results that can be chosen.
        evaluated: the same with those whose weights are known to be gone.
        domains: validation sets.
        metrics: what is known of each checkpoint.
        rule: what ``select`` uses.
        step: what it chooses.
        examples, errors: validation examples, and those that the best checkpoint gets wrong; None
            where nobody knows.
        near_best: those of ``steps`` within 1 point of the best accuracy.
        with_weights: those of them whose weights are on disk and can be deployed (PyTorch).
        chosen_has_weights: whether that holds for the choice.
        chosen_file: the file or folder of the choice, of any kind, if it is on disk.
        logits: whether logits of source validation are there, or can be made.
        dataset: the data set of a run that checkwise trained.
        checkpoints: the folder that holds the checkpoints, if they lie in one.
        takes_n: whether it is a trainer's log, for which the number of examples can be given.
        trained_with: options of the rule that the run chose by while it trained, where it did.
    """

    kind: Kind
    runs: int
    steps: int
    evaluated: int
    domains: tuple[str, ...]
    metrics: tuple[str, ...]
    rule: str
    step: int
    examples: int | None
    errors: int | None
    saturated: bool
    near_best: int
    with_weights: int
    chosen_has_weights: bool
    chosen_file: str | None
    logits: Logits
    dataset: str | None
    checkpoints: str | None
    takes_n: bool
    trained_with: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is there, in a sentence."""
        sets = counted(len(self.domains), "validation set")
        known = (
            "how many validation examples it gets wrong is not known"
            if self.errors is None
            else f"the best checkpoint gets {self.errors} of {self.examples or 'all'} validation "
            "examples wrong"
        )
        logits = {
            "saved": "logits are saved",
            "from weights": "logits can be made from the weights",
            "from weights and data": "logits can be made from the weights and the data",
            "none": "there are no logits",
        }[self.logits]
        gone = self.evaluated > self.steps
        near = (
            f"{self.near_best}{' of those kept' * gone} within 1 point of the best accuracy, "
            f"{self.with_weights} of these with weights of PyTorch on disk"
            if ACCURACY in self.metrics
            else "there is no accuracy"
        )
        return (
            f"{counted(self.steps, 'checkpoint')}{f' kept of {self.evaluated}' * gone} on {sets} "
            f"({', '.join(self.metrics)}); {known}; {near}; {logits}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self)
        lists = ("domains", "metrics", "trained_with")
        return {**values, **{name: list(values[name]) for name in lists}}


def situation(path: Path, run: Trajectory, runs: int) -> Situation:
    """What there is of a run that was read from ``path``, one of ``runs``."""
    chosen = select(run)
    places = dict(zip(run.steps.tolist(), run.paths or [None] * len(run), strict=True))
    there = {step for step, place in places.items() if place and Path(place).exists()}
    deployable = {step for step in there if readable(Path(str(places[step])))}
    near = members(chosen) if ACCURACY in run.metrics else ()
    kind = _kind(path)
    saturated = chosen.saturation
    return Situation(
        kind=kind,
        runs=runs,
        steps=len(run),
        evaluated=run.evaluated,
        domains=tuple(run.domains),
        metrics=tuple(run.metrics),
        rule=chosen.rule,
        step=chosen.step,
        examples=None if saturated is None else saturated.examples,
        errors=None if saturated is None else saturated.errors,
        saturated=saturated is not None and saturated.saturated,
        near_best=len(near),
        with_weights=len(deployable.intersection(near)),
        chosen_has_weights=chosen.step in deployable,
        chosen_file=places[chosen.step] if chosen.step in there else None,
        logits=_logits(kind, path, chosen, bool(there)),
        dataset=read_run(path).key.dataset if kind == "own run" else None,
        checkpoints=_folder({str(Path(str(places[step])).parent) for step in there}),
        takes_n=bool(run.columns),
        trained_with=_trained_with(run, chosen),
    )


def _trained_with(run: Trajectory, chosen: Selection) -> tuple[str, ...]:
    """The rule of a run that chose live, for predictions that no longer know it."""
    if not run.chosen_by:
        return ()
    delta = chosen.params.get("delta_pp")
    return ("--rule", chosen.rule, *(() if delta is None else ("--delta-pp", str(delta))))


def _kind(path: Path) -> Kind:
    if path.is_dir() and has_file(path, layout.RUN):
        return "own run"
    return "predictions" if predictions_folder.recognises(path) else "log or table"


def _logits(kind: Kind, path: Path, chosen: Selection, weights: bool) -> Logits:
    if kind != "own run":
        examples = chosen.trajectory.examples
        return "saved" if examples is not None and examples.has_logits else "none"
    if saved_at(path, [chosen.step]):
        return "saved"
    if not weights or not finished(path) or not is_cohort(path.absolute().parents[1]):
        return "none"
    return "from weights" if read_run(path).key.dataset in EMBEDDED else "from weights and data"


def _folder(parents: set[str]) -> str | None:
    return parents.pop() if len(parents) == 1 else None
