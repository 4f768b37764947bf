"""The end of ``select``: what would help most with this run, and the command for it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from checkwise.readers import predictions_folder
from checkwise.readers.live_journal import journal_at
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
    place = f"./{path}" if str(path).startswith("-") else str(path)
    if run.examples is not None and run.examples.has_logits:
        deploys = selection.path is not None and Path(selection.path) in filter(readable, there)
        if deploys:
            lines.append(_line("deploy", place, *given, "-o", _free("model")))
        elif _calibrates(path) and not {"--run", "--no-guard", "--direction"}.intersection(given):
            lines.append(_line("calibrate", place, *given, "-o", _free("calibration", ".json")))
        lines = [f"{line} (fits one temperature, never below 1)" for line in lines]
    elif ACCURACY in run.metrics and not selection.guard_acted and not is_own_folder(path):
        folders = {str(one.parent) for one in there}
        folder = folders.pop() if len(folders) == 1 else CHECKPOINTS
        asked = ["--function", FUNCTION, "--domains", ",".join(run.domains)]
        if "--checkpoints" in given:
            asked += ["--checkpoints", Path(given[given.index("--checkpoints") + 1]).name]
        line = _line("predict", folder, *asked, "-o", _free("predictions"))
        lines = [f"{line} (your function makes predictions, to calibrate with)"]
    # Groups of other runs would have to be read from every file.
    groups = groups_of(run) if run.key is None and not run.chosen_by else None
    if groups or selection.guard_acted:
        lines.append(
            "If new sites, patients or devices are what it will meet, validate on whole ones: none "
            "of them in training too (docs/groups.md)."
        )
    return lines


def _calibrates(path: Path) -> bool:
    """Whether ``calibrate`` takes this very path, and not a folder around it."""
    own = is_own_folder(path) or predictions_folder.recognises(path)
    return own or journal_at(path) is not None


def _line(*words: str) -> str:
    return f"Next: {shlex.join(('checkwise', *words))}"


def _free(name: str, suffix: str = "") -> str:
    """A name that nothing has here."""
    names = (f"{name}{f'-{number}' * (number > 1)}{suffix}" for number in count(1))
    return next(free for free in names if not os.path.lexists(free))
