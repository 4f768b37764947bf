"""``checkwise study compare``: rules against a reference, paired by run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

from checkwise.cli import printing
from checkwise.cli.command import OUTPUT, argument, command, names, option, takes
from checkwise.cli.importing import cohort_at
from checkwise.cli.options import (
    RuleSettings,
    json_option,
    load_plugins,
    out_option,
)
from checkwise.cli.places import check_file
from checkwise.cli.printing import csv_text, json_text, or_null, print_json
from checkwise.errors import InputError, require
from checkwise.metrics import METRICS
from checkwise.selection import DEFAULT_RULE, REFERENCE, plain
from checkwise.statistics import LEVEL, RESAMPLES, SEED
from checkwise.store import write_text
from checkwise.study import (
    MAIN_METRICS,
    OUTSIDE_THE_SEAL,
    Cohort,
    Contrast,
    flat_record,
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
    "--reference NAME", f"The rule that is subtracted. [default: {REFERENCE}]", default=REFERENCE
)
metrics_option = option(
    "--metrics NAMES",
    "What is compared: source_<metric>, target_<metric> or gap_pp, comma separated. "
    f"[default: {','.join(MAIN_METRICS)}, as far as the runs carry them]",
    type=names,
)
role_option = option("--role TEXT", "Only data of this role: development or evaluation.")
scope_option = option(
    "--scope TEXT",
    "run; or choose hyperparameters too: hparams-acc, hparams-ac. [default: run]",
    default="run",
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
    "--rules NAMES",
    "Rules and methods to compare, comma separated. "
    f"[default: {REFERENCE},{DEFAULT_RULE}, or the best rule that the data allow]",
    type=names,
)
@reference_option
@metrics_option
@option("--by COLUMN", "Split by dataset, algorithm, held_out or a seed.", type=names)
@scope_option
@role_option
@takes(RuleSettings, "settings")
@option(
    "--units",
    "Every line, and what runs, seeds, splits, domains and a new place say of each.",
    under=OUTPUT,
)
@out_option.but(metavar="FILE", help="Also write every number: .csv or .json.")
@json_option
def compare_command(
    path: Path,
    rules: tuple[str, ...] | None,
    reference: str,
    metrics: tuple[str, ...] | None,
    by: tuple[str, ...] | None,
    scope: str,
    role: str | None,
    settings: RuleSettings,
    units: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare rules on the held-out domains of STUDY: paired differences with 95% intervals.

    STUDY is a study's folder; a log or a table with held-out results is imported first.
    """
    check_file(out, path, kinds=(".json", ".csv"))
    load_plugins(settings.plugin)
    by = by or ()
    if rules is not None:
        _besides(rules, reference)
    require("scipy")  # before held-out results are opened
    study = Cohort.open(cohort_at(path), role=role)
    named = (*(rules or (REFERENCE, study.usual_rule)), reference)
    *asked, reference = [method(name).name for name in named]
    shown = list(metrics or study.main_metrics)
    params, weighting = settings.params, settings.weighting
    rows = study.contrasts(
        asked, reference, by=by, metrics=shown, scope=scope, **weighting, **params
    )
    known = registrations(
        study.path,
        _besides(asked, reference),
        params,
        reference=reference,
        scope=scope,
        metrics=shown,
        **weighting,
    )
    changed = {name: plain(value) for name, value in params.items()}
    changed |= {n: value for n, value in weighting.items() if value not in ("equal", False)}
    content = {
        **record(study, rows, reference, by),
        "settings": {**changed, "scope": scope},
        "registered": {rule: asdict(registration) for rule, registration in known.items()},
    }
    if out is not None:
        write_text(out, _text(out, content))
    if as_json:
        print_json("compare", content)
        return
    present(study, rows, by, units=units)
    said: dict[str, list[str]] = {}
    for rule, registration in known.items():
        said.setdefault(str(registration), []).append(rule)
    beside = []
    if changed:
        beside.append(f"Settings: {', '.join(f'{n} = {v}' for n, v in changed.items())}.")
    if rules is None and study.usual_rule != DEFAULT_RULE:
        beside.append(
            f"{study.usual_rule} is compared because the runs lack metrics that {DEFAULT_RULE} "
            "needs."
        )
    beside += [f"{', '.join(named)}: {standing}" for standing, named in said.items()]
    beside += [OUTSIDE_THE_SEAL] * study.imported
    printing.say(*beside, *[f"Written to {out}."] * (out is not None))


