"""``checkwise prune``: delete the checkpoints that no rule can choose any more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson
from checkwise.cli.rule_options import RuleName, RunRuleOptions
from checkwise.errors import InputError
from checkwise.integrations import LiveSelector
from checkwise.predict.checkpoints import SUFFIXES
from checkwise.readers.checkpoints.folders import matching
from checkwise.readers.checkpoints.patterns import parse
from checkwise.records import Trajectory
from checkwise.records.held_out import words
from checkwise.selection import Selection, select
from checkwise.selection.live import Chosen
from checkwise.selection.saturation import guarded_answer
from checkwise.store import layout
from checkwise.store.deleting import Home, delete_others
from checkwise.store.live_journal import is_live_journal, live_journals
from checkwise.store.pruning import Pruning, plan_pruning
from checkwise.store.retention import KeepEvery, KeepFeasible, KeepLast, Policy
from checkwise.store.safe_read import has_file
from checkwise.text import bytes_shown, counted

# Endings that data have too, and words that tell weights from data.
PLAIN = (".h5", ".hdf5", ".bin", ".tar", ".npz", ".pkl", ".pickle", ".joblib")
WEIGHTS = {
    "weights", "weight", "model", "models", "checkpoint", "checkpoints", "ckpt", "cp", "chkpt",
    "epoch", "ep", "step", "iter", "iteration", "net", "network", "state", "snapshot", "save",
    "saved",
}  # fmt: skip
MOST_FILES = 1000


@with_groups
def command(
    run: Annotated[
        Path, typer.Argument(help="A run's folder or log, with its checkpoints beside it.")
    ],
    rule: RuleName = None,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    keep_last: Annotated[
        int | None, typer.Option(metavar="N", help="Also keep the last N checkpoints.")
    ] = None,
    keep_every: Annotated[
        int | None, typer.Option(metavar="N", help="Also keep the first of every N steps.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete; without it nothing is deleted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which checkpoints of RUN cannot be chosen any more, and delete them with --apply.

    The chosen one, the newest, and everything that the rule may still choose stay. Only checkpoints
    that belong to a logged step are looked at.
    """
    extra = _extra(keep_last, keep_every)
    journal = _journal(run)
    if journal is not None:
        options.load_plugins()
        _refuse_settings(options, rule, journal)
        folder = _checkpoints_folder(inputs)
        with closing(
            LiveSelector.from_journal(journal, read_only=not apply, checkpoints=folder)
        ) as live:
            policy = _with(KeepFeasible(), extra)
            plan = live.prune(policy) if apply else live.plan_pruning(policy)
            chosen = live.selection
    else:
        trajectory = _load(run, rule, options, inputs)
        chosen = select(trajectory, rule, **options.weighting, **options.params)
        saved = _saved(trajectory, run)
        if inputs.checkpoints is None:
            _check_weights(saved.values())
        _check_chosen(chosen, saved)
        home = _home(run, inputs)
        plan = plan_pruning(saved, Chosen.of(chosen), _with(KeepFeasible(), extra), home=home)
        if apply:
            delete_others(saved, plan.stays, home=home)
    if as_json:
        print_json("prune", record(chosen, plan, applied=apply))
    else:
        _show(chosen, plan, run, applied=apply)


def _extra(keep_last: int | None, keep_every: int | None) -> list[Policy]:
    policies: list[Policy] = []
    if keep_last is not None:
        policies.append(KeepLast(keep_last))
    if keep_every is not None:
        policies.append(KeepEvery(keep_every))
    return policies


def _with(policy: Policy, others: list[Policy]) -> Policy:
    for other in others:
        policy = policy | other
    return policy


def _journal(run: Path) -> Path | None:
    """The journal of a live selection, if the run has one."""
    journals = live_journals(run) if run.is_dir() else [run] * is_live_journal(run)
    if len(journals) > 1:
        raise InputError(
            f"Expected one run in {run}, but it holds the journals "
            f"{', '.join(path.name for path in journals)}: name one of them.",
            code="ambiguous",
        )
    return journals[0] if journals else None


def _refuse_settings(options: RunRuleOptions, rule: str | None, journal: Path) -> None:
    weighting = {"weights": "equal", "worst_domain": False}
    if rule is not None or options.params or options.weighting != weighting:
        raise InputError(
            f"Expected no rule or parameters, because {journal} names those that the run was "
            "trained with: leave them out.",
            code="unsupported",
        )


def _load(run: Path, rule: str | None, options: RunRuleOptions, inputs: InputOptions) -> Trajectory:
    if inputs.include_unsaved:
        raise InputError(
            "Expected no --include-unsaved: what may be deleted is judged among the checkpoints "
            "that are there; leave it out.",
            code="unsupported",
        )
    runs = inputs.load_runs(run, rule, options)
    if len(runs) > 1:
        raise InputError(
            f"Expected one run in {run}, but found {len(runs)}: name one of them.", code="ambiguous"
        )
    return next(iter(runs.values()))


