"""``checkwise select``: the choice in every run, and what is written about it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.cli import answer, places, printing
from checkwise.cli.command import OUTPUT, PATH, argument, command, option, takes
from checkwise.cli.hints import after_choice, next_steps, unmatched, without_log
from checkwise.cli.options import (
    Choosing,
    Reading,
    force_option,
    json_option,
    open_option,
    out_option,
)
from checkwise.cli.progress import counting
from checkwise.errors import CheckwiseError, CheckwiseWarning, InputError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import ACCURACY, ALPHA, Choice, Selection, best_run, select, select_many
from checkwise.store import write_text
from checkwise.words import printable


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
        s, run = self.selection, self.selection.trajectory
        facts = s.as_dict(alpha, paired=paired)
        if run.call:
            facts["call"] = run.call.format(step=s.step)
        if run.own_best is not None:
            name, step = run.own_best
            facts["own_best"] = {"name": name, "step": step}
        if sure:
            facts["sureness"] = s.sureness.as_dict()
        return {
            "run": self.key.as_dict(),
            "source": printable(str(self.source)),
            "selection": facts,
        }

    def row(self, *, source: bool) -> dict[str, Any]:
        """As a table of several runs has it."""
        s = self.selection
        facts = {**({"source": str(self.source)} if source else {}), **self.key.as_dict()}
        facts.pop("held_out", None)
        facts |= {
            "held_out": "+".join(self.key.held_out),
            "rule": s.rule,
            "step": s.step,
            "accuracy": s.accuracy,
            "gap_pp": s.gap_pp,
        }
        judged = s.judged_by
        if judged is not None and judged.metric == s.constraint != ACCURACY:
            facts |= {"constraint": judged.metric, "value": judged.value, "best": judged.best}
        return facts | {
            "score": None if s.guard_acted else s.score,
            "near_best": len(s.feasible_steps),
            "path": s.path and printable(s.path),
        }


@command(
    "select",
    examples=[
        "checkwise select lightning_logs/version_0",
        "checkwise select runs/*/metrics.csv --best --copy-to best.ckpt",
    ],
    rare=(
        *("constraint", "delta", "objectives", "direction", "param", "weights", "plugin"),
        *("source", "only_run", "validation", "include_unsaved", "force"),
    ),
)
@argument("paths", nargs=-1, required=True, metavar="PATHS...")
@takes(Choosing, "choosing")
@takes(Reading, "reading")
@option("--table", "Show every checkpoint, best first.", under=OUTPUT)
@option("-v, --verbose", "Also all notes, and the accuracy bound.", under=OUTPUT)
@option("--best", "Of several runs, answer for the best one.", under=OUTPUT)
@option("--sure", "How sure the choice is; needs predictions.", under=OUTPUT)
@option("--page FILE", "Write a page about the run.", type=PATH, under=OUTPUT)
@open_option
@out_option.but(metavar="FILE", help="choice.json, for deploy and prune; or a table, .csv.")
@option("--copy-to PATH", "Copy the chosen checkpoint.", type=PATH, under=OUTPUT)
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
    paths = list(dict.fromkeys(paths))
    places.check_file(out, *paths, kinds=(".json", ".csv"))
    places.check_file(page, *paths, makes_folder=True)
    choice = choosing.choice
    found, left_out = _found(paths, choice, reading)
    _check_places(paths, found, out, page, copy_to, force=force)

    one_of = "its path alone" if len(paths) > 1 else "--run NAME"
    leading = best_run([one.selection for one in found]) if len(found) > 1 else 0
    only = found[leading] if leading is not None and (best or len(found) == 1) else None
    if best and only is None:
        raise InputError(
            "Expected runs that can be compared for --best, but these were chosen from by other "
            "rules or on other validation sets: leave it out, or give the runs of one kind.",
            code="differs",
        )
    if only is None:
        handed = out is not None and out.suffix == ".json"
        asked_of_one = {"--page": page, "--open": show, "--copy-to": copy_to, f"-o {out}": handed}
        _refuse_several(found, asked_of_one, one_of=one_of)
    shown = found if only is None else [only]
    if sure:
        with counting("how sure, runs") as count:  # some rules take a minute a run
            for done, one in enumerate(shown):
                count(done, len(shown))
                _ = one.selection.sureness

    alpha = choice.alpha or ALPHA
    asked: dict[str, Any] = {"alpha": alpha, "paired": verbose}
    told: dict[str, Any] = {"verbose": verbose, "table": table}
    if as_json:
        entries = [one.as_dict(**asked, sure=sure and one in shown) for one in found]
        more = {"best": leading} if best else {}
        missing = {"left_out": left_out} if left_out else {}
        printing.print_json("select", {"runs": entries, **more, **missing})
    elif only is None:
        answer.show_many({o.name: o.selection for o in found}, leading, one_of=one_of, **told)
    else:
        among = f"Run: {only.name}." * (len(paths) > 1)
        if len(found) > 1:
            among = f"Best of {len(found)} runs: {only.name}, by the same rule among their choices."
        files = unmatched(only.selection, only.source, choice, reading) if only.alone else ""
        answer.show_one(only.selection, among, unmatched=files, sure=sure, alpha=alpha, **told)

    said = [f"{one.name}: " * (only is None) + str(one.selection.sureness) for one in shown * sure]
    parts: list[Callable[[], list[str]]] = []
    given = [*choosing.words, *reading.words]
    if out is not None:
        parts.append(lambda: _write(out, shown, choosing, reading, asked))
    if only is not None:
        if page is not None or show:
            parts.append(lambda: _write_page(only, page, opened=show))
        if copy_to is not None:
            from checkwise.cli.copying import copy_chosen

            copied = partial(copy_chosen, only.source, only.selection, copy_to, force=force)
            parts.append(lambda: [f"Copied to {copied()}."])
        if not (out or copy_to):
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


def _found(
    paths: Sequence[Path], choice: Choice, reading: Reading
) -> tuple[list[Found], list[dict[str, str]]]:
    """Every run of every path and the choice in it, and which of several paths are not readable."""
    runs: dict[str, tuple[Path, RunKey, bool, Trajectory]] = {}
    several = len(paths) > 1
    if several and reading.only_run is not None:
        raise InputError(
            f"Expected one path with --run, but got {len(paths)}: give that of the run alone.",
            code="ambiguous",
        )
    failed: dict[Path, CheckwiseError | OSError] = {}
    for path in paths:
        try:
            here = reading.load_runs(path, choice)
        except (CheckwiseError, OSError) as error:
            if not several:
                missing = isinstance(error, InputError) and error.code == "missing"
                raise (without_log(path) if missing else None) or error from None
            failed[path] = error
            continue
        for key, run in here.items():
            label = [key.label] * (not several or len(here) > 1)
            runs[" ".join([*[str(path)] * several, *label])] = (path, key, len(here) == 1, run)
    if not runs:
        raise next(iter(failed.values()))
    for path, why in failed.items():
        warnings.warn(f"{path} is left out: {why}", CheckwiseWarning, stacklevel=2)
    trajectories = {name: run for name, (*_, run) in runs.items()}
    if len(runs) == 1:  # a refusal need not name the run
        chosen = {name: select(run, choice) for name, run in trajectories.items()}
    else:
        chosen = select_many(trajectories, choice)
    found = [
        Found(name, path, key, alone, chosen[name]) for name, (path, key, alone, _) in runs.items()
    ]
    left_out = [{"source": printable(str(path)), "error": str(e)} for path, e in failed.items()]
    return found, left_out


def _check_places(
    paths: Sequence[Path],
    found: Sequence[Found],
    out: Path | None,
    page: Path | None,
    copy_to: Path | None,
    *,
    force: bool,
) -> None:
    """Refuse, before anything is said, what must not be written over."""
    written = [place for place in (out, page, copy_to) if place is not None]
    if len({place.resolve() for place in written}) < len(written):
        raise InputError("Expected a place of its own for each of -o, --page and --copy-to.")
    weights = [Path(path) for one in found for path in one.selection.trajectory.paths or () if path]
    for place in written:
        from checkwise.cli.copying import is_copy  # which few ask for

        if place is not copy_to or not is_copy(place):
            places.check_answer(place, [*paths, *weights], force=force)


def _refuse_several(found: Sequence[Found], asked: Mapping[str, object], *, one_of: str) -> None:
    """Refuse what is about one run."""
    for name in (name for name, value in asked.items() if value):
        page = "; a page about all is `checkwise study report`" * (name in ("--page", "--open"))
        raise InputError(
            f"Expected one run for {name}, but there are {len(found)}: add --best, or give "
            f"{one_of}{page}.",
            code="ambiguous",
        )


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
        if len(found) == 1:
            columns = found[0].selection.ranked
            cells = zip(*(column.tolist() for column in columns.values()), strict=True)
            rows = [dict(zip(columns, row, strict=True)) for row in cells]
        else:
            several = len({one.source for one in found}) > 1
            rows = [one.row(source=several) for one in found]
        write_text(out, printing.csv_text(rows))
        return said
    from checkwise.cli.handover import write_choice

    (one,) = found
    entry = one.as_dict(**asked, sure=False)
    write_choice(out, one.source, reading, choosing, entry, one.selection)
    given = [*choosing.words, *reading.words]
    return said + after_choice(one.selection, out, given)


def _write_page(found: Found, page: Path | None, *, opened: bool) -> list[str]:
    """Write the page of one run, to a temporary file where none is named, and show it if asked."""
    import tempfile

    from checkwise.page import write_page

    place = page or Path(tempfile.mkdtemp(prefix="checkwise-")) / "report.html"
    name = str(found.source) if found.alone else f"{found.source}: {found.key.label}"
    write_page(found.selection, place, name)
    if not opened:
        return [f"The page is {place.resolve()}"]
    printing.open_page(place)
    return []
