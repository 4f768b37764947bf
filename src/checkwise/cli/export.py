"""``checkwise export``: copy the chosen weights, with a record of why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from checkwise.cli import printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import ValidationSet
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import RuleName, RunRuleOptions
from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import Selection, select
from checkwise.store import layout
from checkwise.store.atomic_write import write_text
from checkwise.store.copying import KERAS, copy_checkpoint
from checkwise.store.done import read_recorded
from checkwise.store.safe_read import has_file

_OF_TRAINERS: Final = ("checkpoints", "weights")  # folders that only the trainer writes to


@with_groups
def command(
    run: Annotated[Path, typer.Argument(help="A run whose checkpoints have weights on disk.")],
    output: Annotated[
        Path,
        typer.Option("--output", "--out", "-o", help="Where to put the weights."),
    ],
    rule: RuleName = None,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    validation: ValidationSet = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier export.")] = False,
) -> None:
    """Copy the weights of the chosen checkpoint, a file or a folder; FILE.json says why.

    The copy is what the trainer saved, to go on training or to load as before. Use `deploy` for a
    model whose probabilities are used: it can average, it calibrates, and it writes a card.
    """
    if output.name in ("", ".."):
        raise InputError(
            f"Expected a new name, but {output} is a folder: choose another.", code="exists"
        )
    why = output.with_name(output.name + ".json")
    _check_output(run, output, why, force=force)
    runs = inputs.load_runs(run, rule, options, validation)
    if len(runs) > 1:
        raise InputError(
            f"Expected one run in {run}, but found {len(runs)}: name one with --run.",
            code="ambiguous",
        )
    trajectory = next(iter(runs.values()))
    for place in (output, why):
        _refuse_weights(trajectory, place)
    selection = select(trajectory, rule, **options.weighting, **options.params)
    weights = _weights(selection, run)
    output = _named_for_keras(output, weights)
    why = output.with_name(output.name + ".json")
    for place in (output, why):
        if place.exists() and not force:
            raise InputError(
                f"{place} exists already: choose another name or add --force.", code="exists"
            )
    with counting("copying, in MB") as progress:
        copy_checkpoint(
            weights,
            output,
            replace=force,
            ready=lambda: _retract(why),
            progress=lambda done, total: progress(done // 10**6, total // 10**6),
        )
    reasons = {**selection.as_dict(), "explanation": selection.explain()}
    write_text(why, json.dumps(reasons, indent=2, allow_nan=False) + "\n")
    printing.console().print(selection.explain())
    printing.console().print(f"Checkpoint copied to {output}; {why.name} says why.")


def _named_for_keras(output: Path, weights: Path) -> Path:
    """The name with the ending without which Keras loads no file."""
    ending = next((ending for ending in KERAS if weights.name.endswith(ending)), "")
    return output if output.name.endswith(ending) else output.with_name(output.name + ending)


def _check_output(run: Path, output: Path, why: Path, *, force: bool) -> None:
    """Refuse, before the work, a place that cannot or must not be written."""
    if not output.is_dir():
        for place in (output, why):
            printing.refuse_to_overwrite(run, place)
        return
    if not force:
        raise InputError(
            f"Expected a new name, but {output} is a folder: choose another, or add --force to "
            "replace an earlier export.",
            code="exists",
        )
    if not _says_why(why):
        raise InputError(
            f"Expected an earlier export to replace, but there is no {why.name} beside the folder "
            f"{output} that says so: choose another name, or move the folder away.",
            code="exists",
        )
    if layout.is_record(output) or run.resolve().is_relative_to(output.resolve()):
        raise InputError(
            f"Expected another folder to replace than {output}, which holds the run.",
            code="outside",
        )
    printing.refuse_to_overwrite(run, why)


def _says_why(why: Path) -> bool:
    """Whether a file was written by an export."""
    try:
        reasons = json.loads(why.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(reasons, dict) and {"step", "rule", "explanation"} <= set(reasons)


def _refuse_weights(trajectory: Trajectory, out: Path) -> None:
    """An export must not replace or change a checkpoint of the run, not even through a link."""
    target = out.resolve()
    if trajectory.columns and any(
        path.parent == target.parent for path in _checkpoints(trajectory)
    ):
        raise InputError(
            f"Expected another place to write than {out}, among the checkpoints of the run, where "
            "it could be taken for one of them: choose another folder.",
            code="outside",
        )
    for path in _checkpoints(trajectory):
        if (
            target == path
            or path.is_relative_to(target)
            or (path.is_dir() and path in target.parents)
        ):
            raise InputError(
                f"Expected another file to write than {out}, which is a checkpoint of the run or "
                "part of one: choose another name.",
                code="outside",
            )
        if path.parent == target.parent and path.parent.name in _OF_TRAINERS:
            raise InputError(
                f"Expected another folder to write to than {out.absolute().parent}, where the run "
                "keeps its checkpoints: choose another.",
                code="outside",
            )


def _checkpoints(trajectory: Trajectory) -> Iterator[Path]:
    for path in trajectory.paths or ():
        if path is not None and Path(path).exists():
            yield Path(path).resolve()


def _retract(why: Path) -> None:
    """Reasons for what is replaced must not stand beside what replaces it, not even when killed."""
    if not why.is_symlink():
        why.unlink(missing_ok=True)


def _weights(selection: Selection, run: Path) -> Path:
    if selection.path is None:
        raise InputError(
            f"Expected the weights of step {selection.step}, which was chosen, but {run} names no "
            "file for it: keep the checkpoint of every record (in a table, a column `path`; for a "
            "log, --checkpoints).",
            code="missing",
        )
    path = Path(selection.path)
    if not path.is_file() and not path.is_dir():
        raise InputError(
            f"Expected the weights of step {selection.step}, which was chosen, but there is no "
            f"file {selection.path}: keep it, and give paths that hold in the current folder.",
            code="missing",
        )
    if path.is_dir() and not any(path.iterdir()):
        raise InputError(
            f"Expected the weights of step {selection.step}, which was chosen, but the folder "
            f"{selection.path} is empty: keep what was in it.",
            code="missing",
        )
    if path.suffix == ".index" and any(
        place.name.startswith(f"{path.stem}.data-") for place in path.parent.iterdir()
    ):
        raise InputError(
            f"Expected a checkpoint in one file or folder, but {selection.path} is one of several "
            f"files of a TensorFlow checkpoint: copy {path.stem}.* together.",
            code="ambiguous",
        )
    folder = path.parent.parent
    if path.parent.name == layout.CHECKPOINTS and has_file(folder, layout.RUN):
        read_recorded(folder, f"{layout.CHECKPOINTS}/{path.name}")
    return path
