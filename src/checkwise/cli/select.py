"""``checkwise select``: one checkpoint per run, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise.cli import bound, browser, printing
from checkwise.cli.input_options import InputOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.next_steps import next_steps
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, ValidationSet
from checkwise.cli.picture import picture
from checkwise.cli.printing import csv_text
from checkwise.cli.progress import counting
from checkwise.cli.rule_options import RuleName, RunRuleOptions
from checkwise.errors import InputError
from checkwise.metrics.settings import error_level
from checkwise.records import RunKey, Trajectory
from checkwise.records.source_rows import ONLY_DOMAIN
from checkwise.selection import Guarantee, Selection, select, select_many
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.default_rule import REFERENCE
from checkwise.selection.explain import headline, reasons, remedy, validation
from checkwise.selection.saturation import FEW_ERRORS, WITHIN_PP, guarded_answer
from checkwise.selection.set_as import in_words, not_usual
from checkwise.selection.sureness import Sureness
from checkwise.selection.tolerances import ALPHA, FIXED
from checkwise.store.atomic_write import write_text
from checkwise.text import points, printable

if TYPE_CHECKING:
    import pandas

SHOWN = 12
HEADER = ("step", "accuracy", "gap", "eligible", "source-acc step")
JUDGED_HEADER = ("step", "judged by", "value", "gap", "eligible", "source-acc step")


@with_groups
def command(
    path: Annotated[
        Path,
        typer.Argument(
            help="A log, a run's folder, a folder of runs, a table, or saved predictions."
        ),
    ],
    rule: RuleName = None,
    *,
    options: RunRuleOptions,
    inputs: InputOptions,
    validation: ValidationSet = None,
    guarantee: Annotated[
        bool,
        typer.Option(
            "--guarantee",
            help="Print the accuracy bound at level --alpha, with its conditions; --alpha alone "
            "prints it too.",
        ),
    ] = False,
    sure: Annotated[
        bool,
        typer.Option(
            "--sure",
            help="Say how often the same checkpoint is chosen on other validation examples, and "
            "how many more would help; needs saved logits.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", "-o", help="Also write the result: .json or .csv."),
    ] = None,
    plot: Annotated[
        bool | None,
        typer.Option(
            "--plot/--no-plot",
            help="Draw the scores of one run, the tolerance and the choice. [default: in a "
            "terminal]",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the page of one run in the browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose a checkpoint of every run in PATH by its validation results, and say where it is."""
    printing.refuse_to_overwrite(path, out)
    level = ALPHA if options.alpha is None else error_level(options.alpha)
    stated = guarantee or (options.alpha is not None and options.tolerance in (None, FIXED.name))
    runs = inputs.load_runs(path, rule, options, validation)
    options = _choosing(options)
    asked = {**options.weighting, **options.params}
    if len(runs) == 1:  # a refusal need not name the run
        chosen = {key: select(run, rule, **asked) for key, run in runs.items()}
    else:
        chosen = select_many(runs, rule, **asked)
    sureness = _sureness(chosen) if sure else {}
    if out is not None:
        _write(out, chosen, level, stated)
    if as_json:
        print_json("select", record(chosen, level, stated, sureness))
    elif len(chosen) == 1:
        _show_one(next(iter(chosen.values())), level, stated, plot=plot)
    else:
        _show_many(chosen, _usual(runs, options.weighting))
        if stated:
            printing.console().print(f"\n{bound.said_of_many(chosen.values(), level)}")
    for key, said in {} if as_json else sureness.items():
        printing.console().print(f"{f'{key.label}: ' if len(chosen) > 1 else ''}{said}")
    if out is not None and not as_json:
        printing.console().print(f"Written to {out}.")
    if len(chosen) == 1 and not as_json and validation is None:  # of which others know nothing
        given = [*(["--rule", rule] if rule else []), *options.words, *inputs.words]
        for line in next_steps(next(iter(chosen.values())), path, given):
            printing.console().print(line)
    if show:
        browser.show_run(chosen, rule, asked)


def _choosing(options: RunRuleOptions) -> RunRuleOptions:
    """What the rule goes by; without a tolerance that has a level, alpha is the bound's."""
    with_level = options.params.get("tolerance", FIXED.name) != FIXED.name
    return options if with_level else replace(options, alpha=None)


def _usual(
    runs: Mapping[RunKey, Trajectory], weighting: Mapping[str, Any]
) -> dict[RunKey, Selection]:
    """What people choose by accuracy, for the runs that have it."""
    with_accuracy = {key: run for key, run in runs.items() if ACCURACY in run.metrics}
    return select_many(with_accuracy, REFERENCE, **weighting)


def _sureness(chosen: Mapping[RunKey, Selection]) -> dict[RunKey, Sureness]:
    """How sure every choice is; under some tolerances and rules that takes a minute a run."""
    found: dict[RunKey, Sureness] = {}
    with counting("how sure, runs") as count:
        for done, (key, one) in enumerate(chosen.items()):
            count(done, len(chosen))
            found[key] = one.sureness
    return found


