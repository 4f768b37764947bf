"""``checkwise study register --show``: what was fixed beforehand, with the verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

from checkwise.cli import printing
from checkwise.cli.json_output import print_json, with_schema
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.page import sentences
from checkwise.store import layout
from checkwise.store.atomic_write import write_text
from checkwise.store.code_record import running_code
from checkwise.study import Cohort
from checkwise.study.contrast_results import (
    NOT_PACKED,
    ContrastResult,
    as_record,
    contrast_results,
)
from checkwise.study.registered_contrasts import RegisteredSet, registered_sets
from checkwise.text import counted, number

COLUMNS = (
    "",
    "contrast",
    "metric",
    "mean",
    "95% over places",
    "Holm p",
    "verdict",
    "detectable",
    "a new place",
    "worst place",
    "places",
    "runs",
)
NOTE = (
    "Rule − reference. Every place counts once: the runs of a place are averaged first. Intervals "
    "are 95% t intervals over places. A new place of the same kind is expected within the wider "
    "interval. Detectable: the change that would be found with 80% probability at the strictest "
    "level of Holm's method. Estimates only are not tested."
)


def show_registered(
    path: Path, digest: str | None, *, unfinished: bool, out: Path | None, as_json: bool
) -> None:
    """Show the contrasts of a log: found, contradicted or not found. Opens held-out results."""
    printing.refuse_to_overwrite(path, out)
    if out is not None and out.suffix != ".json":
        raise InputError(f"Expected -o to end in .json, but got {str(out)!r}.")
    require("scipy")  # before held-out results are opened
    cohort = Cohort.open(path)
    sets = _asked(path, digest)
    if cohort.unfinished and not unfinished:
        raise InputError(
            f"Expected all planned runs of {path} to be finished, but "
            f"{len(cohort.unfinished)} are not: finish them with `checkwise study run`, or add "
            "--unfinished to open what there is. Nothing was opened.",
            code="missing",
        )
    results = [contrast_results(cohort, one.fixed) for one in sets]
    sets = _asked(path, digest)  # now with the date of the opening
    content = {
        "cohort": cohort.name,
        "role": cohort.role,
        "runs": len(cohort.usable),
        "unfinished": len(cohort.unfinished),
        "wrecked": len(cohort.wrecked),
        "code": running_code(),
        "sets": [_record(one, found) for one, found in zip(sets, results, strict=True)],
    }
    if out is not None:
        write_text(out, json.dumps(with_schema(content), indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json("register", content)
        return
    for one, found in zip(sets, results, strict=True):
        _present(cohort, one, found)
    if out is not None:
        printing.console().print(f"Written to {out}.")


def _asked(path: Path, digest: str | None) -> list[RegisteredSet]:
    """The set with a digest; without one, all that do not repeat an earlier one."""
    sets = registered_sets(path)
    if digest is not None:
        return [one for one in sets if one.digest == digest]
    if not sets:
        raise InputError(
            f"Expected contrasts in the log of {path}, but there are none: register them with "
            f"`checkwise study register {path} --contrasts FILE.toml` before you open held-out "
            "results.",
            code="missing",
        )
    return [one for one in sets if not one.standing.earlier]


def _record(one: RegisteredSet, found: Sequence[ContrastResult]) -> dict[str, Any]:
    return {
        "title": one.fixed.title,
        "note": one.fixed.note,
        "digest": one.digest,
        "registered": asdict(one.standing),
        "registered_runs": one.runs,
        "planned": one.planned,
        "places": one.places,
        "code": one.code,
        "same_code": one.same_code,
        "same_plan": one.same_plan,
        "contrasts": [as_record(result) for result in found],
    }


def _present(cohort: Cohort, one: RegisteredSet, found: Sequence[ContrastResult]) -> None:
    out = printing.console()
    out.print(f"{one.fixed.title or cohort.name}: {one.standing}")
    lines = [_line(result) for result in found]
    out.print(printing.table(COLUMNS, lines, left=("", "contrast", "metric", "verdict")))
    out.print()
    for sentence in _remarks(cohort, one, found):
        out.print(sentence)
    out.print(NOTE)


def _line(result: ContrastResult) -> tuple[str, ...]:
    one, metric = result.planned, result.planned.metric
    worst = result.worst
    return (
        one.name,
        f"{one.row.label} − {one.against.label}",
        f"{sentences.title(metric)} {sentences.unit(metric, 1)}".strip(),
        sentences.shown(result.mean, metric, signed=True),
        _ends(result.low, result.high, metric),
        number(result.holm, 4),
        result.verdict or "–",
        sentences.shown(result.detectable, metric),
        _ends(result.new_low, result.new_high, metric),
        "" if worst is None else f"{worst[0]} {sentences.shown(worst[1], metric, signed=True)}",
        str(result.places or "–"),
        str(result.runs),
    )


def _ends(low: float, high: float, metric: str) -> str:
    return "–" if isnan(low) else sentences.ends(low, high, metric)


def _remarks(cohort: Cohort, one: RegisteredSet, found: Sequence[ContrastResult]) -> Iterator[str]:
    """What a reader has to know beside the table."""
    left = f"{len(cohort.unfinished)} unfinished and {len(cohort.wrecked)} diverged runs left out"
    yield f"{cohort.role} data, {counted(len(cohort.usable), 'run')}; {left}."
    for result in found:
        yield from _about(result)
    reasons: dict[str, list[str]] = {}
    for result in found:
        if result.reason:
            reasons.setdefault(result.reason, []).append(result.planned.name)
    for reason, named in reasons.items():
        each = "each " if reason == NOT_PACKED and len(named) > 1 else ""
        yield f"{'; '.join(named)}: {each}{reason}."
    if one.fixed.note:
        yield one.fixed.note
    yield code_line(one.code)
    if not one.same_code:
        yield f"The code that computed this table is another one: {code_line(running_code())}"
    if not one.same_plan:
        yield (
            f"{layout.COHORT} has changed since: the runs, their settings or their role are not "
            "those that were registered."
        )
    yield f"Digest: {one.digest}"


def _about(result: ContrastResult) -> Iterator[str]:
    one = result.planned
    if result.condition is not None:
        c = result.condition
        holds = "holds" if c.holds else "does not hold"
        yield (
            f"{one.name}, side condition: {sentences.title(c.metric)} not worse by "
            f"{sentences.shown(c.margin, c.metric)}: "
            f"{sentences.shown(c.mean, c.metric, signed=True)} "
            f"{_ends(c.low, c.high, c.metric)} over places; it {holds}."
        )
    if one.where is not None:
        yield (
            f"{one.name}: only runs in which the temperature of {one.where.rule} is below "
            f"{one.where.temperature_below:g}."
        )
    if one.at == "worst place" and result.runs:
        values = [f"{at} {sentences.shown(v, one.metric)}" for at, v in result.by_place.items()]
        yield f"{one.name}, the worst places: {'; '.join(values)}."
    if result.missing and result.runs:
        yield f"{one.name}: {counted(result.missing, 'run')} without a result for both rows."


def code_line(code: Mapping[str, Any]) -> str:
    """Which code a registration was made with."""
    commit = code.get("commit")
    where = f", commit {commit}" if commit else ", not a checkout"
    changed = " with changes that are not committed" if code.get("changed") else ""
    return f"Code: checkwise {code.get('version')}{where}{changed}, SHA-256 {code.get('sha256')}."
