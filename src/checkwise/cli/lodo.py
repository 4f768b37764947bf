"""``checkwise lodo``: validate a cohort on domains that inner runs leave out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.executor_options import ExecutorOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import (
    Algorithms,
    AsJson,
    Data,
    DryRun,
    HparamsSeeds,
    Plugins,
    TrialSeeds,
    load_plugins,
)
from checkwise.cli.progress import counting, watching_runs
from checkwise.cli.sweep import report
from checkwise.selection.constrained import DELTA_PP

if TYPE_CHECKING:
    from checkwise.study import Cohort
    from checkwise.sweep.study import Study

RULES = ("lodo-acc", "ac-lodo")
SCOPES = ("run", "hparams-acc")


@with_groups
def command(
    path: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort whose runs are done.")],
    *,
    launching: ExecutorOptions,
    data: Data = None,
    algorithm: Algorithms = None,
    hparams_seed: HparamsSeeds = None,
    trial_seed: TrialSeeds = None,
    delta_pp: Annotated[
        str | None, typer.Option(help=f"Tolerance of ac-lodo in points. [default: {DELTA_PP}]")
    ] = None,
    plugin: Plugins = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Train the inner runs of COHORT beside it, in COHORT-lodo, and choose steps by them.

    An inner run leaves out a target and one further domain; how it does on the further domain is
    the validation signal. Safe to interrupt and to repeat. Results on targets stay closed.
    """
    from checkwise.plugins import check_loaded
    from checkwise.store.cohort import open_cohort
    from checkwise.store.layout import inner_path
    from checkwise.study import Cohort
    from checkwise.sweep.checks import check_sweep
    from checkwise.sweep.datasets import all_roots, read_roots
    from checkwise.sweep.executors import worker_count
    from checkwise.sweep.lodo import inner_study
    from checkwise.sweep.plan import make_cohort, plan
    from checkwise.sweep.prepare_job import prepare_with
    from checkwise.sweep.run import run_sweep
    from checkwise.sweep.study import Study

    plugins = load_plugins(plugin)
    outer = open_cohort(path)
    study = Study.from_dict(outer.study).narrowed(
        algorithms=tuple(algorithm or ()),
        hparams_seeds=tuple(hparams_seed or ()),
        trial_seeds=tuple(trial_seed or ()),
    )
    check_loaded(study.plugins, path)
    named_roots = read_roots(data or ())
    roots = all_roots(study, named_roots)
    inner = inner_study(study, roots)
    place = (
        None if dry_run else inner_path(path)
    )  # a plan may be shown of fewer runs than are there
    settings = launching.over()
    launcher = check_sweep(inner, roots, settings=settings, out=place)
    if dry_run:
        _show_plan(inner, len(plan(inner, roots)), inner_path(path), as_json=as_json)
        return 0
    cohort = make_cohort(inner, inner_path(path), roots)
    with counting("preparing data") as step:
        prepare_with(launcher, cohort, inner, roots, plugins=plugins, progress=step)
    with watching_runs() as watch:
        outcome = run_sweep(
            cohort,
            launcher,
            workers=worker_count(settings),
            roots=roots,
            plugins=plugins,
            watch=watch,
        )
    if outcome.interrupted or outcome.count("finished") < len(outcome.runs):
        return report(outcome, cohort.path)
    params = {} if delta_pp is None else {"delta_pp": delta_pp}
    opened = Cohort.open(path)
    if as_json:
        _print_json(opened, params)
    else:
        report(outcome, cohort.path)
        _present(opened, params, path)
    return 0


def _show_plan(inner: Study, runs: int, place: Path, *, as_json: bool) -> None:
    left_out = {spec.name: spec.held_out or () for spec in inner.data}
    if as_json:
        planned = {"study": inner.name, "folder": str(place), "runs": runs, "steps": inner.steps}
        print_json("lodo", {"schema": 1, **planned, "left_out": left_out})
        return
    out = printing.console()
    out.print(f"{inner.name}: {runs} inner runs of {inner.steps} updates, to be kept in {place}")
    for name, each in left_out.items():
        out.print(f"  {name}, left out together: {', '.join('+'.join(names) for names in each)}")


def _rows(cohort: Cohort, params: dict[str, Any]) -> list[tuple[str, str, Any]]:
    choices = []
    for scope in SCOPES:
        for rule in RULES:
            taken = params if rule == "ac-lodo" else {}
            choices.append((scope, rule, cohort.select(rule, scope=scope, **taken)))
    return choices


def _present(cohort: Cohort, params: dict[str, Any], path: Path) -> None:
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
    out.print(f"On unseen domains: checkwise compare {path} --rules {','.join(RULES)}")


def _print_json(cohort: Cohort, params: dict[str, Any]) -> None:

    rows = [
        {"scope": scope, "rule": rule, **record}
        for scope, rule, table in _rows(cohort, params)
        for record in table[["deployed", "step", "source_accuracy", "gap_pp"]].to_dict("records")
    ]
    print_json("lodo", {"schema": 1, "choices": rows})
