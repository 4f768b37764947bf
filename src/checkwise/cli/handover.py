"""``choice.json``: what ``select`` hands over to ``deploy`` and ``prune``.

It holds what ``select`` was asked, its answer, and a digest of both with what was read. Whoever
takes it reads and chooses again. A file may come from anyone: no plug-in that it names is run, and
its only path is the one that was given to ``select``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkwise.cli.command import option
from checkwise.cli.hints import without_log
from checkwise.cli.options import Choosing, Reading, load_plugins
from checkwise.cli.printing import SCHEMA, json_text
from checkwise.errors import CheckwiseWarning, Code, InputError
from checkwise.records import RunKey, Trajectory, looks_held_out
from checkwise.selection import Choice, Selection, select
from checkwise.store import open_regular, parse, write_text
from checkwise.words import listed, printable, shown

LARGEST: Final = 1 << 26  # bytes; a run takes some two thousand
LONGEST: Final = 4096  # characters of a path, a pattern or a name
FIELDS: Final = {"schema", "runs", "asked", "digest"}
ASKED: Final = {"path", "reading", "choice", "plugins"}

again_option = option(
    "--again", "Take choice.json although the log changed since, and choose anew."
)


@dataclass(frozen=True)
class Taken:
    """One run, and how to choose in it; ``file`` is ``choice.json``, where that was named."""

    path: Path
    run: Trajectory
    choice: Choice
    selection: Selection
    reading: Reading
    file: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def is_here(self) -> bool:
        """Whether the user named the run, or it is below this folder or that of the file."""
        if self.file is None:
            return True
        bases = (Path(), self.file.parent)
        return any(
            all(
                Path(made(self.path)).is_relative_to(made(base))
                for made in (os.path.abspath, os.path.realpath)  # neither by .. nor by a link
            )
            for base in bases
        )


def write_choice(
    out: Path,
    path: Path,
    reading: Reading,
    choosing: Choosing,
    answer: Mapping[str, Any],
    selection: Selection,
) -> None:
    """Write ``choice.json``: what was read and how, by which rule, and the answer for one run."""
    choice = choosing.choice
    given = {
        name: value
        for name, one in Reading.declared.items()
        if (value := getattr(reading, name)) != one.default
    }
    asked = {
        "path": str(path),
        "reading": given,
        "choice": choice.as_dict(),
        "plugins": list(choosing.plugin),
    }
    key = RunKey.from_dict(answer["run"])
    digest = _digest([answer], asked, _read(path, reading, choice, key, selection))
    content = {"runs": [answer], "asked": asked, "digest": digest}
    text = json_text(content, ensure_ascii=False)
    if text != text.encode(errors="replace").decode():
        raise InputError(
            f"Expected names in UTF-8 to write down, but {printable(str(path))} is not: rename it.",
            code="unsupported",
        )
    write_text(out, text)


def take(
    path: Path,
    plugins: Sequence[str] = (),
    *,
    again: bool = False,
    checkpoints: str | None = None,
) -> Taken:
    """The one run that a path or a ``choice.json`` leads to.

    Args:
        path: of either.
        plugins: those that the user names; a file's own are never run.
        again: take a choice although something changed since.
        checkpoints: the pattern of their names, for a path; a choice has its own.
    """
    content = _content(path)
    if content is not None:
        return _read_again(path, plugins, content, again=again)
    if again:
        raise InputError(
            f"Expected choice.json for --again, but {path} is none: leave it out.",
            code="unsupported",
        )
    load_plugins(plugins)
    reading, choice = Reading(checkpoints=checkpoints), Choice()
    try:
        runs = reading.load_runs(path, choice)
    except InputError as error:
        unlike = error.code in ("missing", "format") and path.is_file()
        if path.suffix != ".json" or not unlike:
            missing = error.code == "missing"
            raise (without_log(path) if missing else None) or error from None
        raise InputError(
            f"Expected choice.json of `checkwise select`, or a run, but {path} is neither: choose "
            "with `checkwise select … -o choice.json`.",
            code=error.code,
        ) from error
    if len(runs) > 1:
        raise InputError(
            f"Expected one run in {path}, but found {len(runs)}: choose one with `checkwise select "
            f"{path} --run NAME -o choice.json`, and give that file.",
            code="ambiguous",
        )
    (run,) = runs.values()
    return Taken(path, run, choice, select(run, choice), reading)


def _read_again(
    file: Path, plugins: Sequence[str], content: Mapping[str, Any], *, again: bool
) -> Taken:
    """Read and choose again, as the file says."""
    asked, key, step = _checked(file, content)
    typed = {Path(name).name for name in plugins}
    for name in asked["plugins"]:
        if Path(name).name not in typed:
            raise InputError(
                f"Expected --plugin, because {file} was made with {shown(name)}: look at what it "
                f"is, and add --plugin {printable(name)}.",
                code="missing",
            )
    load_plugins(plugins)
    path, reading = Path(asked["path"]), _reading(file, asked["reading"])
    try:
        choice = Choice.from_dict(asked["choice"])
    except InputError as error:
        raise InputError(f"{error} ({file})", code=error.code) from None
    if not path.is_absolute() and not path.exists():
        raise InputError(
            f"Expected {path} below this folder, because {file} names it as seen from where "
            "`checkwise select` ran: go to that folder, or choose again with the whole path.",
            code="missing",
        )
    runs = reading.load_runs(path, choice)
    if key not in runs:
        raise _unlike(file, f"names a run that {path} does not have, {key.label}", code="differs")
    selection = select(runs[key], choice)
    if not again:
        digests = _read(path, reading, choice, key, selection)
        if _digest(content["runs"], asked, digests) != content["digest"]:
            raise _changed(file, f"{path}, or the file itself, changed since")
        if selection.step != step:
            raise _changed(file, f"of the checkpoints left step {selection.step} is chosen now")
    _say_consents(file, reading, runs[key].domains)
    return Taken(path, runs[key], choice, selection, reading, file)


def _say_consents(file: Path, reading: Reading, domains: Sequence[str]) -> None:
    """Say which sets were called validation although their names look held out."""
    columns = [pair for pair in reading.column if looks_held_out(pair.partition("=")[2])]
    given = [("--source", name) for name in reading.source]
    given += [("--column", pair) for pair in columns]
    if given:
        said = " ".join(f"{option} {shlex.quote(printable(value))}" for option, value in given)
        sets = listed([printable(name) for name in domains])
        warnings.warn(f"validated on {sets} ({file} says {said}).", CheckwiseWarning, stacklevel=2)


def _read(
    path: Path, reading: Reading, choice: Choice, key: RunKey, selection: Selection
) -> dict[str, str]:
    """The digest of what a run's log says, also of steps whose checkpoints are gone."""
    run = selection.trajectory
    if run.logged is not None:
        run = replace(reading, include_unsaved=True).load_runs(path, choice)[key]
    return {str(key): run.digest}


