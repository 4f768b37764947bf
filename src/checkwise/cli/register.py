"""``checkwise study register``: what is fixed before held-out results are opened, and verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path
from typing import Any, Final

from checkwise.cli import printing
from checkwise.cli.command import PATH, Shared, argument, command, field, names, option, takes
from checkwise.cli.compare import (
    check_metrics,
    metrics_option,
    reference_option,
    scope_option,
)
from checkwise.cli.importing import cohort_at
from checkwise.cli.options import RuleSettings, json_option, load_plugins, out_option
from checkwise.cli.places import check_file
from checkwise.cli.printing import json_text, print_json
from checkwise.errors import InputError, require
from checkwise.metrics import METRICS
from checkwise.selection import DEFAULT_RULE, check_objectives, domain_weights, rules
from checkwise.store import COHORT_FILE, write_text
from checkwise.study import (
    NOT_PACKED,
    OUTSIDE_THE_SEAL,
    Cohort,
    ContrastResult,
    ContrastSet,
    Method,
    RegisteredSet,
    as_record,
    choice_of,
    contrast_results,
    read_contrasts,
    register_set,
    registered_as,
    registered_last,
    registered_sets,
    sentences,
    with_shared,
)
from checkwise.study.folder import LOG, register, running_code
from checkwise.study.tables import TABLES
from checkwise.words import counted, listed, number

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
LATE: Final = (
    "Held-out results of this study had been opened before: a registration now does not make them "
    "independent evidence."
)


class Registering(Shared):
    """What will be compared."""

    rule: str | None = field(
        "--rule NAME",
        "The rule that will be compared. "
        f"[default: {DEFAULT_RULE}, or the best rule that the data allow]",
    )
    reference: str = reference_option.field
    scope: str = scope_option.field
    metrics: tuple[str, ...] | None = metrics_option.field
    tables: tuple[str, ...] | None = field(
        "--tables NAMES", "Tables that will be shown, comma separated. [default: main]", type=names
    )


class Looking(Shared, under="Show what was registered"):
    """What was registered, and what came of it."""

    show: bool = field(
        "--show", "Show registered contrasts and their verdicts. This opens held-out results."
    )
    digest: str | None = field(
        "--digest TEXT",
        "Only what has this digest. Without --show: is it in the log? Opens nothing.",
    )
    unfinished: bool = field("--unfinished", "Also where planned runs are not finished.")
    out: Path | None = out_option.but("Also write what --show shows.", metavar="FILE.json").field
    as_json: bool = json_option.field


@command(
    "register",
    examples=[
        "checkwise study register out/study --rule ac-nc --delta-pp 0.5",
        "checkwise study register out/study --contrasts contrasts.toml",
        "checkwise study register out/study --show",
    ],
)
@argument("path", metavar="STUDY")
@takes(Registering, "asked")
@option(
    "--contrasts FILE.toml",
    "Register the contrasts of this file instead; --show tells what came of them.",
    type=PATH,
)
@takes(RuleSettings, "settings")
@takes(Looking, "look")
def register_command(
    path: Path,
    asked: Registering,
    contrasts: Path | None,
    settings: RuleSettings,
    look: Looking,
) -> int:
    """Record what will be compared in STUDY before its held-out results are opened.

    The rule, its parameters and the source journals go to registrations.jsonl in the study and are
    never changed; `compare` and the page say whether what they show was registered before. A file
    of contrasts registers several tests at once, with the direction that is hoped for.
    """
    load_plugins(settings.plugin)
    if not look.show and (look.unfinished or look.out is not None):
        raise InputError("Expected --show with --unfinished and -o: add it, or leave them out.")
    looks = look.show or look.digest is not None
    chosen = asked.words or replace(settings, plugin=()).words
    if (looks and (chosen or contrasts)) or (contrasts and chosen):
        alone = "--show or --digest" if looks else "--contrasts"
        raise InputError(
            f"Expected {alone} alone, but got options of a choice as well: leave them out.",
            code="unsupported",
        )
    if looks:
        return _look(path, look)
    study = Cohort.open(cohort_at(path))
    if contrasts is not None:
        _register_contrasts(study, read_contrasts(contrasts), look.as_json)
    else:
        _register_rule(study, asked, settings, look.as_json)
    return 0


def _register_rule(
    study: Cohort, asked: Registering, settings: RuleSettings, as_json: bool
) -> None:
    metrics, tables = list(asked.metrics or study.main_metrics), list(asked.tables or ["main"])
    rule = study.usual_rule if asked.rule is None else asked.rule
    params, weighting = settings.params, settings.weighting
    if asked.reference == rule:
        raise InputError(
            f"Expected a rule and another one to compare it with, but got {rule} as both: "
            "change --rule or --reference."
        )
    row, against = with_shared((rule, asked.reference), params)
    _check(row, metrics, tables)
    for run in study.usable.values():
        domain_weights(run, weighting["weights"])  # refuses weights that a run cannot have
    study.check_measured(row, metrics)
    choice = choice_of(row, reference=against, scope=asked.scope, **weighting)
    choice |= {"metrics": metrics, "tables": tables}
    line = register(study.path, choice)
    found = registered_last(study.path, choice)
    if as_json:
        dates = {"opened": found.opened or None, "earlier": found.earlier or None}
        entry = {name: value for name, value in line.content.items() if name != "schema"}
        print_json("register", {**entry, "digest": line.digest, "state": found.state, **dates})
        return
    first = "The first registration of a choice is the one that `compare` goes by."
    printing.say(
        f"{row.name}: {found}",
        f"{len(line.content['journals'])} source journals are part of the record in "
        f"{study.path}/{LOG}.",
        *_of_digest(study.path, line.digest),
        *[first] * bool(found.earlier),
        *[LATE] * (found.state == "late"),
        *[OUTSIDE_THE_SEAL] * study.imported,
    )


def _register_contrasts(study: Cohort, fixed: ContrastSet, as_json: bool) -> None:
    found = register_set(study, fixed)
    state = found.standing.state
    if as_json:
        facts = {name: getattr(found, name) for name in ("runs", "planned", "places", "code")}
        print_json("register", {**fixed.as_dict(), "digest": found.digest, "state": state, **facts})
        return
    tested = [f"{name} ({len(family)})" for name, family in fixed.families.items()]
    estimates = sum(not one.family for one in fixed.contrasts)
    made = ",".join(found.to_make)
    to_make = f"Still to be made: checkwise study derive {study.path} --method {made}"
    printing.say(
        f"{counted(len(fixed.contrasts), 'contrast')} on {counted(len(found.places), 'place')}: "
        f"tested in {listed(tested) if tested else 'no family'}, "
        f"{counted(estimates, 'estimate')} only; {found.standing}",
        f"{found.runs} of {counted(found.planned, 'planned run')} are finished; their source "
        f"journals are part of the record in {study.path}/{LOG}.",
        code_line(found.code),
        *_of_digest(study.path, found.digest),
        *[to_make] * bool(made),
        f"Once every run is finished: checkwise study register {study.path} --show",
        *[LATE] * (state == "late"),
    )


def _of_digest(path: Path, digest: str) -> tuple[str, ...]:
    return (
        f"Digest: {digest}",
        "The log alone proves no date: keep the digest in a commit message, a signed tag or a "
        "timestamp elsewhere.",
        f"To check it later: checkwise study register {path} --digest {digest}",
    )


def _check(row: Method, metrics: Sequence[str], tables: Sequence[str]) -> None:
    """What cannot be chosen or shown must not enter a log that nobody can correct."""
    rule = row.rule
    for name, value in ({} if rule is None else row.choice().completed).items():
        if value is None and rule in rules().values():  # elsewhere None stands for a choice
            raise InputError(
                f"Expected --param {name}=VALUE, which {row.name} needs, but got none: add it.",
                code="missing",
            )
    for name in check_objectives(row.params.get("objectives", ("nll",))):
        if name not in METRICS:
            raise InputError(
                f"Expected objectives among {', '.join(METRICS)}, but got {name!r}.", code="unknown"
            )
    check_metrics(metrics)
    for name in tables:
        if name not in TABLES:
            raise InputError(
                f"Expected tables among {', '.join(TABLES)}, but got {name!r}.", code="unknown"
            )


def _look(path: Path, look: Looking) -> int:
    """What was registered; 1 where what a digest names is not in the log, or came late."""
    if look.digest is None:
        _show(path, None, look)
        return 0
    digest = look.digest.strip().lower()
    what, standing = registered_as(path, digest)
    if look.show and standing.at and digest in {one.digest for one in registered_sets(path)}:
        _show(path, digest, look)
    elif look.as_json:
        print_json("register", {"digest": digest, "rule": what, **asdict(standing)})
    elif standing.state == "none":
        printing.say(
            f"{digest}: no registration in the log has this digest: the log was written anew, or "
            "the digest is that of another study. Look for a copy of the log."
        )
    else:
        printing.say(f"{digest}: {f'{what} {standing}'.strip()}")
    return 0 if standing.state == "before" else 1


def _show(path: Path, digest: str | None, look: Looking) -> None:
    """Show the contrasts of a log: found, contradicted or not found. Opens held-out results."""
    out = look.out
    check_file(out, path, kinds=(".json",))
    require("scipy")  # before held-out results are opened
    cohort = Cohort.open(path)
    sets = _asked(path, digest)
    if cohort.unfinished and not look.unfinished:
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
        write_text(out, json_text(content))
    if look.as_json:
        print_json("register", content)
        return
    for one, found in zip(sets, results, strict=True):
        lines = [_line(result) for result in found]
        printing.say(
            f"{one.fixed.title or cohort.name}: {one.standing}",
            printing.table(COLUMNS, lines, left=("", "contrast", "metric", "verdict")),
            "",
            *_remarks(cohort, one, found),
            NOTE,
        )
    if out is not None:
        printing.say(f"Written to {out}.")


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
    same = ("digest", "planned", "places", "code", "same_code", "same_plan")
    return {
        "title": one.fixed.title,
        "note": one.fixed.note,
        "registered": asdict(one.standing),
        "registered_runs": one.runs,
        **{name: getattr(one, name) for name in same},
        "contrasts": [as_record(result) for result in found],
    }


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
        reasons.setdefault(result.reason, []).append(result.planned.name)
    reasons.pop("", None)
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
            f"{COHORT_FILE} has changed since: the runs, their settings or their role are "
            "not those that were registered."
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
