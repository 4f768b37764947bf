"""The method ``lodo`` of ``study derive``: validate on domains that inner runs leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import printing
from checkwise.cli.executor_options import ExecutorOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.options import SeedFilters
from checkwise.cli.run import report, run_study

if TYPE_CHECKING:
    from checkwise.plugins import Plugin
    from checkwise.study import Cohort
    from checkwise.sweep.study import Study

LODO = "lodo"
RULES = ("lodo-acc", "ac-lodo")
SCOPES = ("run", "hparams-acc")


def lodo(
    path: Path,
    params: Mapping[str, Any],
    *,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    only: SeedFilters,
    launching: ExecutorOptions,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Train the inner runs of a study beside it, and choose steps by them; targets stay closed.

    Args:
        path: the study, whose runs are done.
        params: of the rule ac-lodo.
        roots: where data sets are, as options say.
        plugins: what its runs were trained with.
        only: which runs.
        launching: where workers run.
        dry_run: show what would be trained.
        as_json: print for machines.
    """
    from checkwise.plugins import check_loaded
    from checkwise.store.cohort import open_cohort
    from checkwise.store.layout import inner_path
    from checkwise.study import Cohort
    from checkwise.sweep.checks import check_sweep
    from checkwise.sweep.datasets import all_roots
    from checkwise.sweep.lodo import inner_study
    from checkwise.sweep.plan import plan
    from checkwise.sweep.study import Study

    study = only.narrowed(Study.from_dict(open_cohort(path).study))
    check_loaded(study.plugins, path)
    roots = all_roots(study, roots)
    inner, place = inner_study(study, roots), inner_path(path)
    settings = launching.over()
    if dry_run:
        check_sweep(inner, roots, settings=settings, out=None)  # fewer runs than are there will do
        _show_plan(inner, len(plan(inner, roots)), place, as_json=as_json)
        return 0
    outcome = run_study(inner, place, roots, settings, plugins=plugins)
    if outcome.interrupted or outcome.count("finished") < len(outcome.runs):
        return report(outcome, place)
    opened = Cohort.open(path)
    if as_json:
        _print_json(opened, params)
    else:
        report(outcome, place)
        _present(opened, params, path)
    return 0


def _show_plan(inner: Study, runs: int, place: Path, *, as_json: bool) -> None:
    left_out = {spec.name: spec.held_out or () for spec in inner.data}
    if as_json:
        planned = {"study": inner.name, "folder": str(place), "runs": runs, "steps": inner.steps}
        print_json("derive-plan", {**planned, "left_out": left_out})
        return
    out = printing.console()
    out.print(f"{inner.name}: {runs} inner runs of {inner.steps} updates, to be kept in {place}")
    for name, each in left_out.items():
        out.print(f"  {name}, left out together: {', '.join('+'.join(names) for names in each)}")


def _rows(cohort: Cohort, params: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    choices = []
    for scope in SCOPES:
        for rule in RULES:
            taken = params if rule == "ac-lodo" else {}
            choices.append((scope, rule, cohort.select(rule, scope=scope, **taken)))
    return choices


def _present(cohort: Cohort, params: Mapping[str, Any], path: Path) -> None:
    out = printing.console()
    header = ("scope", "rule", "models", "median step", "source accuracy", "gap")
    lines = [
        (
            "every run" if scope == "run" else "best hyperparameters",
            rule,
            str(len(table)),
            f"{table['step'].median():.0f}",
            f"{100 * table['source_accuracy'].mean():.2f}",
            f"{table['gap_pp'].mean():.2f}",
        )
        for scope, rule, table in _rows(cohort, params)
    ]
    out.print(printing.table(header, lines, left=("scope", "rule")))
    out.print(f"On unseen domains: checkwise study compare {path} --rules {','.join(RULES)}")


def _print_json(cohort: Cohort, params: Mapping[str, Any]) -> None:
    rows = [
        {"scope": scope, "rule": rule, **record}
        for scope, rule, table in _rows(cohort, params)
        for record in table[["deployed", "step", "source_accuracy", "gap_pp"]].to_dict("records")
    ]
    print_json("derive-lodo", {"choices": rows})
