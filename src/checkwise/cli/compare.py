"""``checkwise compare``: rules against a reference, paired by run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.importing import ImportTo, cohort_at
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, ValidationSet
from checkwise.cli.printing import csv_text
from checkwise.cli.rule_options import RuleOptions
from checkwise.errors import InputError
from checkwise.extras import require
from checkwise.metrics import METRICS
from checkwise.page import sentences
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.set_as import plain
from checkwise.statistics.bootstrap import LEVEL, RESAMPLES, SEED
from checkwise.store.atomic_write import write_text
from checkwise.store.validation import check_validation
from checkwise.study import Cohort, Contrast, contrast_rows
from checkwise.study.cohort import MAIN_METRICS
from checkwise.study.imported import OUTSIDE_THE_SEAL
from checkwise.study.methods import method
from checkwise.study.registered import registrations

OVER = "over"
OVER_RUNS = "95% over runs"
NEW_PLACE = "95%, a new place"
CohortPath = Annotated[
    Path, typer.Argument(metavar="COHORT", help="A cohort; or a log or table, which is imported.")
]
Reference = Annotated[str, typer.Option("--reference", help="The rule that is subtracted.")]
Role = Annotated[
    str | None, typer.Option(help="Only data of this role: development or evaluation.")
]
Scope = Annotated[
    str, typer.Option(help="run; or choose hyperparameters too: hparams-acc, hparams-ac.")
]


@with_groups
def command(
    path: CohortPath,
    rules: Annotated[
        str | None,
        typer.Option(
            help="Rules and methods to compare, comma separated. "
            f"[default: {REFERENCE},{DEFAULT_RULE}, or the best rule that the data allow]"
        ),
    ] = None,
    reference: Reference = REFERENCE,
    *,
    options: RuleOptions,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="source_<metric>, target_<metric> or gap_pp, comma separated. "
            f"[default: {','.join(MAIN_METRICS)}, as far as the runs carry them]"
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Split by dataset, algorithm, held_out or a seed.")
    ] = None,
    scope: Scope = "run",
    validation: ValidationSet = None,
    role: Role = None,
    cohort: ImportTo = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", "-o", help="Also write the table: .csv or .json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare rules on held-out domains: paired differences with 95% intervals.

    Intervals are over held-out domains; where these share seeds, over blocks × domains; with fewer
    than three domains over blocks, or runs. Those over runs stand beside them.
    """
    printing.refuse_to_overwrite(path, out)
    _check_suffix(out)
    options.load_plugins()
    if metrics is not None:
        check_named(metrics, "--metrics")
    if rules is not None:
        _besides(names(rules), reference)
    require("scipy")  # before held-out results are opened
    study = Cohort.open(cohort_at(path, cohort), role=role)
    asked = [REFERENCE, study.usual_rule] if rules is None else names(rules)
    asked = [validated(name, validation) for name in asked]
    reference = validated(reference, validation)
    shown = study.main_metrics if metrics is None else names(metrics)
    rows = study.contrasts(
        asked,
        reference,
        by=names(by),
        metrics=shown,
        scope=scope,
        **options.weighting,
        **options.params,
    )
    known = registrations(
        study.path,
        _besides(asked, reference),
        options.params,
        reference=reference,
        scope=scope,
        metrics=shown,
        **options.weighting,
    )
    content = {
        **record(study, rows, reference, names(by)),
        "settings": {**_settings(options), "scope": scope},
        "registered": {rule: asdict(registration) for rule, registration in known.items()},
    }
    if out is not None:
        _write(out, content)
    if as_json:
        print_json("compare", content)
        return
    present(study, rows, names(by))
    changed = [f"{name} = {value}" for name, value in _settings(options).items()]
    if changed:
        printing.console().print(f"Settings: {', '.join(changed)}.")
    if rules is None and study.usual_rule != DEFAULT_RULE:
        printing.console().print(
            f"{study.usual_rule} is compared because the runs lack metrics that {DEFAULT_RULE} "
            "needs."
        )
    if not by:
        _say(rows)
    for rule, registration in known.items():
        printing.console().print(f"{rule}: {registration}")
    if study.imported:
        printing.console().print(OUTSIDE_THE_SEAL)
    if out is not None:
        printing.console().print(f"Written to {out}.")


