"""``select --copy-to``: a copy of the chosen checkpoint as the trainer saved it, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from checkwise.cli import printing
from checkwise.cli.json_output import with_schema
from checkwise.cli.progress import counting
from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.selection import Selection
from checkwise.store import layout
from checkwise.store.atomic_write import write_text
from checkwise.store.copying import KERAS, copy_checkpoint
from checkwise.store.done import read_recorded
from checkwise.store.safe_read import has_file

_OF_TRAINERS: Final = ("checkpoints", "weights")  # folders that only the trainer writes to


def copy_chosen(path: Path, selection: Selection, to: Path, *, force: bool = False) -> Path:
    """Copy the chosen checkpoint, a file or a folder; ``TO.json`` beside it says why.

    Args:
        path: what was read; it is never written over.
        selection: the choice.
        to: the new file or folder. One for Keras gets its ending.
        force: replace an earlier copy.

    Returns:
        Where the copy is.
    """
    if to.name in ("", ".."):
        raise InputError(
            f"Expected a new name, but {to} is a folder: choose another.", code="exists"
        )
    why = _why(to)
    _check_place(path, to, why, force=force)
    for place in (to, why):
        _refuse_weights(selection.trajectory, place)
    weights = _weights(selection, path)
    to = _named_for_keras(to, weights)
    why = _why(to)
    for place in (to, why):
        if place.exists() and not force:
            raise InputError(
                f"{place} exists already: choose another name or add --force.", code="exists"
            )
    with counting("copying, in MB") as progress:
        copy_checkpoint(
            weights,
            to,
            replace=force,
            ready=lambda: _retract(why),
            progress=lambda done, total: progress(done // 10**6, total // 10**6),
        )
    reasons = with_schema({**selection.as_dict(), "explanation": selection.explain()})
    write_text(why, json.dumps(reasons, indent=2, allow_nan=False) + "\n")
    return to


def _why(place: Path) -> Path:
    return place.with_name(place.name + ".json")


def _named_for_keras(place: Path, weights: Path) -> Path:
    """The name with the ending without which Keras loads no file."""
    ending = next((ending for ending in KERAS if weights.name.endswith(ending)), "")
    return place if place.name.endswith(ending) else place.with_name(place.name + ending)


def _check_place(path: Path, to: Path, why: Path, *, force: bool) -> None:
    """Refuse a place that cannot or must not be written."""
    if not to.is_dir():
        for place in (to, why):
            printing.refuse_to_overwrite(path, place)
        return
    if not force:
        raise InputError(
            f"Expected a new name, but {to} is a folder: choose another, or add --force to replace "
            "an earlier copy.",
            code="exists",
        )
    if not is_copy(to):
        raise InputError(
            f"Expected an earlier copy to replace, but there is no {why.name} beside the folder "
            f"{to} that says so: choose another name, or move the folder away.",
            code="exists",
        )
    if layout.is_record(to) or path.resolve().is_relative_to(to.resolve()):
        raise InputError(
            f"Expected another folder to replace than {to}, which holds the run.", code="outside"
        )
    printing.refuse_to_overwrite(path, why)


def is_copy(place: Path) -> bool:
    """Whether a file beside it says that it is an earlier copy."""
    try:
        reasons = json.loads(_why(place).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(reasons, dict) and {"step", "rule", "explanation"} <= set(reasons)


def _refuse_weights(trajectory: Trajectory, out: Path) -> None:
    """A copy must not replace or change a checkpoint of the run, not even through a link."""
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
