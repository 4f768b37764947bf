"""``checkwise select``: one checkpoint per run, and why."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import answer, browser, printing
from checkwise.cli.command import OUTPUT, PATH, argument, command, option, takes
from checkwise.cli.input_options import Reading
from checkwise.cli.json_output import print_json
from checkwise.cli.next_steps import after_choice, next_steps
from checkwise.cli.options import force_option, json_option, open_option, out_option
from checkwise.cli.printing import csv_text
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import Choosing
from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError
from checkwise.predict.checkpoints import families_near
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, select, select_many
from checkwise.selection.best_run import best_run
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.tolerances import ALPHA
from checkwise.store.atomic_write import write_text
from checkwise.text import printable

if TYPE_CHECKING:
    import pandas


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
    fitting = {}
    for family in families_near(source if source.is_dir() else source.parent):
        typed = Reading(**{**vars(reading), "checkpoints": family.pattern})
        with suppress(CheckwiseError), warnings.catch_warnings(action="ignore"):
            typed.load_runs(source, choosing)
            fitting[family.pattern] = len(family.names)
    if len(fitting) != 1:
        return ""
    ((pattern, count),) = fitting.items()
    look = "file looks like a checkpoint" if count == 1 else "files look like checkpoints"
    return f"{count} {look}: add --checkpoints {shlex.quote(pattern)}"


def _copy(only: Found, to: Path, *, force: bool) -> list[str]:
    from checkwise.cli.copying import copy_chosen

    return [f"Copied to {copy_chosen(only.source, only.selection, to, force=force)}."]


def _weights(found: Sequence[Found]) -> list[Path]:
    """The checkpoints of every run."""
    return [Path(path) for one in found for path in one.selection.trajectory.paths or () if path]


def _check_places(
    read: Sequence[Path], files: Sequence[Path | None], copy_to: Path | None, *, force: bool
) -> None:
    """Refuse, before anything is said, what must not be written over."""
    from checkwise.cli.copying import is_copy

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