def validated(name: str, validation: str | None) -> str:
    """The name of a rule that chooses by a validation set, unless it says which itself."""
    return method(name).validated_by(check_validation(validation)).name


def _besides(rules: Sequence[str], reference: str) -> list[str]:
    """The rules that are compared with the reference."""
    compared = [name for name in rules if name != reference]
    if not compared:
        raise InputError(
            f"Expected a rule besides the reference {reference}, but --rules has only that: "
            "add one."
        )
    return compared


def _settings(options: RuleOptions) -> dict[str, Any]:
    """What was set besides the defaults, as JSON keeps it."""
    set_ = {name: plain(value) for name, value in options.params.items()}
    weights = options.weighting["weights"]
    if weights != "equal":
        set_["weights"] = weights
    return {**set_, "worst_domain": True} if options.worst_domain else set_


def names(text: str | None) -> list[str]:
    """A comma-separated list."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def check_named(text: str, option: str, what: str = "one") -> None:
    """Refuse a list that names nothing."""
    if not names(text):
        raise InputError(f"Expected {option} to name at least {what}, but got none: add one.")


def check_metrics(metrics: Sequence[str]) -> None:
    """Refuse metric names that no comparison can report."""
    known = ["gap_pp", *(f"{side}_{name}" for side in ("source", "target") for name in METRICS)]
    for name in metrics:
        if name not in known:
            raise InputError(
                f"Expected metrics among {', '.join(known)}, but got {name!r}.", code="unknown"
            )


def present(cohort: Cohort, rows: Sequence[Contrast], by: Sequence[str] = ()) -> None:
    """The table, and what was left out of it."""
    out = printing.console()
    shown = OVER_RUNS if all(row.over == "runs" for row in rows) else "95% interval"
    header = (*by, "rule", "metric", "runs", "mean", shown, OVER, OVER_RUNS, NEW_PLACE)
    header = (*header, "median", "better/equal/worse", "lose ≥ 1 point")
    lines = [
        (
            *row.group,
            row.rule,
            f"{sentences.title(row.metric)} {sentences.unit(row.metric, row.scale)}".strip(),
            str(row.n),
            sentences.shown(row.mean, row.metric, signed=True),
            sentences.interval(row),
            "" if shown == OVER_RUNS else sentences.over(row),
            _over_runs(row),
            _new_place(row),
            sentences.shown(row.median, row.metric, signed=True),
            f"{row.wins}/{row.ties}/{row.losses}",
            "" if isnan(row.lose_1pp) else f"{100 * row.lose_1pp:.0f}%",
        )
        for row in rows
    ]
    header, lines = _without_empty(header, lines, (OVER, OVER_RUNS, NEW_PLACE))
    if printing.width(header, lines) > out.width:
        header = (*header[:-2], "better/\nequal/\nworse", "lose ≥\n1 point")
    out.print(printing.table(header, lines, left=(*by, "rule", "metric")))
    out.print()
    _costs(rows)
    left_out = f"{len(cohort.unfinished)} unfinished and {len(cohort.wrecked)} diverged runs"
    missing = max(row.missing for row in rows)
    out.print(
        f"Rule − {rows[0].reference}, paired by run; {cohort.role} data; {left_out} left out; "
        f"{cohort.n_diverged} diverged checkpoints"
        + (f"; {missing} pairs without a finite target value." if missing else ".")
    )
    for sentence in () if by else _coverage(rows):
        out.print(sentence)


def _over_runs(row: Contrast) -> str:
    """The interval over runs, where another one leads; with its mean, if that is another too."""
    if row.over_runs is None:
        return ""
    lead, mean = (
        sentences.shown(value, row.metric, signed=True)
        for value in (row.mean, sentences.of_runs(row))
    )
    return f"{'' if mean == lead else f'{mean} '}{sentences.ends(*row.over_runs, row.metric)}"


def _new_place(row: Contrast) -> str:
    places = row.places
    if places is None or not places.decides:
        return ""
    return sentences.ends(places.new_low, places.new_high, row.metric)


def _without_empty(
    header: tuple[str, ...], lines: list[tuple[str, ...]], may_go: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Without those columns that no row has anything in."""
    stay = [
        i for i, name in enumerate(header) if name not in may_go or any(line[i] for line in lines)
    ]
    return tuple(header[i] for i in stay), [tuple(line[i] for i in stay) for line in lines]


