"""The end of ``select``: what would help most with this run, and the command for it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

from checkwise.records.examples import groups_of
from checkwise.selection import Selection
from checkwise.selection.constraint import ACCURACY
from checkwise.store.layout import is_own_folder
from checkwise.weights.trainer_checkpoint import readable

FUNCTION = "FILE.py:FUNCTION"  # words in capitals are for the reader to fill in
CHECKPOINTS = "CHECKPOINTS"


def next_steps(selection: Selection, path: Path, given: Sequence[str]) -> list[str]:
    """At most two lines.

    Args:
        selection: the answer.
        path: what it was chosen from.
        given: the options with which it was chosen, as on the command line.
    """
    run, lines = selection.trajectory, []
    there = [Path(place) for place in run.paths or () if place and Path(place).exists()]
    if run.examples is not None and run.examples.has_logits and "--validation" not in given:
        whole = selection.path is not None and Path(selection.path) in filter(readable, there)
        lines = [
            f"{_deploy(path, given, whole=whole)} (calibrates: one temperature, never below 1)"
        ]
    elif ACCURACY in run.metrics and not selection.guard_acted and not is_own_folder(path):
        folders = {str(one.parent) for one in there}
        folder = folders.pop() if len(folders) == 1 else CHECKPOINTS
        asked = ["--function", FUNCTION, "--domains", ",".join(run.domains)]
        if "--checkpoints" in given:
            asked += ["--checkpoints", Path(given[given.index("--checkpoints") + 1]).name]
        line = _line(["predict", folder, *asked, "-o", _free("predictions")])
        lines = [f"{line} (then it can be calibrated)"]
    # Groups of other runs would have to be read from every file.
    groups = groups_of(run) if run.key is None and not run.chosen_by else None
    if groups or selection.guard_acted:
        lines.append(
            "If new sites, patients or devices are what it will meet, validate on whole ones: none "
            "of them in training too (docs/groups.md)."
        )
    return lines


def after_choice(
    selection: Selection, file: Path, plugins: Sequence[str], validation: str | None
) -> list[str]:
    """The command that takes ``choice.json``, where it can work."""
    examples = selection.trajectory.examples
    if validation is not None:
        return []
    words = ["deploy", str(file), *(word for name in plugins for word in ("--plugin", name))]
    if selection.path and Path(selection.path).exists() and readable(Path(selection.path)):
        return [_line([*words, "-o", _free("model")])]
    if examples is not None and examples.has_logits:
        return [_line([*words, *_calibrator_only()])]
    return []


def _calibrator_only() -> list[str]:
    return ["--calibrator-only", "-o", _free("calibrator", ".json")]


def _deploy(path: Path, given: Sequence[str], *, whole: bool) -> str:
    """Deploys the model, or where its weights are not there the calibrator alone.

    What ``select`` was asked goes by ``choice.json``.
    """
    place = f"./{path}" if str(path).startswith("-") else str(path)
    last = ["-o", _free("model")] if whole else _calibrator_only()
    if not given:
        return _line(["deploy", place, *last])
    choice = _free("choice", ".json")
    plugins = [
        word
        for option, value in pairwise(given)
        if option == "--plugin"
        for word in (option, value)
    ]
    return _line(["select", place, *given, "-o", choice], ["deploy", choice, *plugins, *last])


def _line(*commands: Sequence[str]) -> str:
    return f"Next: {' && '.join(shlex.join(('checkwise', *words)) for words in commands)}"


def _free(name: str, suffix: str = "") -> str:
    """A name that nothing has here."""
    names = (f"{name}{f'-{number}' * (number > 1)}{suffix}" for number in count(1))
    return next(free for free in names if not os.path.lexists(free))