def record(
    chosen: Mapping[RunKey, Selection],
    alpha: float,
    paired: bool,
    sureness: Mapping[RunKey, Sureness] | None = None,
) -> dict[str, Any]:
    """The stable JSON: an object for one run, a list for many.

    The paired bound of one run is added where it is asked for, as it may read saved predictions.
    """

    def sure(key: RunKey) -> dict[str, Any]:
        return {"sureness": sureness[key].as_dict()} if sureness else {}

    if len(chosen) == 1:
        key, one = next(iter(chosen.items()))
        return {**one.as_dict(alpha, paired=paired), **sure(key)}
    return {
        "schema": 1,
        "runs": [
            {"run": key.as_dict(), "selection": {**selection.as_dict(alpha), **sure(key)}}
            for key, selection in chosen.items()
        ],
    }


def _show_one(
    selection: Selection, alpha: float, stated: bool, *, plot: bool | None = None
) -> None:
    out = printing.console()
    out.print(headline(selection))
    if left := _settings_left(selection):
        out.print(left)
    drawn = plot or (plot is None and out.is_terminal)
    if drawn and (lines := picture(selection, out.width, encoding=out.encoding)):
        out.print(lines)
    if answer := guarded_answer(selection):
        out.print(answer)
    for note in selection.trajectory.notes:
        out.print(f"note: {note}")
    judged = ACCURACY if selection.judged_by is None else selection.judged_by.metric
    metrics = [name for name in selection.trajectory.metrics if name != judged]
    header, rows = _ranking(selection, metrics)
    beside = [name for name in metrics if name not in selection.looked_at]
    without: list[str] = []
    while beside and printing.width(header, rows) > out.width:
        without.insert(0, beside.pop())
        header, rows = _ranking(selection, [name for name in metrics if name not in without])
    out.print(printing.table(header, rows, bold=0))
    hidden = len(selection.trajectory) - len(rows)
    left_out = [f"{hidden} more"] * (hidden > 0) + [", ".join(without)] * bool(without)
    if left_out:
        out.print(f"… and {', and '.join(left_out)} (--out FILE.csv writes all)")
    out.print()
    out.print(reasons(selection))
    if stated:
        out.print(f"\n{bound.said(selection, alpha)}")
    elif isinstance(bound.bound_of(selection, alpha), Guarantee):
        out.print(bound.POINTER)
    if selection.path is not None:
        out.print(f"Checkpoint: {selection.path}")
    elif selection.trajectory.columns:
        ahead = selection.trajectory.names_ahead
        of_log = f"{selection.step} in the log, and one more in its trainer's names; " * bool(ahead)
        out.print(
            f"No checkpoint was found near the log: restore that of step {selection.step + ahead} "
            f"({of_log}--checkpoints says where they are)."
        )


def _settings_left(selection: Selection) -> str:
    """What the run was trained with, where a rule that was named goes by other settings."""
    before = selection.trajectory.chosen_by
    if selection.reason or not before or not_usual(before) == not_usual(selection.settings):
        return ""
    return (
        f"note: the run was set to {in_words(before)}; with --rule the settings are those of this "
        "command alone"
    )


