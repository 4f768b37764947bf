"""``select --copy-to``: a copy of the chosen checkpoint as the trainer saved it, and why."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Final

from checkwise.cli.places import check_file, refuse_what_is_there
from checkwise.cli.printing import json_text
from checkwise.cli.progress import counting
from checkwise.errors import InputError
from checkwise.selection import Selection
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    KERAS,
    RUN_FILE,
    copy_checkpoint,
    has_file,
    is_own_record,
    read_recorded,
    write_text,
)

_OF_TRAINERS: Final = ("checkpoints", "weights")  # folders that only the trainer writes to


def copy_chosen(path: Path, selection: Selection, to: Path, *, force: bool = False) -> Path:
    """Copy the chosen checkpoint, a file or a folder; ``TO.json`` beside it says why.

    Where it is: one for Keras gets its ending. ``path``, what was read, is never written over.
    """
    if to.name in ("", ".."):
        raise InputError(
            f"Expected a new name, but {to} is a folder: choose another.", code="exists"
        )
    _check_place(path, selection, to, force=force)
    weights = _weights_of_choice(selection, path)
    ending = next((ending for ending in KERAS if weights.name.endswith(ending)), "")
    if not to.name.endswith(ending):  # without it Keras loads no file
        to = to.with_name(to.name + ending)
        _check_place(path, selection, to, force=force)
    why = _why(to)
    with counting("copying, in MB") as progress:
        copy_checkpoint(
            weights,
            to,
            replace=force,
            ready=lambda: _retract(why),
            progress=lambda done, total: progress(done // 10**6, total // 10**6),
        )
    write_text(why, json_text({**selection.as_dict(), "explanation": selection.explain()}))
    return to


def _why(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def is_copy(place: Path) -> bool:
    """Whether a file beside it says that it is an earlier copy."""
    try:
        reasons = json.loads(_why(place).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(reasons, dict) and {"step", "rule", "explanation"} <= set(reasons)


def _retract(why: Path) -> None:
    """Reasons for what is replaced must not stand beside what replaces it, not even when killed."""
    if not why.is_symlink():
        why.unlink(missing_ok=True)


def _check_place(path: Path, selection: Selection, to: Path, *, force: bool) -> None:
    """Refuse to write over, into or among what was read, and over anything but an earlier copy."""
    why = _why(to)
    if to.is_dir():
        if not is_copy(to):
            raise InputError(
                f"Expected a new name, or an earlier copy to replace, but the folder {to} has no "
                f"{why.name} beside it: choose another name.",
                code="exists",
            )
        if is_own_record(to) or path.resolve().is_relative_to(to.resolve()):
            raise InputError(
                f"Expected another folder to replace than {to}, which holds the run.",
                code="outside",
            )
        if not force:
            refuse_what_is_there(to)
    else:
        check_file(to, path, replace=force)
    check_file(why, path, replace=force)
    for place in (to, why):
        _refuse_weights(selection, place)


def _refuse_weights(selection: Selection, out: Path) -> None:
    """A copy must not replace or change a checkpoint of the run, not even through a link."""
    target, run = out.resolve(), selection.trajectory
    there = [Path(path).resolve() for path in run.paths or () if path and Path(path).exists()]
    for path in there:
        inside = path.is_dir() and path in target.parents
        if target == path or path.is_relative_to(target) or inside:
            raise InputError(
                f"Expected another place to write than {out}, which is a checkpoint of the run or "
                "part of one: choose another name.",
                code="outside",
            )
        if path.parent == target.parent and (run.columns or path.parent.name in _OF_TRAINERS):
            raise InputError(
                f"Expected another place to write than {out}, among the checkpoints of the run, "
                "where it could be taken for one of them: choose another folder.",
                code="outside",
            )


def _weights_of_choice(selection: Selection, run: Path) -> Path:
    asked = f"Expected the weights of step {selection.step}, which was chosen, but"
    if selection.path is None:
        raise InputError(
            f"{asked} {run} names no file for it: keep the checkpoint of every record (in a "
            "table, a column `path`; for a log, --checkpoints).",
            code="missing",
        )
    path = Path(selection.path)
    if not path.is_file() and not (path.is_dir() and any(path.iterdir())):
        lacks = f"the folder {path} is empty" if path.is_dir() else f"there is no file {path}"
        raise InputError(
            f"{asked} {lacks}: keep it, and give paths that hold in the current folder.",
            code="missing",
        )
    if path.suffix == ".index" and any(path.parent.glob(f"{glob.escape(path.stem)}.data-*")):
        raise InputError(
            f"Expected a checkpoint in one file or folder, but {path} is one of several files of "
            f"a TensorFlow checkpoint: copy {path.stem}.* together.",
            code="ambiguous",
        )
    folder = path.parent.parent
    if path.parent.name == CHECKPOINTS_FOLDER and has_file(folder, RUN_FILE):
        read_recorded(folder, f"{CHECKPOINTS_FOLDER}/{path.name}")
    return path
