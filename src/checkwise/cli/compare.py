"""``checkwise study compare``: rules against a reference, paired by run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

from checkwise.cli import printing
from checkwise.cli.command import OUTPUT, argument, command, option, takes
from checkwise.cli.importing import cohort_at, import_to_option
from checkwise.cli.options import json_option, out_option, validation_option
from checkwise.cli.printing import csv_text, print_json, with_schema
from checkwise.cli.rule_options import RuleSettings
from checkwise.errors import InputError, require
from checkwise.metrics import METRICS
from checkwise.selection import DEFAULT_RULE, REFERENCE, plain
from checkwise.statistics import LEVEL, RESAMPLES, SEED
from checkwise.store import check_validation, write_text
from checkwise.study import (
    MAIN_METRICS,
    OUTSIDE_THE_SEAL,
    Cohort,
    Contrast,
    Registered,
    contrast_rows,
    method,
    registrations,
    sentences,
)
from checkwise.words import counted

LINES = 15  # of the table, unless --units asks for all
OVER_RUNS = "95% over runs"
COUNTS, LOSE = "better/equal/worse", "lose ≥ 1 point"
BESIDE = ("median", OVER_RUNS, "95%, a new place")  # with --units

reference_option = option(
    "--reference",
    metavar="NAME",
    default=REFERENCE,
    help=f"The rule that is subtracted. [default: {REFERENCE}]",
)
metrics_option = option(
    "--metrics",
    metavar="NAMES",
    help="What is compared: source_<metric>, target_<metric> or gap_pp, comma separated. "
    f"[default: {','.join(MAIN_METRICS)}, as far as the runs carry them]",
)
role_option = option("--role", help="Only data of this role: development or evaluation.")
scope_option = option(
    "--scope",
    default="run",
    help="run; or choose hyperparameters too: hparams-acc, hparams-ac. [default: run]",
)


@command(
    "compare",
    examples=[
        "checkwise study compare out/study",
        "checkwise study compare out/study --rules ac-nc,ac-nll --by dataset -o rows.csv",
    ],
)
@argument("path", metavar="STUDY")
@option(
    "--rules",
    metavar="NAMES",
    help="Rules and methods to compare, comma separated. "
    f"[default: {REFERENCE},{DEFAULT_RULE}, or the best rule that the data allow]",
)
@reference_option
@metrics_option
@option("--by", metavar="COLUMN", help="Split by dataset, algorithm, held_out or a seed.")
@scope_option
@role_option
@validation_option.but(under="Options")
@import_to_option
@takes(RuleSettings, "settings")
@option(
    "--units",
    is_flag=True,
    under=OUTPUT,
    help="Every line, and what runs, seeds, splits, domains and a new place say of each.",
)
@out_option.but(metavar="FILE", help="Also write every number: .csv or .json.")
@json_option
def compare_command(
    path: Path,
    rules: str | None,
    reference: str,
    metrics: str | None,
    by: str | None,
    scope: str,
    role: str | None,
    validation: str | None,
    import_to: Path | None,
    settings: RuleSettings,
    units: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare rules on the held-out domains of STUDY: paired differences with 95% intervals.

    STUDY is a study's folder; a log or a table with held-out results is imported first.
    """
    printing.refuse_to_overwrite(path, out)
    _check_suffix(out)
    settings.load_plugins()
    if metrics is not None:
        check_named(metrics, "--metrics")
    if rules is not None:
        _besides(names(rules), reference)
    require("scipy")  # before held-out results are opened
    study = Cohort.open(cohort_at(path, import_to), role=role)
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
        **settings.weighting,
        **settings.params,
    )
    known = registrations(
        study.path,
        _besides(asked, reference),
        settings.params,
        reference=reference,
        scope=scope,
        metrics=shown,
        **settings.weighting,
    )
    content = {
        **record(study, rows, reference, names(by)),
        "settings": {**_settings(settings), "scope": scope},
        "registered": {rule: asdict(registration) for rule, registration in known.items()},
    }
    if out is not None:
        _write(out, content)
    if as_json:
        print_json("compare", content)
        return
    present(study, rows, names(by), units=units)
    changed = [f"{name} = {value}" for name, value in _settings(settings).items()]
    screen = printing.console()
    if changed:
        screen.print(f"Settings: {', '.join(changed)}.")
    if rules is None and study.usual_rule != DEFAULT_RULE:
        screen.print(
            f"{study.usual_rule} is compared because the runs lack metrics that {DEFAULT_RULE} "
            "needs."
        )
    _say_registered(known)
    if study.imported:
        screen.print(OUTSIDE_THE_SEAL)
    if out is not None:
        screen.print(f"Written to {out}.")


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


def _settings(given: RuleSettings) -> dict[str, Any]:
    """What was set besides the defaults, as JSON keeps it."""
    set_ = {name: plain(value) for name, value in given.params.items()}
    weighting = given.weighting
    if weighting["weights"] != "equal":
        set_["weights"] = weighting["weights"]
    return {**set_, "worst_domain": True} if weighting["worst_domain"] else set_


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


