"""``checkwise prune``: delete the checkpoints that no rule can choose any more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option
from checkwise.cli.handover import Taken, again_option, take
from checkwise.cli.options import json_option, plugin_option
from checkwise.cli.printing import print_json
from checkwise.errors import InputError
from checkwise.integrations import LiveSelector
from checkwise.predict import SUFFIXES
from checkwise.readers import journal_at, matching, parse
from checkwise.records import Trajectory, words
from checkwise.selection import (
    Choice,
    Chosen,
    KeepEvery,
    KeepFeasible,
    KeepLast,
    Policy,
    guarded_answer,
    reasons_to_keep,
)
from checkwise.store import (
    RUN_FILE,
    Home,
    Pruning,
    delete_others,
    has_file,
    live_journals,
    plan_pruning,
)
from checkwise.words import bytes_shown, counted

# Endings that data have too, and words that tell weights from data.
PLAIN = (".h5", ".hdf5", ".bin", ".tar", ".npz", ".pkl", ".pickle", ".joblib")
WEIGHTS = {
    "weights", "weight", "model", "models", "checkpoint", "checkpoints", "ckpt", "cp", "chkpt",
    "epoch", "ep", "step", "iter", "iteration", "net", "network", "state", "snapshot", "save",
    "saved",
}  # fmt: skip
MOST_FILES = 1000


@command(
    "prune",
    examples=[
        "checkwise prune out",
        "checkwise prune out --keep-last 2 --apply",
        "checkwise select out --delta-pp 1 -o choice.json",
        "checkwise prune choice.json --apply",
    ],
)
@argument("path", metavar="PATH|choice.json")
@option("--keep-last N", "Also keep the last N checkpoints.", type=int)
@option("--keep-every N", "Also keep the first of every N steps.", type=int)
@option(
    "--checkpoints PATTERN",
    "Names of the checkpoints, as 'weights.{epoch+1}.keras': needed where they are in another "
    "folder, or their names could be those of data. Beside a journal, their folder.",
)
@option("--apply", "Delete; without it nothing is deleted.")
@again_option
@plugin_option
@json_option
def prune_command(
    path: Path,
    keep_last: int | None,
    keep_every: int | None,
    checkpoints: str | None,
    apply: bool,
    again: bool,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show which checkpoints of a run cannot be chosen any more, and delete them with --apply.

    The chosen one, the newest, and everything that may still be chosen stay. Only checkpoints that
    belong to a logged step are looked at. A run is chosen from as `checkwise select` does; to
    choose otherwise, give its choice.json.
    """
    policy: Policy = KeepFeasible()
    policy = policy if keep_last is None else policy | KeepLast(keep_last)
    policy = policy if keep_every is None else policy | KeepEvery(keep_every)
    taken = _taken(path, plugin, checkpoints, again=again)
    journal = _journal(taken.path)
    if journal is None:
        plan = _prune(taken, policy, checkpoints, apply=apply)
    else:
        plan = _prune_live(taken, journal, policy, checkpoints, apply=apply)
    if not as_json:
        _show(taken, plan, applied=apply)
        return
    found = [
        {
            "step": saved.step,
            "path": str(saved.path),
            "bytes": saved.bytes,
            "stays": bool(saved.why),
            "why": saved.why or "cannot be chosen any more",
        }
        for saved in plan.checkpoints
    ]
    facts = {"rule": taken.selection.rule, "step": taken.selection.step, "applied": apply}
    print_json("prune", {**facts, "freed_bytes": plan.bytes, "checkpoints": found})


def _taken(path: Path, plugin: Sequence[str], named: str | None, *, again: bool) -> Taken:
    """The run; what names its checkpoints itself is read without the pattern of their names."""
    if named is not None and journal_at(path) is None:
        try:
            return take(path, plugin, again=again, checkpoints=named)
        except InputError as error:
            if error.code != "unsupported":
                raise
    return take(path, plugin, again=again)


def _prune(taken: Taken, policy: Policy, named: str | None, *, apply: bool) -> Pruning:
    """By the choice among the checkpoints that are there."""
    if taken.reading.include_unsaved:
        raise InputError(
            f"Expected no --include-unsaved, but {taken.file} was made with it: what may be "
            "deleted is judged among the checkpoints that are there; choose again without it.",
            code="unsupported",
        )
    saved = _saved(taken.run, taken.path)
    matched = _matched(taken, named)
    _check_weights(path for path in saved.values() if path.absolute() not in matched)
    chosen = taken.selection.step
    if chosen not in saved:
        raise InputError(
            f"Expected the checkpoint of step {chosen}, which is chosen, but it is not on disk: "
            "nothing is deleted before it is.",
            code="missing",
        )
    home = _home(taken, matched)
    reasons = reasons_to_keep(tuple(saved), Chosen.of(taken.selection), policy)
    plan = plan_pruning(saved, reasons, home=home)
    if apply:
        delete_others(saved, plan.stays, home=home)
    return plan


def _prune_live(
    taken: Taken, journal: Path, policy: Policy, named: str | None, *, apply: bool
) -> Pruning:
    """By the journal's own settings; the journal names each checkpoint, an option their folder."""
    if taken.choice != Choice():
        raise InputError(
            f"Expected no rule or parameters, but {taken.file} was made with some, and {journal} "
            "names those that the run was trained with: choose again without.",
            code="unsupported",
        )
    folder = None if named is None else Path(named).expanduser()
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"Expected --checkpoints FOLDER, because the journal names each checkpoint, but "
            f"{folder} is none: give their folder, or leave it out.",
            code="missing",
        )
    if folder is None:
        _check_here(taken)
    with closing(
        LiveSelector.from_journal(journal, read_only=not apply, checkpoints=folder)
    ) as live:
        plan = live.plan_pruning(policy)
        if taken.selection.step in plan.steps:
            raise InputError(
                f"Expected to keep step {taken.selection.step}, which is chosen, but by {journal} "
                "it could go: the journal is being written; try again.",
                code="differs",
            )
        return live.prune(policy) if apply else plan


