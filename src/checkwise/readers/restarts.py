"""A run that was started more than once into one log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.readers.json_lines import Line, whole

# Arguments that change what is measured; a re-run may differ in the others (device, folders).
SETTINGS = ("seed", "holdout_fraction", "uda_holdout_fraction", "task")


def latest(lines: Sequence[Line], path: Path) -> tuple[list[Line], tuple[str, ...]]:
    """One record per step in order of steps: the last one logged, as its weights are the ones
    still on disk."""
    by_step: dict[int, Line] = {}
    repeated: set[int] = set()
    for line in lines:
        step = whole(line, "step", path)
        if step in by_step:
            _check_same_settings(by_step[step], line, path)
            repeated.add(step)
        by_step[step] = line
    ordered = [by_step[step] for step in sorted(by_step)]
    if not repeated:
        return ordered, ()
    note = (
        f"{len(repeated)} of {len(ordered)} steps were logged more than once (a re-run); "
        "the last record of each is read"
    )
    last = whole(lines[-1], "step", path)
    if last < max(by_step):
        note += f"; steps after {last} come from an earlier attempt"
    return ordered, (note,)


def _check_same_settings(before: Line, after: Line, path: Path) -> None:
    old, new = _settings(before), _settings(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            raise InputError(
                f"Expected one configuration per run, but {path} line {before.number} has {name} = "
                f"{old.get(name)!r:.40} and line {after.number} has {new.get(name)!r:.40} at the "
                "same step: keep the lines of one of them.",
                code="ambiguous",
            )


def _settings(line: Line) -> dict[str, Any]:
    args, hparams = line.fields.get("args"), line.fields.get("hparams")
    settings: dict[str, Any] = {}
    if isinstance(args, dict):
        settings.update({name: args.get(name) for name in SETTINGS})
    if isinstance(hparams, dict):
        settings.update({f"hparams.{name}": value for name, value in hparams.items()})
    return settings