def present(
    cohort: Cohort, rows: Sequence[Contrast], by: Sequence[str] = (), *, units: bool = False
) -> None:
    """The answer, the table, and what was left out."""
    out = printing.console()
    if not by:
        _say(rows)
    shown = list(rows) if units else _fitting(rows)
    header, lines = _table(shown, by, units)
    if printing.width(header, lines) > out.width:
        narrow = {COUNTS: "better/\nequal/\nworse", LOSE: "lose ≥\n1 point"}
        header = tuple(narrow.get(name, name) for name in header)
    out.print(printing.table(header, lines, left=(*by, "rule", "metric", "over")))
    out.print()
    if len(shown) < len(rows):
        out.print(
            f"{counted(len(rows) - len(shown), 'line')} more: --units shows all, -o FILE.csv "
            "writes them."
        )
    if units and not by:
        _say_by_unit(rows)
    if units:
        _costs(rows)
    left_out = f"{len(cohort.unfinished)} unfinished and {len(cohort.wrecked)} diverged runs"
    missing = max(row.missing for row in rows)
    out.print(
        f"Rule − {rows[0].reference}, paired by run; {cohort.role} data; {left_out} left out; "
        f"{cohort.n_diverged} diverged checkpoints"
        + (f"; {missing} pairs without a finite target value." if missing else ".")
    )
    flattered = [row.metric for row in rows if row.in_sample]
    if flattered:
        out.print(
            f"{', '.join(dict.fromkeys(flattered))} of recalibrated rows are on the examples that "
            "the temperature was fitted on."
        )
    for sentence in () if by else _coverage(rows):
        out.print(sentence)


def _fitting(rows: Sequence[Contrast]) -> list[Contrast]:
    """As many rows as people read; NLL and accuracy where all metrics are too many."""
    leading = [row for row in rows if row.metric in sentences.LEADING]
    return list(rows if len(rows) <= LINES or not leading else leading)[:LINES]


def _table(
    rows: Sequence[Contrast], by: Sequence[str], units: bool
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """One interval a line; with ``units`` those that stand beside it. No empty columns."""
    over_runs = all(row.over == "runs" for row in rows)
    interval = OVER_RUNS if over_runs else "95% interval"
    usual = ("rule", "metric", "runs", "mean", interval, "" if over_runs else "over", COUNTS, LOSE)
    header = (*by, *usual, *(BESIDE if units else ()))
    lines = [_line(row, units) for row in rows]
    stay = [i for i, name in enumerate(header) if name and any(line[i] for line in lines)]
    return tuple(header[i] for i in stay), [tuple(line[i] for i in stay) for line in lines]


def _line(row: Contrast, units: bool) -> tuple[str, ...]:
    usual = (
        *row.group,
        row.rule,
        f"{sentences.title(row.metric)} {sentences.unit(row.metric, row.scale)}".strip(),
        str(row.n),
        sentences.shown(row.mean, row.metric, signed=True),
        sentences.interval(row),
        sentences.over(row),
        f"{row.wins}/{row.ties}/{row.losses}",
        "" if isnan(row.lose_1pp) else f"{100 * row.lose_1pp:.0f}%",
    )
    median = sentences.shown(row.median, row.metric, signed=True)
    return (*usual, median, _over_runs(row), _new_place(row)) if units else usual


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


def _costs(rows: Sequence[Contrast]) -> None:
    """What each rule or method needs and took, where that is more than reading a log."""
    first = {row.rule: row for row in reversed(rows)}
    if all(row.needs == "logs" for row in rows):
        return
    lines = [(name, first[name].needs, _seconds(first[name])) for name in reversed(first)]
    header = ("rule", "needs", "seconds a run")
    printing.console().print(printing.table(header, lines, left=header[:2]))
    printing.console().print()


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
    """The answer for every rule."""
    of_rules = _by_rule(rows)
    for rule, of_rule in of_rules.items():
        answer = sentences.in_short(of_rule)
        printing.console().print(answer if len(of_rules) == 1 else f"{rule}: {answer}")
    if of_rules:
        printing.console().print()


def _say_by_unit(rows: Sequence[Contrast]) -> None:
    """What each unit says on the target metrics of every rule."""
    out = printing.console()
    of_rules = _by_rule(rows)
    said = {rule: sentences.by_unit(of_rule) for rule, of_rule in of_rules.items()}
    for rule, lines in said.items():
        if lines and len(said) > 1:
            out.print(f"{rule}:")
        for line in lines:
            out.print(line)
    if any(said.values()):
        out.print(sentences.WHY_GROUPS)


def _by_rule(rows: Sequence[Contrast]) -> dict[str, list[Contrast]]:
    """The target rows of every rule that has some."""
    of_rules: dict[str, list[Contrast]] = {}
    for row in sentences.on_target(rows):
        of_rules.setdefault(row.rule, []).append(row)
    return of_rules


def _say_registered(known: Mapping[str, Registered]) -> None:
    """Whether the rules were registered, a line for all of which the same is true."""
    rules: dict[str, list[str]] = {}
    for rule, registration in known.items():
        rules.setdefault(str(registration), []).append(rule)
    for said, named in rules.items():
        printing.console().print(f"{', '.join(named)}: {said}")


def record(
    cohort: Cohort, rows: Sequence[Contrast], reference: str, by: Sequence[str]
) -> dict[str, Any]:
    """The stable JSON; a number that does not exist is null."""
    return {
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
        raise InputError(f"Expected -o to end in .json or .csv, but got {str(out)!r}.")


def _write(out: Path, content: dict[str, Any]) -> None:
    if out.suffix == ".json":
        write_text(out, json.dumps(with_schema(content), indent=2, allow_nan=False) + "\n")
    else:
        import pandas

        facts = {k: content[k] for k in ("role", "unfinished", "wrecked", "resamples", "seed")}
        facts["settings"] = json.dumps(content["settings"])
        table = pandas.DataFrame(map(contrast_rows.flat, content["contrasts"])).assign(**facts)
        write_text(out, csv_text(table))