def _costs(rows: Sequence[Contrast]) -> None:
    """What each rule or method needs and took, where that is more than reading a log."""
    first = {row.rule: row for row in reversed(rows)}
    if all(row.needs == "logs" for row in rows):
        return
    lines = [(name, first[name].needs, _seconds(first[name])) for name in reversed(first)]
    header = ("rule", "needs", "seconds a run")
    printing.console().print(printing.table(header, lines, left=header[:2]))
    printing.console().print()
    flattered = [row.metric for row in rows if row.in_sample]
    if flattered:
        printing.console().print(
            f"{', '.join(dict.fromkeys(flattered))} of recalibrated rows are on the examples that "
            "the temperature was fitted on."
        )


def _seconds(row: Contrast) -> str:
    return "unknown" if isnan(row.seconds) else f"{row.seconds:.3g}"


def _coverage(rows: Sequence[Contrast]) -> Iterator[str]:
    """A sentence for every rule with results for fewer runs than another one has."""
    runs = {row.rule: row.n + row.missing for row in rows}
    most = max(runs.values())
    for rule, count in runs.items():
        if count < most:
            yield (
                f"{rule} has results for {count} of {most} runs; compare it only with rows over "
                "the same runs."
            )


def _say(rows: Sequence[Contrast]) -> None:
    """The answer for every rule, and the units that decide on the target metrics shown."""
    said = False
    for rule in dict.fromkeys(row.rule for row in rows):
        of_rule = sentences.on_target([row for row in rows if row.rule == rule])
        if of_rule:
            by_unit = sentences.by_unit(of_rule)
            for line in (sentences.answer(of_rule), *by_unit):
                printing.console().print(line)
            said = said or bool(by_unit)
    if said:
        printing.console().print(sentences.WHY_GROUPS)


def record(
    cohort: Cohort, rows: Sequence[Contrast], reference: str, by: Sequence[str]
) -> dict[str, Any]:
    """The stable JSON; a number that does not exist is null."""
    return {
        "schema": 1,
        "cohort": cohort.name,
        "role": cohort.role,
        "reference": reference,
        "runs": len(cohort.usable),
        "unfinished": len(cohort.unfinished),
        "wrecked": len(cohort.wrecked),
        "diverged_checkpoints": cohort.n_diverged,
        **({"imported": True} if cohort.imported else {}),
        "level": LEVEL,
        "resamples": RESAMPLES,
        "seed": SEED,
        "contrasts": [_contrast(row, by) for row in rows],
    }


def _contrast(row: Contrast, by: Sequence[str]) -> dict[str, Any]:
    return {**dict(zip(by, row.group, strict=True)), **_plain(contrast_rows.record(row))}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: _or_null(value) for name, value in facts.items()}


def _or_null(value: Any) -> Any:
    """A number that does not exist is null."""
    if isinstance(value, dict):
        return _plain(value)
    if isinstance(value, tuple):
        return [_or_null(one) for one in value]
    return None if isinstance(value, float) and isnan(value) else value


def _check_suffix(out: Path | None) -> None:
    if out is not None and out.suffix not in (".json", ".csv"):
        raise InputError(f"Expected --out to end in .json or .csv, but got {str(out)!r}.")


def _write(out: Path, content: dict[str, Any]) -> None:
    if out.suffix == ".json":
        write_text(out, json.dumps(content, indent=2, allow_nan=False) + "\n")
    else:
        import pandas

        facts = {k: content[k] for k in ("role", "unfinished", "wrecked", "resamples", "seed")}
        facts["settings"] = json.dumps(content["settings"])
        table = pandas.DataFrame(map(contrast_rows.flat, content["contrasts"])).assign(**facts)
        write_text(out, csv_text(table))
