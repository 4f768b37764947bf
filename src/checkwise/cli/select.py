"""``select --copy-to``: a copy of the chosen checkpoint as the trainer saved it, and why."""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkwise.cli import answer, browser, printing
from checkwise.cli.command import OUTPUT, PATH, argument, command, option, takes
from checkwise.cli.input_options import Reading
from checkwise.cli.options import force_option, json_option, open_option, out_option
from checkwise.cli.printing import csv_text, print_json, with_schema
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import Choosing
from checkwise.deployed import readable
from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError
from checkwise.predict import families_near
from checkwise.records import RunKey, Trajectory, groups_of
from checkwise.selection import ACCURACY, ALPHA, Selection, best_run, select, select_many
from checkwise.store import (
    CHECKPOINTS_FOLDER,
    KERAS,
    RUN_FILE,
    copy_checkpoint,
    has_file,
    is_own_folder,
    is_record,
    read_recorded,
    write_text,
)
from checkwise.words import printable

if TYPE_CHECKING:
    import pandas

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
    weights = _weights_of_choice(selection, path)
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
    if is_record(to) or path.resolve().is_relative_to(to.resolve()):
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


def _weights_of_choice(selection: Selection, run: Path) -> Path:
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
    if path.parent.name == CHECKPOINTS_FOLDER and has_file(folder, RUN_FILE):
        read_recorded(folder, f"{CHECKPOINTS_FOLDER}/{path.name}")
    return path


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


@dataclass(frozen=True)
class Found:
    """A run, where it was found, and what was chosen in it; ``alone`` is the only run there."""

    name: str
    source: Path
    key: RunKey
    alone: bool
    selection: Selection

    def as_dict(self, alpha: float, *, paired: bool, sure: bool) -> dict[str, Any]:
        """As ``--json`` has it; ``paired`` and ``sure`` may read saved predictions."""
        how_sure = {"sureness": self.selection.sureness.as_dict()} if sure else {}
        return {
            "run": self.key.as_dict(),
            "source": printable(str(self.source)),
            "selection": {**self.selection.as_dict(alpha, paired=paired), **how_sure},
        }


