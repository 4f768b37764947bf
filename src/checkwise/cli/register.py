"""``checkwise study register``: say what will be compared before looking at unseen domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from checkwise.cli import printing
from checkwise.cli.command import PATH, argument, command, option, takes
from checkwise.cli.compare import (
    check_metrics,
    check_named,
    metrics_option,
    names,
    reference_option,
    scope_option,
)
from checkwise.cli.importing import cohort_at, import_to_option
from checkwise.cli.json_output import print_json
from checkwise.cli.options import json_option, out_option
from checkwise.cli.registered import code_line, show_registered
from checkwise.cli.rule_options import RuleSettings
from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.selection import DEFAULT_RULE, rules
from checkwise.selection.constrained import check_objectives
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.standing import domain_weights
from checkwise.store.hash_chain import Line
from checkwise.store.registration import LOG, register
from checkwise.study import Cohort
from checkwise.study.compared_method import Method
from checkwise.study.contrast_set import ContrastSet, read_contrasts
from checkwise.study.imported import OUTSIDE_THE_SEAL
from checkwise.study.methods import with_shared
from checkwise.study.registered import Registered, registered_as, registered_last
from checkwise.study.registered_choice import SCOPE, choice_of
from checkwise.study.registered_contrasts import register_set, registered_sets
from checkwise.tables import TABLES
from checkwise.text import counted, listed

LATE: Final = (
    "Held-out results of this study had been opened before: a registration now does not make them "
    "independent evidence."
)
SHOWN = "Show what was registered"


@command(
    "register",
    examples=[
        "checkwise study register out/study --rule ac-nc --delta-pp 0.5",
        "checkwise study register out/study --contrasts contrasts.toml",
        "checkwise study register out/study --show",
    ],
)
@argument("path", metavar="STUDY")
@option(
    "--rule",
    metavar="NAME",
    help="The rule that will be compared. "
    f"[default: {DEFAULT_RULE}, or the best rule that the data allow]",
)
@reference_option
@scope_option
@metrics_option
@option(
    "--tables",
    metavar="NAMES",
    default="main",
    help="Tables that will be shown, comma separated. [default: main]",
)
@option(
    "--contrasts",
    type=PATH,
    metavar="FILE.toml",
    help="Register the contrasts of this file instead; --show tells what came of them.",
)
@import_to_option
@takes(RuleSettings, "settings")
@option(
    "--show",
    is_flag=True,
    under=SHOWN,
    help="Show registered contrasts and their verdicts. This opens held-out results.",
)
@option(
    "--digest",
    under=SHOWN,
    help="Only what has this digest. Without --show: is it in the log? Opens nothing.",
)
@option("--unfinished", is_flag=True, under=SHOWN, help="Also where planned runs are not finished.")
@out_option.but(metavar="FILE.json", help="Also write what --show shows.")
@json_option
def register_command(
    path: Path,
    rule: str | None,
    reference: str,
    scope: str,
    metrics: str | None,
    tables: str,
    contrasts: Path | None,
    import_to: Path | None,
    settings: RuleSettings,
    show: bool,
    digest: str | None,
    unfinished: bool,
    out: Path | None,
    as_json: bool,
) -> int:
    """Record what will be compared in STUDY before its held-out results are opened.

    The rule, its parameters and the source journals go to registrations.jsonl in the study and are
    never changed; `compare` and the page say whether what they show was registered before. A file
    of contrasts registers several tests at once, with the direction that is hoped for.
    """
    chosen = rule or metrics or scope != SCOPE or settings.params or settings.weights != "equal"
    settings.load_plugins()
    if not show and (unfinished or out is not None):
        raise InputError("Expected --show with --unfinished and -o: add it, or leave them out.")
    if show or digest is not None:
        if chosen or contrasts or reference != REFERENCE:
            raise InputError(
                "Expected --show or --digest alone, which register nothing, but got options of a "
                "choice as well: leave them out.",
                code="unsupported",
            )
        return _look(path, digest, show, unfinished, out, as_json)
    study = Cohort.open(cohort_at(path, import_to))
    if contrasts is not None:
        if chosen:
            raise InputError(
                "Expected --contrasts alone, because its file names rules, metrics and parameters, "
                "but got other options of a choice as well: leave them out.",
                code="unsupported",
            )
        _register_contrasts(study, read_contrasts(contrasts), as_json)
        return 0
    params, weighting = settings.params, settings.weighting
    named = study.usual_rule if rule is None else rule
    if reference == named:
        raise InputError(
            f"Expected a rule and another one to compare it with, but got {reference} as both: "
            "change --rule or --reference."
        )
    row, against = with_shared((named, reference), params)
    shown = list(study.main_metrics) if metrics is None else names(metrics)
    _check(row, shown, names(tables))
    for run in study.usable.values():
        domain_weights(run, weighting["weights"])  # refuses weights that a run cannot have
    study.check_measured(row, shown)
    choice = {
        **choice_of(row, reference=against, scope=scope, **weighting),
        "metrics": shown,
        "tables": names(tables),
    }
    line = register(study.path, choice)
    registration = registered_last(study.path, choice)
    if as_json:
        dates = {"opened": registration.opened or None, "earlier": registration.earlier or None}
        facts = {"digest": line.digest, "state": registration.state, **dates}
        entry = {name: value for name, value in line.content.items() if name != "schema"}
        print_json("register", {**entry, **facts})
        return 0
    _say(study.path, row.name, line, registration)
    if study.imported:
        printing.console().print(OUTSIDE_THE_SEAL)
    return 0


def _look(
    path: Path, digest: str | None, show: bool, unfinished: bool, out: Path | None, as_json: bool
) -> int:
    """What was registered; 1 where what a digest names is not in the log, or came late."""
    if digest is None:
        show_registered(path, None, unfinished=unfinished, out=out, as_json=as_json)
        return 0
    digest = digest.strip().lower()
    what, standing = registered_as(path, digest)
    if show and standing.at and digest in {one.digest for one in registered_sets(path)}:
        show_registered(path, digest, unfinished=unfinished, out=out, as_json=as_json)
    elif as_json:
        print_json("register", {"digest": digest, "rule": what, **asdict(standing)})
    elif standing.state == "none":
        printing.console().print(
            f"{digest}: no registration in the log has this digest: the log was written anew, or "
            "the digest is that of another study. Look for a copy of the log."
        )
    else:
        printing.console().print(f"{digest}: {f'{what} {standing}'.strip()}")
    return 0 if standing.state == "before" else 1


def _register_contrasts(study: Cohort, fixed: ContrastSet, as_json: bool) -> None:
    found = register_set(study, fixed)
    if as_json:
        facts = {
            "digest": found.digest,
            "state": found.standing.state,
            "runs": found.runs,
            "planned": found.planned,
            "places": found.places,
            "code": found.code,
        }
        print_json("register", {**fixed.as_dict(), **facts})
        return
    out = printing.console()
    tested = [f"{name} ({len(family)})" for name, family in fixed.families.items()]
    estimates = sum(not one.family for one in fixed.contrasts)
    out.print(
        f"{counted(len(fixed.contrasts), 'contrast')} on {counted(len(found.places), 'place')}: "
        f"tested in {listed(tested) if tested else 'no family'}, "
        f"{counted(estimates, 'estimate')} only; "
        f"{found.standing}"
    )
    out.print(
        f"{found.runs} of {counted(found.planned, 'planned run')} are finished; their source "
        f"journals are part of the record in {study.path}/{LOG}."
    )
    out.print(code_line(found.code))
    _say_digest(study.path, found.digest)
    if found.to_make:
        made = ",".join(found.to_make)
        out.print(f"Still to be made: checkwise study derive {study.path} --method {made}")
    out.print(f"Once every run is finished: checkwise study register {study.path} --show")
    if found.standing.state == "late":
        out.print(LATE)


def _check(
    row: Method,
    metrics: Sequence[str],
    tables: Sequence[str],
) -> None:
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
    check_named(",".join(metrics), "--metrics")
    check_metrics(metrics)
    for name in tables:
        if name not in TABLES:
            raise InputError(
                f"Expected tables among {', '.join(TABLES)}, but got {name!r}.", code="unknown"
            )


def _say(path: Path, rule: str, line: Line, registration: Registered) -> None:
    out = printing.console()
    out.print(f"{rule}: {registration}")
    journals = len(line.content["journals"])
    out.print(f"{journals} source journals are part of the record in {path}/{LOG}.")
    _say_digest(path, line.digest)
    if registration.earlier:
        out.print("The first registration of a choice is the one that `compare` goes by.")
    if registration.state == "late":
        out.print(LATE)


def _say_digest(path: Path, digest: str) -> None:
    out = printing.console()
    out.print(f"Digest: {digest}")
    out.print(
        "The log alone proves no date: keep the digest in a commit message, a signed tag or a "
        "timestamp elsewhere."
    )
    out.print(f"To check it later: checkwise study register {path} --digest {digest}")
