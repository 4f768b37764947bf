"""What ``select`` advises to type next, and where it found no checkpoints."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Final

from checkwise import predict
from checkwise.cli.options import Reading
from checkwise.errors import CheckwiseError, InputError
from checkwise.records import groups_of
from checkwise.selection import ACCURACY, Choice, Selection, select
from checkwise.store import is_own_folder
from checkwise.words import RECOMMENDED, counted

FUNCTION: Final = "FILE.py:FUNCTION"  # words in capitals are for the reader to fill in
CHECKPOINTS: Final = "CHECKPOINTS"


def next_steps(selection: Selection, path: Path, given: Sequence[str]) -> list[str]:
    """At most two lines; ``given`` are the options of the choice, as on the command line."""
    run, lines = selection.trajectory, []
    there = [Path(place) for place in run.paths or () if place and Path(place).exists()]
    if run.examples is not None and run.examples.has_logits and "--validation" not in given:
        place = f"./{path}" if str(path).startswith("-") else str(path)
        choice = _free("choice", ".json")
        chosen = ["select", place, *given, "-o", choice]
        deploy = ["deploy", choice if given else place, *_plugins(given), *_model(selection)]
        lines.append(_line(chosen, deploy) if given else _line(deploy))
    elif ACCURACY in run.metrics and not selection.guard_acted and not is_own_folder(path):
        folders = {str(one.parent) for one in there}
        folder = folders.pop() if len(folders) == 1 else CHECKPOINTS
        asked = ["--function", FUNCTION, "--domains", ",".join(run.domains)]
        if "--checkpoints" in given:
            asked += ["--checkpoints", Path(given[given.index("--checkpoints") + 1]).name]
        lines.append(_line(["predict", folder, *asked, "-o", _free("predictions")]))
    # Groups of other runs would have to be read from every file.
    groups = groups_of(run) if run.key is None and not run.chosen_by else None
    if groups or selection.guard_acted:
        lines.append(
            "If new sites, patients or devices are what it will meet, validate on whole ones: none "
            "of them in training too (docs/groups.md)."
        )
    elif lines:
        lines.append(RECOMMENDED)
    return lines


def without_log(path: Path) -> InputError | None:
    """What to do with a folder that holds checkpoints and nothing that was measured."""
    found = (
        sorted(predict.families_near(path), key=lambda one: -len(one.names))
        if path.is_dir() and not is_own_folder(path)
        else []
    )
    if not found:
        return None
    which = ["--checkpoints", found[0].pattern] * (len(found) > 1)
    asked = ["--function", FUNCTION, "--domains", "val", *which, "-o", _free("preds")]
    line = _line(["predict", str(path), *asked]).removeprefix("Next: ")
    held = counted(len(found[0].names), "checkpoint")
    return InputError(
        f"{path} holds {held} ({found[0].names[0]} …) and no log. Evaluate them first: {line}",
        code="missing",
    )


def after_choice(selection: Selection, file: Path, given: Sequence[str]) -> list[str]:
    """The command that takes ``choice.json``, where it can work."""
    last = _model(selection)
    if "--validation" in given or not last:
        return []
    return [_line(["deploy", str(file), *_plugins(given), *last])]


def _model(selection: Selection) -> list[str]:
    """What ``deploy`` can write: a model where its weights are there, else its calibrator."""
    from checkwise.deployed import readable  # with the calibrators, which a log does not need

    path, examples = Path(selection.path or ""), selection.trajectory.examples
    if selection.path and path.exists() and readable(path):
        return ["-o", _free("model")]
    logits = examples is not None and examples.has_logits
    return ["--calibrator-only", "-o", _free("calibrator", ".json")] if logits else []


def _plugins(given: Sequence[str]) -> list[str]:
    return [word for pair in pairwise(given) if pair[0] == "--plugin" for word in pair]


def _line(*commands: Sequence[str]) -> str:
    return f"Next: {' && '.join(shlex.join(('checkwise', *words)) for words in commands)}"


def _free(name: str, suffix: str = "") -> str:
    """A name that nothing has here."""
    names = (f"{name}{f'-{number}' * (number > 1)}{suffix}" for number in count(1))
    return next(free for free in names if not os.path.lexists(free))


def unmatched(selection: Selection, source: Path, choice: Choice, reading: Reading) -> str:
    """The files near a log that could be its checkpoints, and the option that makes them so."""
    run = selection.trajectory
    if not run.columns or any(run.paths or ()) or reading.checkpoints:
        return ""
    first = run.logged[0] if run.logged else int(run.steps[0])
    fitting = []
    for family in predict.families_near(source if source.is_dir() else source.parent):
        ways: dict[str, Selection] = {}
        for pattern in _ways_to_count(family.pattern, first):
            if chosen := _chosen_by(pattern, source, choice, reading):
                ways[pattern] = chosen
        whole = {
            pattern: chosen
            for pattern, chosen in ways.items()
            if len({*(chosen.trajectory.paths or ())} - {None}) == len(family.names)
        }
        if whole or family.pattern in ways:
            fitting.append((len(family.names), whole or ways))
    if len(fitting) != 1:
        return ""
    ((found, ways),) = fitting
    look = "file looks like a checkpoint" if found == 1 else "files look like checkpoints"
    each = [
        f"{shlex.quote(pattern)} if names count {_counted(pattern)} the log (step {chosen.step})"
        for pattern, chosen in ways.items()
    ]
    how = shlex.quote(*ways) if len(ways) == 1 else ", ".join(each)
    return f"{found} {look}: add --checkpoints {how}"


def _ways_to_count(pattern: str, first: int) -> list[str]:
    """A pattern for names that count one more than a log, as it does, and one less.

    Names count from 0 or from 1, as Keras' do beside a log from 0; a log that begins later may be
    of a resumed training.
    """
    offsets = {0: ("+1", ""), 1: ("", "-1")}.get(first, ("+1", "", "-1"))
    ways = [pattern]
    for name in ("step", "epoch"):
        numbers = [f"{{{name}{offset}}}" for offset in offsets]
        ways = [way.replace(f"{{{name}}}", number) for number in numbers for way in ways]
    return list(dict.fromkeys(ways))


def _counted(pattern: str) -> str:
    if "+1}" in pattern:
        return "one more than"
    return "one less than" if "-1}" in pattern else "as"


def _chosen_by(pattern: str, source: Path, choice: Choice, reading: Reading) -> Selection | None:
    """What is chosen with a pattern, if it can be used."""
    with suppress(CheckwiseError), warnings.catch_warnings(action="ignore"):
        runs = [*replace(reading, checkpoints=pattern).load_runs(source, choice).values()]
        return select(runs[0], choice) if len(runs) == 1 else None
    return None
