"""``deploy``: from a run to a folder with the chosen or averaged model and its calibrator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from checkwise.calibrators import get_calibrator
from checkwise.deployed.bundle import CALIBRATION, CARD, BundleFile, check_out, write_bundle
from checkwise.deployed.card import card_of
from checkwise.deployed.models import Logits, RunModels, StoredModel, models_of
from checkwise.deployed.record import (
    PREDICT,
    Calibration,
    DeployedModel,
    Kind,
    calibrated,
    record_of,
)
from checkwise.errors import InputError, naming_extras, require
from checkwise.metrics import whole
from checkwise.readers import load
from checkwise.records import Trajectory
from checkwise.selection import (
    MEMBERS_DELTA_PP,
    NEAR_BEST,
    CalibratedChoice,
    Choice,
    Selection,
    guarded,
    guarded_answer,
    members,
    select,
)
from checkwise.store import encode_json, is_own_folder, is_own_record
from checkwise.words import shown

Average: TypeAlias = Literal["probabilities", "weights"]
Members: TypeAlias = int | Literal["all"]
For: TypeAlias = Literal["new", "same"]
NONE: Final = "none"  # as the name of a calibrator
CALIBRATOR_FOR: Final[Mapping[str, str]] = {"new": "ts-soften", "same": "ts"}


@dataclass(frozen=True)
class Asked:
    """What to deploy.

    Args:
        average: None for one checkpoint, or what is averaged over those near the best.
        members: how many of these: all, or some spread over them.
        calibrator: its name; "none" for probabilities as they are. By default that of ``for_``.
        for_: "new" places, where predictions are never made more confident, or the "same" as
            validation; by default new.
    """

    average: Average | None = None
    members: Members | None = None
    calibrator: str | None = None
    for_: For | None = None

    def __post_init__(self) -> None:
        if self.average not in (None, "probabilities", "weights"):
            raise InputError(
                f"Expected an average of probabilities or weights, but got {shown(self.average)}."
            )
        if self.average is None and self.members is not None:
            raise InputError(
                'Expected members of an average, but there is none: say average="probabilities" or '
                '"weights", or leave the members out.',
                code="missing",
            )
        if self.members not in (None, "all"):
            whole(self.members, "members", least=1)
        if self.for_ is not None and self.for_ not in CALIBRATOR_FOR:
            raise InputError(
                f"Expected --for new or --for same, but got {shown(self.for_)}.", code="unknown"
            )
        if self.for_ is not None and self.calibrator is not None:
            raise InputError(
                f"Expected --for or --calibrator, but got both: --for {self.for_} takes "
                f"{CALIBRATOR_FOR[self.for_]}. Leave one out.",
                code="ambiguous",
            )
        if self.calibrator not in (None, NONE):
            get_calibrator(self.calibrator)

    @property
    def fitted_by(self) -> str | None:
        """The name of the calibrator; None for none."""
        named = self.calibrator or CALIBRATOR_FOR[self.for_ or "new"]
        return None if named == NONE else named

    @property
    def count(self) -> int | None:
        """How many members; None for all."""
        return None if self.members in (None, "all") else int(self.members)


@dataclass(frozen=True)
class Deployment:
    """What ``deploy`` wrote: the folder, ``deployed.json``, the card, and what to know first."""

    folder: Path
    info: Mapping[str, Any]
    card: str
    notes: tuple[str, ...]


def deploy(
    path: str | Path,
    out: str | Path,
    *,
    rule: str | Choice | None = None,
    average: Average | None = None,
    members: Members | None = None,
    calibrator: str | None = None,
    for_: For | None = None,
    force: bool = False,
    roots: Mapping[str, str] | None = None,
    held_out: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    n: int | Mapping[str, int] | None = None,
    checkpoints: str | None = None,
    **settings: Any,
) -> Deployment:
    """Write a folder with the chosen or averaged model, its calibrator, and a card that says why.

    The folder appears whole or not at all, and the same input gives the same bytes.
    ``checkwise.deployed.load`` reads it.

    Args:
        path: a run, a predictions folder whose checkpoints are there, or a trainer's folder.
        out: the new folder.
        rule: how the checkpoint is chosen, as for :func:`select`; not with an average.
        average: "probabilities" (an ensemble) or "weights" (one model) of the checkpoints within
            ``delta_pp`` points of the best, by default 1.
        members: "all" of these, or a number of them spread evenly.
        calibrator: its name, "none" for none. It is fitted to the logits of source validation;
            where there are none the model is deployed without, and the card says so. By default
            that of ``for_``.
        for_: where the model is used: "new" places (one temperature of at least 1), the default,
            or the "same" as validation (one temperature).
        force: replace a model that was deployed there before.
        roots: data set → its folder, to evaluate runs of checkwise that saved no logits.
        held_out, sources, columns, n, checkpoints: as for :func:`load`.
        settings: as for :func:`select`; none beside a :class:`Choice`.
    """
    asked = Asked(average, members, calibrator, for_)
    run = load(
        path, held_out=held_out, sources=sources, columns=columns, n=n, checkpoints=checkpoints
    )
    choice = Choice.of(rule, **settings)
    return deploy_run(Path(path), run, Path(out), asked, choice=choice, roots=roots, force=force)


def deploy_run(
    path: Path,
    run: Trajectory,
    out: Path,
    asked: Asked,
    *,
    choice: Choice,
    roots: Mapping[str, str] | None = None,
    force: bool = False,
) -> Deployment:
    """The same for a run that was read from ``path``."""
    _check_weights(run, path)
    require("torch", "safetensors")
    check_out(out, replace=force)
    _check_apart(path, out)
    models = models_of(path, run, roots or {})
    selection = _choose(run, asked, choice)
    model = _model(models, selection, asked)
    calibration = calibrated(model, asked.fitted_by)
    info = record_of(model, calibration, facts=models.facts, name=_name(path, run))
    card = card_of(model, calibration, info)
    files = [
        *(file for stored in model.stored for file in stored.files),
        BundleFile(CALIBRATION, encode_json(calibration.as_dict()).encode()),
        BundleFile(CARD, card.encode(errors="backslashreplace")),
    ]
    written = write_bundle(out, files, info, replace=force)
    notes = (*model.notes, *calibration.notes)
    guard = guarded_answer(selection, offer=False)
    return Deployment(out, written, card, (guard, *notes) if guard else notes)


@dataclass(frozen=True, eq=False)
class ChoiceCalibration:
    """The calibrator of the chosen checkpoint by itself: how it was fitted, and its record."""

    selection: Selection
    calibration: Calibration
    record: Mapping[str, Any]


def calibrate_run(
    path: Path,
    run: Trajectory,
    asked: Asked,
    *,
    choice: Choice,
    roots: Mapping[str, str] | None = None,
) -> ChoiceCalibration:
    """Fit the calibrator that ``deploy_run`` would, where the weights are needed by nobody."""
    if asked.average is not None or asked.fitted_by is None:
        raise InputError(
            "Expected one checkpoint and a calibrator for --calibrator-only, but got an average, "
            "or none: leave out --average, and name a calibrator.",
            code="unsupported",
        )
    selection = select(run, choice)
    models = models_of(path, run, roots or {})
    logits = models.logits(selection.step)
    if logits is None:
        raise InputError(
            f"Expected logits to fit a calibrator to, but {path} has none: {PREDICT}.",
            code="missing",
        )
    steps, groups = (selection.step,), models.groups
    model = DeployedModel("single", selection, steps, (), models.format, logits, groups=groups)
    calibration = calibrated(model, asked.fitted_by)
    assert calibration.fitted is not None
    assert calibration.change is not None
    fitted = CalibratedChoice.of(calibration.fitted, calibration.change, dict(logits))
    return ChoiceCalibration(selection, calibration, fitted.record(selection, _name(path, run)))


def _choose(run: Trajectory, asked: Asked, choice: Choice) -> Selection:
    if asked.average is None:
        return select(run, choice)
    if choice.rule is not None:
        raise InputError(
            f"Expected no rule with an average, which takes every checkpoint near the best, but "
            f"got {choice.as_dict()['rule']}: leave out the rule, or --average.",
            code="unsupported",
        )
    other = [name for name in choice.params if name != "delta_pp"]
    other += ["tolerance"] if choice.tolerance is not None else []
    if other:
        raise InputError(
            f"Expected only delta_pp with an average, but got {other[0]}: leave it out.",
            code="unsupported",
        )
    near = select(run, _near_best(run, choice))
    return near if near.guard is None else guarded(near, averaged=True)


def _near_best(run: Trajectory, choice: Choice) -> Choice:
    """The choice of what is averaged.

    How domains counted while the run trained, and the guard, hold where the caller sets nothing.
    """
    own, usual = run.chosen_by or {}, Choice()
    told = choice.weights != usual.weights or choice.worst_domain
    weighting = {} if told else {n: own[n] for n in ("weights", "worst_domain") if n in own}
    return replace(
        choice,
        rule=NEAR_BEST,
        params={"delta_pp": MEMBERS_DELTA_PP, **choice.params},
        guard=choice.guard and own.get("guard", True),
        **weighting,
    )


@naming_extras()
def _model(models: RunModels, selection: Selection, asked: Asked) -> DeployedModel:
    def made(
        kind: Kind,
        steps: Sequence[int],
        stored: Sequence[StoredModel],
        logits: Logits | None,
        notes: tuple[str, ...] = (),
    ) -> DeployedModel:
        groups = None if logits is None else models.groups
        return DeployedModel(
            kind, selection, tuple(steps), tuple(stored), models.format, logits, notes, groups
        )

    def single(step: int, notes: tuple[str, ...] = ()) -> DeployedModel:
        stored = models.checkpoint(step, alone=True)
        return made("single", [step], [stored], models.logits(step), notes)

    if asked.average is None:
        return single(selection.step)
    steps = members(selection, asked.count, delta_pp=selection.params["delta_pp"])
    if len(steps) == 1:
        return single(steps[0], (f"the average is of one checkpoint, step {steps[0]}",))
    fewer: tuple[str, ...] = ()
    if asked.count is not None and len(steps) < asked.count:
        fewer = (
            f"{asked.count} members were asked for, but {len(steps)} checkpoints with weights are "
            "near enough to the best; --within-pp takes more, average_within_pp and KeepMembers "
            "keep more during training",
        )
    if asked.average == "weights":
        mean = models.mean(steps)
        return made("weights-mean", steps, [mean], mean.logits, (*mean.notes, *fewer))
    logits = _ensemble_logits([models.logits(step) for step in steps])
    stored = [models.checkpoint(step, alone=False) for step in steps]
    return made("ensemble", steps, stored, logits, fewer)


def _ensemble_logits(outputs: Sequence[Logits | None]) -> Logits | None:
    """Logits whose softmax is the mean of the members' probabilities."""
    from checkwise.deployed.loading import log_mean_probabilities

    known = [logits for logits in outputs if logits is not None]
    if len(known) < len(outputs):
        return None
    if len(known) == 1:
        return known[0]
    return {
        domain: (log_mean_probabilities([logits[domain][0] for logits in known]), labels)
        for domain, (_, labels) in known[0].items()
    }


