"""``checkwise preregister``: say what will be compared before looking at unseen domains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from checkwise.cli import printing
from checkwise.cli.compare import (
    CohortPath,
    Reference,
    Scope,
    check_metrics,
    check_named,
    names,
)
from checkwise.cli.importing import ImportTo, cohort_at
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson
from checkwise.cli.registered import code_line
from checkwise.cli.rule_options import RuleOptions
from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.selection import DEFAULT_RULE, rules
from checkwise.selection.constrained import check_objectives
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.standing import domain_weights
from checkwise.store.hash_chain import Line
from checkwise.store.registration import LOG, register
from checkwise.study import Cohort
from checkwise.study.cohort import MAIN_METRICS
from checkwise.study.compared_method import Method
from checkwise.study.contrast_set import ContrastSet, read_contrasts
from checkwise.study.imported import OUTSIDE_THE_SEAL
from checkwise.study.methods import with_shared
from checkwise.study.registered import Registered, registered_last
from checkwise.study.registered_choice import SCOPE, choice_of
from checkwise.study.registered_contrasts import register_set
from checkwise.tables import TABLES
from checkwise.text import counted, listed

EQUALLY: Final = {"weights": "equal", "worst_domain": False}
LATE: Final = (
    "Held-out results of this cohort had been opened before: a registration now does not make them "
    "independent evidence."
)


@with_groups
def command(
    path: CohortPath,
    rule: Annotated[
        str | None,
        typer.Option(
            help="The rule that will be compared. "
            f"[default: {DEFAULT_RULE}, or the best rule that the data allow]"
        ),
    ] = None,
    reference: Reference = REFERENCE,
    scope: Scope = SCOPE,
    *,
    options: RuleOptions,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="What will be compared, comma separated. "
            f"[default: {','.join(MAIN_METRICS)}, as far as the runs carry them]"
        ),
    ] = None,
    tables: Annotated[
        str, typer.Option(help="Tables that will be shown, comma separated.")
    ] = "main",
    contrasts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="Register the contrasts of this file instead; `checkwise registered` shows them.",
        ),
    ] = None,
    cohort: ImportTo = None,
    as_json: AsJson = False,
) -> None:
    """Record a rule, its parameters and the source journals before held-out results are opened.

    The record goes to registrations.jsonl in the cohort and is never changed; `compare` and the
    page say whether what they show was registered before. A file of contrasts registers several
    tests at once, with the direction that is hoped for.
    """
    options.load_plugins()
    params = options.params
    study = Cohort.open(cohort_at(path, cohort))
    if contrasts is not None:
        if rule or metrics or params or options.weighting != EQUALLY or scope != SCOPE:
            raise InputError(
                "Expected --contrasts alone, because its file names rules, metrics and parameters, "
                "but got other options of a choice as well: leave them out.",
                code="unsupported",
            )
        _register_contrasts(study, read_contrasts(contrasts), as_json)
        return
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
        domain_weights(run, options.weighting["weights"])  # refuses weights that a run cannot have
    study.check_measured(row, shown)
    choice = {
        **choice_of(
            row,
            reference=against,
            scope=scope,
            **options.weighting,
        ),
        "metrics": shown,
        "tables": names(tables),
    }
    line = register(study.path, choice)
    registration = registered_last(study.path, choice)
    if as_json:
        dates = {"opened": registration.opened or None, "earlier": registration.earlier or None}
        facts = {"digest": line.digest, "state": registration.state, **dates}
        print_json("preregister", {**line.content, **facts})
        return
    _say(study.path, row.name, line, registration)
    if study.imported:
        printing.console().print(OUTSIDE_THE_SEAL)


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
        print_json("preregister", {"schema": 1, **fixed.as_dict(), **facts})
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
        out.print(f"Still to be made: checkwise derive {study.path} --method {made}")
    out.print(f"Once every run is finished: checkwise registered {study.path}")
    if found.standing.state == "late":
        out.print(LATE)


def _check(
    row: Method,
    metrics: Sequence[str],
    tables: Sequence[str],
) -> None:
    """What cannot be chosen or shown must not enter a log that nobody can correct."""
    rule = row.rule
    for name, value in ({} if rule is None else rule.complete(row.own_params)).items():
        if value is None and rule in rules().values():  # elsewhere None stands for a choice
            raise InputError(
                f"Expected --{name.replace('_', '-')}, which {row.name} needs, but got none: "
                "add it.",
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
    out.print(f"To check it later: checkwise verify {path} --registered {digest}")