@command(
    "select",
    examples=[
        "checkwise select lightning_logs/version_0",
        "checkwise select runs/*/metrics.csv --best --copy-to best.ckpt",
    ],
)
@argument("paths", nargs=-1, required=True, metavar="PATHS...")
@takes(Choosing, "choosing")
@takes(Reading, "reading")
@option("--table", is_flag=True, under=OUTPUT, help="Show every checkpoint, best first.")
@option(
    "-v",
    "--verbose",
    is_flag=True,
    under=OUTPUT,
    help="Also all notes, the runner-up, a plot, the accuracy bound.",
)
@option("--best", is_flag=True, under=OUTPUT, help="Of several runs, answer for the best one.")
@option(
    "--sure",
    is_flag=True,
    under=OUTPUT,
    help="How sure the choice is; needs predictions.",
)
@option("--page", type=PATH, metavar="FILE", under=OUTPUT, help="Write a page about the run.")
@open_option
@out_option.but(
    metavar="FILE",
    help="choice.json, for deploy and prune; or a table, .csv.",
)
@option("--copy-to", type=PATH, metavar="PATH", under=OUTPUT, help="Copy the chosen checkpoint.")
@force_option.but(help="Replace a file that is there.")
@json_option
def select_command(
    paths: Sequence[Path],
    choosing: Choosing,
    reading: Reading,
    table: bool,
    verbose: bool,
    best: bool,
    sure: bool,
    page: Path | None,
    show: bool,
    out: Path | None,
    copy_to: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Choose a checkpoint of each run in PATHS: logs, tables, predictions."""
    for path in paths:
        printing.refuse_to_overwrite(path, out)
        printing.refuse_to_overwrite(path, page, make_folder=True)
    if out is not None and out.suffix not in (".json", ".csv"):
        raise InputError(f"Expected -o to end in .json or .csv, but got {str(out)!r}.")
    paths = list(dict.fromkeys(paths))
    found, left_out = _found(paths, choosing, reading)
    if len(paths) > 1:  # a name among several paths is none in its own
        reading = _of_any_name(reading)
    _check_places([*paths, *_weights(found)], [out, page], copy_to, force=force)
    leading = best_run([one.selection for one in found]) if len(found) > 1 else 0
    only = _best(found, leading) if best or len(found) == 1 else None
    if only is None:
        handed = out is not None and out.suffix == ".json"
        asked_of_one = {"--page": page, "--open": show, "--copy-to": copy_to, f"-o {out}": handed}
        _refuse_several(found, asked_of_one, one_of=_one_of(paths))
    shown = found if only is None else [only]
    if sure:
        _make_sure(shown)
    alpha = choosing.choice.alpha or ALPHA
    asked: dict[str, Any] = {"alpha": alpha, "paired": verbose}
    told: dict[str, Any] = {"verbose": verbose, "table": table, "alpha": alpha}
    if as_json:
        entries = [one.as_dict(**asked, sure=sure and one in shown) for one in found]
        more: dict[str, Any] = {"best": leading} if best else {}
        print_json(
            "select", {"runs": entries, **more, **({"left_out": left_out} if left_out else {})}
        )
    elif only is None:
        chosen = {one.name: one.selection for one in found}
        answer.show_many(chosen, leading, one_of=_one_of(paths), **told)
    else:
        among = _among(only, found, several=len(paths) > 1)
        answer.show_one(
            only.selection, among, unmatched=_unmatched(only, choosing, reading), **told
        )
    said = [f"{one.name}: " * (only is None) + str(one.selection.sureness) for one in shown * sure]
    parts: list[Callable[[], list[str]]] = []
    if out is not None:
        parts.append(lambda: _write(out, shown, choosing, reading, asked))
    if only is not None:
        if page is not None or show:
            parts.append(lambda: browser.write_page(only.selection, page, opened=show))
        if copy_to is not None:
            parts.append(lambda: _copy(only, copy_to, force=force))
        if not (out or copy_to):
            given = [*choosing.words, *reading.words]
            run = [] if only.alone else ["--run", only.key.label]
            parts.append(lambda: next_steps(only.selection, only.source, [*given, *run]))
    failed = []
    for part in parts:
        try:
            said += part()
        except CheckwiseError as error:  # the other parts are still written
            failed.append(error)
    for line in [] if as_json else said:
        printing.console().print(line)
    if failed:
        raise InputError(" ".join(map(str, failed)), code=failed[0].code)
    return 1 if left_out else 0


LeftOut = list[dict[str, str]]


def _found(
    paths: Sequence[Path], choosing: Choosing, reading: Reading
) -> tuple[list[Found], LeftOut]:
    """Every run of every path and the choice in it, and which of several paths are not readable."""
    runs: dict[str, tuple[Path, RunKey, bool, Trajectory]] = {}
    several = len(paths) > 1
    each = _of_any_name(reading) if several else reading
    failed: dict[Path, CheckwiseError | OSError] = {}
    for path in paths:
        try:
            here = each.load_runs(path, choosing)
        except (CheckwiseError, OSError) as error:
            if not several:
                raise
            failed[path] = error
            continue
        for key, run in here.items():
            label = [key.label] * (not several or len(here) > 1)
            runs[" ".join([*[str(path)] * several, *label])] = (path, key, len(here) == 1, run)
    if not runs:
        raise next(iter(failed.values()))
    for path, why in failed.items():
        warnings.warn(f"{path} is left out: {why}", CheckwiseWarning, stacklevel=2)
    if several and reading.only_run is not None:
        name = _named(reading.only_run, {name: key for name, (_, key, *_) in runs.items()})
        runs = {name: runs[name]}
    trajectories = {name: run for name, (*_, run) in runs.items()}
    if len(runs) == 1:  # a refusal need not name the run
        chosen = {name: select(run, choosing.choice) for name, run in trajectories.items()}
    else:
        chosen = select_many(trajectories, choosing.choice)
    found = [
        Found(name, path, key, alone, chosen[name]) for name, (path, key, alone, _) in runs.items()
    ]
    left_out = [{"source": printable(str(path)), "error": str(e)} for path, e in failed.items()]
    return found, left_out


def _of_any_name(reading: Reading) -> Reading:
    return Reading(**{**vars(reading), "only_run": None})


def _named(name: str, keys: Mapping[str, RunKey]) -> str:
    """The run of several paths that has a name, as printed or in its own path."""
    if name in keys:
        return name
    named = [printed for printed, key in keys.items() if name in (key.label, str(key))]
    if len(named) == 1:
        return named[0]
    shown = ", ".join((named or list(keys))[:5])
    raise InputError(
        f"Expected one run called {name!r}, but {len(named) or 'none'} of {shown} is: give its "
        "path alone, or its whole name.",
        code="ambiguous" if named else "unknown",
    )


def _one_of(paths: Sequence[Path]) -> str:
    """What answers for one run of several."""
    return "its path alone" if len(paths) > 1 else "--run NAME"


def _among(only: Found, found: Sequence[Found], *, several: bool) -> str:
    if len(found) > 1:
        return f"Best of {len(found)} runs: {only.name}, by the same rule among their choices."
    return f"Run: {only.name}." * several


def _unmatched(only: Found, choosing: Choosing, reading: Reading) -> str:
    """The files near a log that could be its checkpoints, and the option that makes them so."""
    run, source = only.selection.trajectory, only.source
    if not run.columns or any(run.paths or ()) or reading.checkpoints or not only.alone:
        return ""
    first = run.logged[0] if run.logged else int(run.steps[0])
    fitting = []
    for family in families_near(source if source.is_dir() else source.parent):
        ways: dict[str, Selection] = {}
        for pattern in _ways_to_count(family.pattern, first):
            if chosen := _chosen_by(pattern, source, choosing, reading):
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
        shlex.quote(pattern) + f" if names count {_counted(pattern)} the log (step {chosen.step})"
        for pattern, chosen in ways.items()
    ]
    return f"{found} {look}: add --checkpoints " + (
        shlex.quote(*ways) if len(ways) == 1 else ", ".join(each)
    )


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


def _chosen_by(
    pattern: str, source: Path, choosing: Choosing, reading: Reading
) -> Selection | None:
    """What is chosen with a pattern, if it can be used."""
    typed = Reading(**{**vars(reading), "checkpoints": pattern})
    with suppress(CheckwiseError), warnings.catch_warnings(action="ignore"):
        runs = [*typed.load_runs(source, choosing).values()]
        return select(runs[0], choosing.choice) if len(runs) == 1 else None
    return None


def _copy(only: Found, to: Path, *, force: bool) -> list[str]:

    return [f"Copied to {copy_chosen(only.source, only.selection, to, force=force)}."]


def _weights(found: Sequence[Found]) -> list[Path]:
    """The checkpoints of every run."""
    return [Path(path) for one in found for path in one.selection.trajectory.paths or () if path]


def _check_places(
    read: Sequence[Path], files: Sequence[Path | None], copy_to: Path | None, *, force: bool
) -> None:
    """Refuse, before anything is said, what must not be written over."""

    written = [place for place in (*files, copy_to) if place is not None]
    if len({place.resolve() for place in written}) < len(written):
        raise InputError("Expected a place of its own for each of -o, --page and --copy-to.")
    for place in written:
        if place is not copy_to or not is_copy(place):
            printing.refuse_what_is_there(place, read, force=force)


def _best(found: Sequence[Found], leading: int | None) -> Found:
    if leading is None:
        raise InputError(
            "Expected runs that can be compared for --best, but these were chosen from by other "
            "rules or on other validation sets: leave it out, or give the runs of one kind.",
            code="differs",
        )
    return found[leading]


def _refuse_several(found: Sequence[Found], asked: Mapping[str, object], *, one_of: str) -> None:
    """Refuse what is about one run."""
    for name, value in asked.items():
        if value:
            page = name in ("--page", "--open")
            other = "; a page about all is `checkwise study report`" * page
            raise InputError(
                f"Expected one run for {name}, but there are {len(found)}: add --best, or give "
                f"{one_of}{other}.",
                code="ambiguous",
            )


def _make_sure(found: Sequence[Found]) -> None:
    """Compute how sure every choice is; under some rules that takes a minute a run."""
    with counting("how sure, runs") as count:
        for done, one in enumerate(found):
            count(done, len(found))
            _ = one.selection.sureness


def _write(
    out: Path,
    found: Sequence[Found],
    choosing: Choosing,
    reading: Reading,
    asked: Mapping[str, Any],
) -> list[str]:
    """``choice.json``, or a table of checkpoints or runs."""
    said = [f"Written to {out}."]
    if out.suffix == ".csv":
        write_text(out, csv_text(_frame(found)))
        return said
    from checkwise.cli.handover import write_choice

    (one,) = found
    entries = [one.as_dict(**asked, sure=False)]
    write_choice(out, one.source, reading, choosing, entries, {one.key: one.selection})
    return said + after_choice(one.selection, out, choosing.plugin, reading.validation)


def _frame(found: Sequence[Found]) -> pandas.DataFrame:
    import pandas

    if len(found) == 1:
        return found[0].selection.table
    several = len({one.source for one in found}) > 1
    return pandas.DataFrame(
        {
            **({"source": str(one.source)} if several else {}),
            **{k: v for k, v in one.key.as_dict().items() if k != "held_out"},
            "held_out": "+".join(one.key.held_out),
            "rule": one.selection.rule,
            "step": one.selection.step,
            "accuracy": one.selection.accuracy,
            "gap_pp": one.selection.gap_pp,
            **_constraint(one.selection),
            "score": None if one.selection.guard_acted else one.selection.score,
            "near_best": len(one.selection.feasible_steps),
            "path": one.selection.path and printable(one.selection.path),
        }
        for one in found
    )


def _constraint(selection: Selection) -> dict[str, Any]:
    """The constraint that was set, where it is no accuracy."""
    judged = selection.judged_by
    if judged is None or judged.metric != selection.constraint or judged.metric == ACCURACY:
        return {}
    return {"constraint": judged.metric, "value": judged.value, "best": judged.best}