def _ranking(
    selection: Selection, metrics: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the best few checkpoints."""
    ranked, judged = selection.ranked, selection.judged_by
    shown = range(min(SHOWN, len(selection.trajectory)))
    leading: list[tuple[str, list[str]]] = []
    if judged is not None and judged.metric == ACCURACY:
        leading = [
            ("accuracy", [f"{100 * ranked['accuracy'][i]:.2f}" for i in shown]),
            ("gap", [f"{ranked['gap_pp'][i]:.2f}" for i in shown]),
        ]
    elif judged is not None:
        values = ranked[judged.metric]
        leading = [
            (judged.metric, [f"{values[i]:.4g}" for i in shown]),
            ("gap", [f"{abs(values[i] - judged.best):.4g}" for i in shown]),
        ]
    if not selection.guard_acted:  # which ranks by time
        scores = [f"{ranked['score'][i]:.4g}" if ranked["feasible"][i] else "-" for i in shown]
        leading.append(("score", scores))
    header = ("rank", "step", *(name for name, _ in leading), *metrics)
    rows = [
        (
            str(ranked["rank"][i]),
            str(ranked["step"][i]),
            *(cells[i] for _, cells in leading),
            *(f"{ranked[name][i]:.4g}" if name in ranked else "-" for name in metrics),
        )
        for i in shown
    ]
    return header, rows


def _show_many(chosen: Mapping[RunKey, Selection], usual: Mapping[RunKey, Selection]) -> None:
    out = printing.console()
    lines = Counter(headline(selection) for selection in chosen.values())
    for line, times in lines.items():
        out.print(line if len(lines) == 1 else f"{times} of {len(chosen)} runs: {line}")
    if few := sum(selection.guard_acted for selection in chosen.values()):
        out.print(
            f"{few} of {len(chosen)} runs: the best checkpoint has {FEW_ERRORS} validation errors "
            "or fewer, too few to rank checkpoints by their probabilities; the earliest within "
            f"{points(WITHIN_PP)} of the best was taken (--no-guard: the rule's own choice)."
        )
    rules = {selection.rule for selection in chosen.values()}
    by_accuracy = all(_judged_by(selection) == ACCURACY for selection in chosen.values())
    names = HEADER if by_accuracy else JUDGED_HEADER
    checkpoints = {key: _checkpoint(selection) for key, selection in chosen.items()}
    last = ("checkpoint",) * any(checkpoints.values())
    header = ("run", *(("rule",) * (len(rules) > 1)), *names, *last)
    rows = [
        (
            key.label,
            *((selection.rule,) * (len(rules) > 1)),
            str(selection.step),
            *_judgement(selection, by_accuracy=by_accuracy),
            str(len(selection.eligible_steps)),
            str(usual[key].step) if key in usual else "-",
            *((checkpoints[key] or "-",) * len(last)),
        )
        for key, selection in sorted(chosen.items())
    ]
    out.print(printing.table(header, rows, left=("run", "rule", "judged by", "checkpoint")))
    out.print()
    notes = Counter(note for selection in chosen.values() for note in selection.notes)
    for note, times in notes.items():
        out.print(f"note ({times} of {len(chosen)} runs): {note}")
    for line in _validation(chosen.values()):
        out.print(line)
    alone = sum(len(selection.eligible_steps) == 1 for selection in chosen.values())
    gaps = [s.gap_pp for s in chosen.values() if s.gap_pp is not None]
    mean_gap = f"mean gap {sum(gaps) / len(gaps):.2f} points; " if by_accuracy else ""
    out.print(
        f"{len(chosen)} runs: {mean_gap}"
        f"{alone} had a single eligible checkpoint.{_disagreement(chosen, usual)}"
    )
    for line in dict.fromkeys(remedy(selection) for selection in chosen.values()):
        if line:
            out.print(line)


def _checkpoint(selection: Selection) -> str:
    """Where the checkpoint is that was chosen from a trainer's log."""
    return selection.path or "" if selection.trajectory.columns else ""


def _judged_by(selection: Selection) -> str:
    return "" if selection.judged_by is None else selection.judged_by.metric


def _judgement(selection: Selection, *, by_accuracy: bool) -> tuple[str, ...]:
    """How near the best a choice is: by accuracy in points, else by the score that is named."""
    judged = selection.judged_by
    if judged is None:
        return ("-", "-", "-")
    if judged.metric != ACCURACY:
        return (judged.metric, f"{judged.value:.4g}", f"{judged.gap:.4g}")
    cells = (f"{100 * judged.value:.2f}", f"{selection.gap_pp:.2f}")
    return cells if by_accuracy else (ACCURACY, *cells)


def _validation(selections: Collection[Selection]) -> list[str]:
    """The validation sets behind the rows: once where all runs share them."""
    sets = Counter(validation(selection.trajectory.domains) for selection in selections)
    if len(sets) == 1:
        return [line for line in sets if line]
    if len(sets) > SHOWN:
        return [f"validation: {len(sets)} sets of domains (--json names those of every run)"]
    named = {line or f"validation: {ONLY_DOMAIN}": times for line, times in sets.items()}
    return [f"{line} ({times} of {len(selections)} runs)" for line, times in named.items()]


def _disagreement(chosen: Mapping[RunKey, Selection], usual: Mapping[RunKey, Selection]) -> str:
    names = dict.fromkeys(selection.rule for selection in chosen.values())
    names.pop(REFERENCE, None)
    if not names or not usual:
        return ""
    differ = sum(chosen[key].step != selection.step for key, selection in usual.items())
    return f" {' or '.join(names)} differs from source-acc in {differ}."


def _write(out: Path, chosen: Mapping[RunKey, Selection], alpha: float, paired: bool) -> None:
    if out.suffix == ".json":
        write_text(out, json.dumps(record(chosen, alpha, paired), indent=2, allow_nan=False) + "\n")
    elif out.suffix == ".csv":
        write_text(out, csv_text(_frame(chosen)))
    else:
        raise InputError(f"Expected --out to end in .json or .csv, but got {str(out)!r}.")


def _frame(chosen: Mapping[RunKey, Selection]) -> pandas.DataFrame:
    import pandas

    if len(chosen) == 1:
        return next(iter(chosen.values())).table
    return pandas.DataFrame(
        {
            **{k: v for k, v in key.as_dict().items() if k != "held_out"},
            "held_out": "+".join(key.held_out),
            "rule": selection.rule,
            "step": selection.step,
            "accuracy": selection.accuracy,
            "gap_pp": selection.gap_pp,
            **_constraint(selection),
            "score": selection.score,
            "eligible": len(selection.eligible_steps),
            "path": selection.path and printable(selection.path),
        }
        for key, selection in chosen.items()
    )


def _constraint(selection: Selection) -> dict[str, Any]:
    """The constraint that was set, where it is no accuracy."""
    judged = selection.judged_by
    if judged is None or judged.metric != selection.constraint or judged.metric == ACCURACY:
        return {}
    return {"constraint": judged.metric, "value": judged.value, "best": judged.best}