def _journal(run: Path) -> Path | None:
    """The journal of a live selection, if the run has one."""
    if run.is_dir() and len(journals := live_journals(run)) > 1:
        raise InputError(
            f"Expected one run in {run}, but it holds the journals "
            f"{', '.join(path.name for path in journals)}: name one of them.",
            code="ambiguous",
        )
    return journal_at(run)


def _saved(trajectory: Trajectory, run: Path) -> dict[int, Path]:
    """Step → checkpoint, for the steps that have one on disk."""
    steps = zip(trajectory.steps.tolist(), trajectory.paths or (), strict=False)
    saved = {step: Path(path) for step, path in steps if path and os.path.lexists(path)}
    if not saved:
        by_column = "a table names them in a column `path`"
        by_pattern = "name them with --checkpoints, as in 'weights.{epoch+1}.keras'"
        raise InputError(
            f"Expected checkpoints of the logged steps of {run}, but found none: "
            f"{by_pattern if trajectory.columns else by_column}.",
            code="missing",
        )
    ours = {path.parent.parent for path in saved.values()}
    for folder in ours:
        if has_file(folder, RUN_FILE):
            raise InputError(
                f"Expected a run of another trainer, but {folder} is one of checkwise, whose "
                'record lists its files: train with keep = "feasible" in the study.',
                code="unsupported",
            )
    return saved


def _check_weights(found: Iterable[Path]) -> None:
    """Refuse to delete what the user did not name and does not look like saved weights."""
    for path in found:
        inside = sorted(path.glob("*"))[:MOST_FILES] if path.is_dir() else [path]
        plain = path.name.lower().endswith(PLAIN) and WEIGHTS.isdisjoint(words(path.stem))
        hidden = path.name.startswith(".")
        if plain or hidden or not any(file.name.lower().endswith(SUFFIXES) for file in inside):
            raise InputError(
                f"Expected checkpoints, but {path} may be something else, by its name: nothing is "
                "deleted. If these are checkpoints, name them, as in --checkpoints "
                "'weights.{epoch+1}.keras'; in a table, give them names such as model_1.pt.",
                code="outside",
            )


def _matched(taken: Taken, named: str | None) -> set[Path]:
    """The files that the user names with --checkpoints."""
    if named is None:
        return set()
    pattern = parse(os.path.expanduser(named))
    bases = (taken.folder, Path())
    found = {Path(file.path).absolute() for base in bases for file in matching(pattern, base)}
    if not found:
        raise InputError(
            f"Expected checkpoints that match --checkpoints {named!r}, but there are none below "
            f"{bases[0]} or this folder: check the pattern.",
            code="missing",
        )
    return found


def _home(taken: Taken, matched: set[Path]) -> Home:
    """Where the user lets delete: in the folder of the run, and where --checkpoints leads.

    A pattern in ``choice.json`` has no say in it, nor has a run elsewhere that only it names.
    """
    if not matched:
        _check_here(taken)
    own = (taken.folder,) if taken.is_here else ()
    spared = [] if taken.path.is_dir() else [taken.path]
    spared += [] if taken.file is None else [taken.file]
    return Home((*own, *sorted({path.parent for path in matched})), tuple(spared))


def _check_here(taken: Taken) -> None:
    if not taken.is_here:
        raise InputError(
            f"Expected a run below this folder or that of {taken.file}, but the file names "
            f"{taken.path}, and a file alone does not say what may be deleted: go to that folder, "
            "or name the checkpoints with --checkpoints.",
            code="outside",
        )


def _show(taken: Taken, plan: Pruning, *, applied: bool) -> None:
    chosen, folder = taken.selection, taken.folder.absolute()
    accuracies = chosen.columns.get("accuracy", ())
    accuracy = dict(zip(chosen.trajectory.steps.tolist(), accuracies, strict=False))
    rows = []
    for saved in plan.checkpoints:
        known, place = saved.step in accuracy, saved.path.absolute()
        shown = f"{100 * accuracy[saved.step]:.2f}" if known else "-"
        rows.append(
            (
                str(saved.step),
                *([shown] if accuracy else []),
                bytes_shown(saved.bytes),
                f"stays: {saved.why}" if saved.why else "deleted" if applied else "can go",
                str(place.relative_to(folder) if place.is_relative_to(folder) else saved.path),
            )
        )
    header = ("step", *(["accuracy"] if accuracy else []), "size", "", "checkpoint")
    gone, there = len(plan.goes), len(plan.checkpoints)
    if not gone:
        stay = "The only checkpoint stays" if there == 1 else f"All {there} checkpoints stay"
        last = f"{stay}: nothing to delete."
    elif applied:
        last = f"Deleted {gone} of {counted(there, 'checkpoint')}: {bytes_shown(plan.bytes)} freed."
    else:
        last = (
            f"{gone} of {counted(there, 'checkpoint')} can go, which frees "
            f"{bytes_shown(plan.bytes)}. Nothing was deleted: add --apply."
        )
    printing.say(
        printing.table(header, rows, left=("", "checkpoint"), whole=("checkpoint",)),
        "",
        guarded_answer(chosen, offer=False) or f"{chosen.rule} chooses step {chosen.step}.",
        last,
    )