def _saved(trajectory: Trajectory, run: Path) -> dict[int, Path]:
    """Step → checkpoint, for the steps that have one on disk."""
    steps = zip(trajectory.steps.tolist(), trajectory.paths or (), strict=False)
    saved = {step: Path(path) for step, path in steps if path and os.path.lexists(path)}
    if not saved:
        raise InputError(
            f"Expected checkpoints of the logged steps of {run}, but found none: name them with "
            "--checkpoints, as in 'weights.{epoch}.keras'.",
            code="missing",
        )
    for path in saved.values():
        if has_file(path.parent.parent, layout.RUN):
            raise InputError(
                f"Expected a run of another trainer, but {path.parent.parent} is one of checkwise, "
                "whose record lists every file that it keeps: to keep only these, train with "
                'keep = "feasible" in the study.',
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
                "'weights.{epoch}.keras'; in a table, give them names such as model_1.pt.",
                code="outside",
            )


def _check_chosen(chosen: Selection, saved: Mapping[int, Path]) -> None:
    if chosen.step not in saved:
        raise InputError(
            f"Expected the checkpoint of step {chosen.step}, which is chosen, but it is not on "
            "disk: nothing is deleted before it is.",
            code="missing",
        )


def _checkpoints_folder(inputs: InputOptions) -> Path | None:
    """The folder that --checkpoints names beside a journal, which names files itself."""
    if inputs.checkpoints is None:
        return None
    folder = Path(inputs.checkpoints).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"Expected the folder of the checkpoints, because the journal names each of them, but "
            f"{folder} is none: give --checkpoints FOLDER, or leave it out.",
            code="missing",
        )
    return folder


def _home(run: Path, inputs: InputOptions) -> Home:
    """Where the user lets delete: in the folder of the run, and where --checkpoints leads."""
    folder = run if run.is_dir() else run.parent
    named: set[Path] = set()
    if inputs.checkpoints is not None:
        pattern = parse(os.path.expanduser(inputs.checkpoints))
        for base in (folder, Path()):
            named |= {Path(file.path).parent for file in matching(pattern, base)}
    return Home((folder, *sorted(named)), () if run.is_dir() else (run,))


def record(chosen: Selection | None, plan: Pruning, *, applied: bool) -> dict[str, Any]:
    """The stable JSON."""
    return {
        "schema": 1,
        "rule": None if chosen is None else chosen.rule,
        "step": None if chosen is None else chosen.step,
        "applied": applied,
        "freed_bytes": plan.bytes,
        "checkpoints": [
            {
                "step": saved.step,
                "path": str(saved.path),
                "bytes": saved.bytes,
                "stays": bool(saved.why),
                "why": saved.why or "cannot be chosen any more",
            }
            for saved in plan.checkpoints
        ],
    }


def _show(chosen: Selection | None, plan: Pruning, run: Path, *, applied: bool) -> None:
    out = printing.console()
    accuracy = _accuracies(chosen)
    rows = [
        (
            str(saved.step),
            *((accuracy.get(saved.step, "-"),) * bool(accuracy)),
            bytes_shown(saved.bytes),
            f"stays: {saved.why}" if saved.why else "deleted" if applied else "can go",
            _below(saved.path, run),
        )
        for saved in plan.checkpoints
    ]
    header = ("step", *(("accuracy",) * bool(accuracy)), "size", "", "checkpoint")
    out.print(printing.table(header, rows, left=("", "checkpoint"), whole=("checkpoint",)))
    out.print()
    gone, there = len(plan.goes), len(plan.checkpoints)
    if chosen is not None:
        out.print(guarded_answer(chosen) or f"{chosen.rule} chooses step {chosen.step}.")
    if not gone:
        stay = "The only checkpoint stays" if there == 1 else f"All {there} checkpoints stay"
        out.print(f"{stay}: nothing to delete.")
    elif applied:
        out.print(
            f"Deleted {gone} of {counted(there, 'checkpoint')}: {bytes_shown(plan.bytes)} freed."
        )
    else:
        out.print(
            f"{gone} of {counted(there, 'checkpoint')} can go, which frees "
            f"{bytes_shown(plan.bytes)}. Nothing was deleted: add --apply."
        )


def _accuracies(chosen: Selection | None) -> dict[int, str]:
    if chosen is None or "accuracy" not in chosen.columns:
        return {}
    steps = chosen.trajectory.steps.tolist()
    values = chosen.columns["accuracy"].tolist()
    return {step: f"{100 * value:.2f}" for step, value in zip(steps, values, strict=True)}


def _below(path: Path, run: Path) -> str:
    folder = (run if run.is_dir() else run.parent).absolute()
    place = path.absolute()
    return str(place.relative_to(folder)) if place.is_relative_to(folder) else str(path)