def _check_weights(run: Trajectory, path: Path) -> None:
    if any(run.paths or ()):
        return
    what = f"Expected a run whose checkpoints are on disk, but {path}"
    if run.examples is not None:
        raise InputError(
            f"{what} holds predictions and no weights: keep those of each step in its folder, or "
            "write the calibrator alone with --calibrator-only -o calibrator.json.",
            code="missing",
        )
    if run.columns:
        raise InputError(
            f"{what} is a log that names none: say which they are with `checkwise select {path} "
            "--checkpoints '…{step}…' -o choice.json`, then `checkwise deploy choice.json -o "
            "model`.",
            code="missing",
        )
    raise InputError(
        f"{what} names none: name that of every record in a column `path`.", code="missing"
    )


def _check_apart(path: Path, out: Path) -> None:
    """A model is put beside the run, never inside its records and never around it."""
    place, run = out.resolve(), path.resolve()
    if run.is_relative_to(place) or is_own_record(out) or is_own_folder(out):
        raise InputError(
            f"Expected a folder of its own for the model, but {out} is the run's, or holds it: "
            "choose another.",
            code="outside",
        )


def _name(path: Path, run: Trajectory) -> str:
    """What the run is called wherever its folder lies."""
    return str(run.key) if run.key is not None else path.resolve().name