def _digest(runs: Sequence[Any], asked: Mapping[str, Any], read: Mapping[str, str]) -> str:
    text = json.dumps([runs, asked, read], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _content(file: Path) -> Mapping[str, Any] | None:
    """What a file of JSON holds that looks like a choice; None for anything else."""
    if not file.is_file() or file.suffix != ".json" or file.stat().st_size > LARGEST:
        return None
    with open_regular(file) as opened:
        raw = opened.read(LARGEST + 1)
    try:
        content = parse(raw)
    except ValueError:
        return None
    return content if isinstance(content, dict) and "asked" in content else None


def _checked(file: Path, content: Mapping[str, Any]) -> tuple[dict[str, Any], RunKey, int]:
    """What was asked, and the run and step that were chosen."""
    if type(content.get("schema")) is not int or content["schema"] != SCHEMA:
        raise _unlike(file, f"has the schema {shown(content.get('schema'))}", code="format")
    asked, runs = content["asked"], content.get("runs")
    if set(content) != FIELDS or not isinstance(content["digest"], str):
        raise _unlike(file, f"has the fields {shown(sorted(content))}")
    fits = isinstance(asked, dict) and set(asked) == ASKED
    if not fits or not _is_name(asked["path"]) or not _are_names(asked["plugins"]):
        raise _unlike(file, f"has {shown(asked)} as asked")
    match runs:
        case [{"run": dict(run), "selection": {"step": int(step)}}] if type(step) is int:
            return asked, RunKey.from_dict(run), step
    raise _unlike(file, f"has {shown(runs)} as runs, not one")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and "\0" not in value


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _reading(file: Path, given: object) -> Reading:
    """The options that say how to read: text, several of it, or a flag that is set."""
    values: dict[str, Any] = given if isinstance(given, dict) else {"reading": given}
    for name, value in values.items():
        one = Reading.declared.get(name)
        several, flag = (one is not None and one.settings.get(x) for x in ("multiple", "is_flag"))
        fits = _are_names(value) if several else value is True if flag else _is_name(value)
        if one is None or not fits:
            raise _unlike(file, f"has {shown(value)} as {shown(name)}")
    values = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
    return Reading(**values)


def _unlike(file: Path, how: str, code: Code = "damaged") -> InputError:
    return InputError(
        f"Expected what `checkwise select … -o choice.json` writes, but {file} {how}: choose again "
        "with it.",
        code=code,
    )


def _changed(file: Path, how: str) -> InputError:
    return InputError(
        f"Expected what {file} was made from, but {how}: choose again with `checkwise select`, or "
        "add --again to choose among what is there now.",
        code="differs",
    )
