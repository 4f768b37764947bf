"""Checkpoints by a pattern of the user's: ``--checkpoints 'weights.{epoch+1}.keras'``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkwise.errors import InputError
from checkwise.readers.checkpoints.folders import Numbered, matching, named_folder, names_in
from checkwise.readers.checkpoints.logged_steps import LoggedSteps, Matches
from checkwise.readers.checkpoints.names import Checkpoints, newest, shared_note, some
from checkwise.readers.checkpoints.patterns import Pattern


def by_pattern(pattern: Pattern, base: Path, log: LoggedSteps) -> Checkpoints:
    """The checkpoints that a pattern matches, below the log's folder or the current one.

    Raises:
        InputError: it matches no step of the log, or one step twice, or is one off.
    """
    files = matching(pattern, base)
    if not files and not pattern.is_absolute:
        files = matching(pattern, Path())
    matches = log.match(files)
    if not matches.files:
        raise _nothing_matches(pattern, base, log, matches)
    _check_count(pattern, files, log, matches)
    chosen, notes = {}, []
    for step, paths in matches.files.items():
        chosen[step], note = newest(paths)
        if chosen[step] is None:
            raise InputError(
                f"Expected one checkpoint of step {step}, but --checkpoints {pattern.text!r} "
                f"matches {some(paths)}: write more of the name, so that it matches one.",
                code="ambiguous",
            )
        notes += [note] if note else []
    notes += shared_note(matches)
    counting = {number.name: number.offset for number in pattern.numbers if log.are(number.name)}
    ahead = counting.get("step", counting.get("epoch", 0))
    return Checkpoints({s: p for s, p in chosen.items() if p}, tuple(notes), ahead=ahead)


def _nothing_matches(
    pattern: Pattern, base: Path, log: LoggedSteps, matches: Matches
) -> InputError:
    expected = f"Expected checkpoints that match --checkpoints {pattern.text!r}"
    if matches.shared:
        return InputError(
            f"{expected}, but the log has several steps in an epoch, and {some(matches.shared)} "
            "could be of any of them: give a pattern with {step}.",
            code="ambiguous",
        )
    if matches.unlogged:
        steps = some([str(step) for step in log.steps])
        return InputError(
            f"{expected}, but the numbers in {some(matches.unlogged)} are none that the log has "
            f"({steps}): check what they count, and write, for example, {{epoch+1}}.",
            code="missing",
        )
    folder = named_folder(pattern, base)
    names = names_in(folder)
    there = f"which holds {some(names)}" if names else "which is empty or not there"
    return InputError(
        f"{expected}, but there are none in {folder}, {there}: check the pattern, which begins at "
        "the folder of the log or at the current one.",
        code="missing",
    )


def _check_count(
    pattern: Pattern, files: Sequence[Numbered], log: LoggedSteps, matches: Matches
) -> None:
    """Refuse a number that is one off: Keras counts epochs in names from 1, in logs from 0."""
    if len(pattern.numbers) != 1 or pattern.numbers[0].is_explicit or not matches.unlogged:
        return
    name = pattern.numbers[0].name
    for offset in (1, -1):
        shifted = [Numbered(f.path, {name: f.numbers[name] - offset}) for f in files]
        if not log.match(shifted).unlogged:
            raise InputError(
                f"Expected {{{name}}} to count as the log does, but {some(matches.unlogged)} fits "
                f"only if names are {abs(offset)} {'above' if offset > 0 else 'below'} the log: "
                f"write {{{name}{offset:+d}}}, or {{{name}+0}} if they are not.",
                code="differs",
            )