def _besides(rules: Sequence[str], reference: str) -> list[str]:
    """The rules that are compared with the reference."""
    compared = [name for name in rules if name != reference]
    if not compared:
        raise InputError(
            f"Expected a rule besides the reference {reference}, but --rules has only that: "
            "add one."
        )
    return compared


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
    if not by and (of_rules := _by_rule(rows)):
        answers = {rule: sentences.in_short(of_rule) for rule, of_rule in of_rules.items()}
        several = len(answers) > 1
        printing.say(*(f"{rule}: " * several + said for rule, said in answers.items()), "")
    shown = list(rows) if units else _fitting(rows)
    header, lines = _table(shown, by, units)
    if printing.width(header, lines) > printing.console().width:
        narrow = {COUNTS: "better/\nequal/\nworse", LOSE: "lose ≥\n1 point"}
        header = tuple(narrow.get(name, name) for name in header)
    printing.say(printing.table(header, lines, left=(*by, "rule", "metric", "over")), "")
    if more := len(rows) - len(shown):
        printing.say(f"{counted(more, 'line')} more: --units shows all, -o FILE.csv writes them.")
    if units:
        printing.say(*([] if by else _by_unit(rows)), *_costs(rows))
    missing = max(row.missing for row in rows)
    pairs = f"; {missing} pairs without a finite target value" * bool(missing)
    printing.say(
        f"Rule − {rows[0].reference}, paired by run; {cohort.role} data; "
        f"{len(cohort.unfinished)} unfinished and {len(cohort.wrecked)} diverged runs left out; "
        f"{cohort.n_diverged} diverged checkpoints{pairs}."
    )
    if flattered := dict.fromkeys(row.metric for row in rows if row.in_sample):
        printing.say(
            f"{', '.join(flattered)} of recalibrated rows are on the examples that the "
            "temperature was fitted on."
        )
    if not by:
        printing.say(*_coverage(rows))


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
        sentences.shown(value, row.metric, signed=True) for value in (row.mean, row.of_runs[0])
    )
    return f"{'' if mean == lead else f'{mean} '}{sentences.ends(*row.over_runs, row.metric)}"


def _new_place(row: Contrast) -> str:
    places = row.places
    if places is None or not places.decides:
        return ""
    return sentences.ends(places.new_low, places.new_high, row.metric)


def _costs(rows: Sequence[Contrast]) -> list[Any]:
    """What each rule or method needs and took, where that is more than reading a log."""
    if all(row.needs == "logs" for row in rows):
        return []
    first = {row.rule: row for row in reversed(rows)}
    lines = [
        (name, row.needs, "unknown" if isnan(row.seconds) else f"{row.seconds:.3g}")
        for name, row in reversed(first.items())
    ]
    header = ("rule", "needs", "seconds a run")
    return [printing.table(header, lines, left=header[:2]), ""]


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


def _by_unit(rows: Sequence[Contrast]) -> Iterator[str]:
    """What each unit says on the target metrics of every rule."""
    said = {rule: sentences.by_unit(of_rule) for rule, of_rule in _by_rule(rows).items()}
    for rule, lines in said.items():
        if lines and len(said) > 1:
            yield f"{rule}:"
        yield from lines
    if any(said.values()):
        yield sentences.WHY_GROUPS


def _by_rule(rows: Sequence[Contrast]) -> dict[str, list[Contrast]]:
    """The target rows of every rule that has some."""
    of_rules: dict[str, list[Contrast]] = {}
    for row in sentences.on_target(rows):
        of_rules.setdefault(row.rule, []).append(row)
    return of_rules


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
        "contrasts": [
            {**dict(zip(by, row.group, strict=True)), **or_null(row.record())} for row in rows
        ],
    }


def _text(out: Path, content: dict[str, Any]) -> str:
    if out.suffix == ".json":
        return json_text(content)
    facts = {k: content[k] for k in ("role", "unfinished", "wrecked", "resamples", "seed")}
    facts["settings"] = json.dumps(content["settings"])
    return csv_text({**flat_record(row), **facts} for row in content["contrasts"])
