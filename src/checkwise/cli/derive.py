"""``checkwise study derive``: averages, ensembles, and steps chosen on domains left out inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import printing
from checkwise.cli.command import argument, command, option, takes
from checkwise.cli.options import (
    RuleSettings,
    data_option,
    dry_run_option,
    force_option,
    json_option,
    load_plugins,
    names,
    plugin_option,
)
from checkwise.cli.printing import print_json
from checkwise.cli.progress import counting
from checkwise.cli.run import report, run_study
from checkwise.cli.workers import AT_LEAST_ONE, ExecutorOptions, SeedFilters
from checkwise.errors import InputError

if TYPE_CHECKING:
    from checkwise.plugins import Plugin
    from checkwise.study import Cohort
    from checkwise.study.baselines import Derived, DeriveResult
    from checkwise.study.sweep import Study

LODO = "lodo"
RULES = ("lodo-acc", "ac-lodo")
SCOPES = {"run": "every run", "hparams-acc": "best hyperparameters"}


@command(
    "derive",
    examples=[
        "checkwise study derive out --method swad,mean-probs-5",
        "checkwise study derive out/runs/RUN --method swad-nobn",
        f"checkwise study derive out --method {LODO} --workers 4",
    ],
)
@argument("path", metavar="DIR")
@option(
    "--method NAMES…",
    f"What to make, as swad,sma; or {LODO}, alone. `checkwise rules` lists them; repeatable.",
    required=True,
)
@option(
    "--minibatches N",
    "Source minibatches for BatchNorm statistics. [default: 500]",
    type=AT_LEAST_ONE,
)
@RuleSettings.declared["delta_pp"].but(under="Options")
@data_option
@plugin_option
@dry_run_option
@takes(SeedFilters, "only")
@takes(ExecutorOptions, "launching")
@force_option.but(help="Make results again that are current.")
@json_option
def derive_command(
    path: Path,
    method: tuple[str, ...],
    minibatches: int | None,
    delta_pp: str | None,
    data: tuple[str, ...],
    plugin: tuple[str, ...],
    dry_run: bool,
    only: SeedFilters,
    launching: ExecutorOptions,
    force: bool,
    as_json: bool,
) -> int:
    """Make averages and ensembles of the study in DIR, or of one run, evaluated like checkpoints.

    The method lodo trains inner runs beside the study, in DIR-lodo, and chooses steps by them: each
    leaves out a target and one further domain, and is validated on the further one. It is safe to
    interrupt and to repeat, and alone takes --dry-run and options for some runs.
    """
    from checkwise.study.sweep import read_roots

    methods = list(dict.fromkeys(name for text in method for name in names(text)))
    if not methods:
        raise InputError(
            f"Expected --method with a name, but got {', '.join(map(repr, method))}: name what to "
            "make, such as swad.",
            code="missing",
        )
    plugins = load_plugins(plugin)
    asked = {"minibatches": minibatches, "delta_pp": delta_pp}
    params = {name: value for name, value in asked.items() if value is not None}
    given = [f"--{name.replace('_', '-')}" for name in params]
    given += [flag for flag, is_given in (("--force", force), ("--dry-run", dry_run)) if is_given]
    _refuse_idle(methods, [*given, *(word for word in only.words if word.startswith("--"))])
    common: Any = {"roots": read_roots(data), "plugins": plugins, "launching": launching}
    if methods == [LODO]:
        return _lodo(path, params, only=only, dry_run=dry_run, as_json=as_json, **common)
    results = _made(path, methods, params, force=force, **common)
    if as_json:
        print_json("derive", _as_json(path, results))
    else:
        _present(path, results)
    return 0


def _refuse_idle(methods: Sequence[str], given: Sequence[str]) -> None:
    """Refuse unknown methods, and options that none of these takes."""
    if methods == [LODO]:
        flags = [word for one in SeedFilters.declared.values() for word in one.names]
        known = {"--delta-pp", "--dry-run", *flags}
    elif LODO in methods:
        raise InputError(
            f"Expected {LODO} alone, because it trains runs, but got {', '.join(methods)}: make it "
            "with a command of its own.",
            code="ambiguous",
        )
    else:
        taken = {name for method in methods for name in _taken(method)}
        known = {"--force", *(f"--{name.replace('_', '-')}" for name in taken)}
    idle = [flag for flag in given if flag not in known]
    if idle:
        raise InputError(
            f"Expected options that {', '.join(methods)} takes, but none takes {idle[0]}: leave it "
            "out.",
            code="unsupported",
        )


def _taken(method: str) -> set[str]:
    """The parameters that options set; what makes a method ``-nobn`` stays."""
    from checkwise.study import recipe_of

    params = recipe_of(method).params
    return {name for name, value in params.items() if (name, value) != ("minibatches", 0)}


def _made(
    path: Path,
    methods: Sequence[str],
    params: Mapping[str, Any],
    *,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    launching: ExecutorOptions,
    force: bool,
) -> dict[str, DeriveResult]:
    """Make the models in this process, or with workers where some were asked for."""
    from checkwise.study import DeriveJob, derive_with_workers, recipe_of
    from checkwise.study.baselines import OpenRuns, derive
    from checkwise.study.sweep import get_executor, worker_count

    settings, opening = launching.over(), OpenRuns(roots)
    results = {}
    for name in methods:
        recipe, taken = recipe_of(name), _taken(name)
        own = {p: value for p, value in params.items() if p in taken}
        if launching == ExecutorOptions():
            with counting(name) as watch:
                results[name] = derive(
                    path, name, recipe, opening=opening, force=force, watch=watch, **own
                )
            continue
        job = DeriveJob(
            cohort=str(_cohort(path).absolute()),
            path=str(path.absolute()),
            method=name,
            params=own,
            roots=roots,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
        )
        executor = get_executor(settings)
        results[name] = derive_with_workers(job, executor, worker_count(settings), force=force)
    return results


def _present(path: Path, results: dict[str, DeriveResult]) -> None:
    rows, notes = [], Counter[str]()
    for name, result in results.items():
        for record in result.records:
            notes.update(f"{name}: {note}" for note in record.notes)
            rows.append((name, str(record.run), _what(record), *_source(path, record)))
    header = ("method", "run", "made of", "source accuracy", "source NLL")
    made = [one for result in results.values() for one in result.made]
    current = sum(len(result.current) for result in results.values())
    first = next(iter(results.values()))
    printing.say(
        printing.table(header, rows, left=("method", "run", "made of")),
        *(f"{note} ({count} runs)." if count > 1 else f"{note}." for note, count in notes.items()),
        f"{len(made)} made in {fsum(one.seconds for one in made):.1f} s, {current} were current; "
        f"{len(first.unfinished)} unfinished and {len(first.wrecked)} diverged runs left out.",
        f"On unseen domains: checkwise study compare {_cohort(path)} "
        f"--rules source-acc,ac-nc,{','.join(results)}",
    )


def _as_json(path: Path, results: dict[str, DeriveResult]) -> dict[str, Any]:
    from checkwise.study.baselines import folder_of, read_source

    first = next(iter(results.values()))
    return {
        "results": [
            {
                "method": name,
                "run": record.run.as_dict(),
                "params": dict(record.params),
                "inputs": dict(record.inputs),
                "seconds": record.seconds,
                "notes": list(record.notes),
                "made_now": record in result.made,
                "source": read_source(_cohort(path), name, record.run),
                "path": str(folder_of(_cohort(path), name, record.run)),
            }
            for name, result in results.items()
            for record in result.records
        ],
        "unfinished": len(first.unfinished),
        "wrecked": len(first.wrecked),
    }


def _source(path: Path, record: Derived) -> tuple[str, str]:
    """Mean accuracy and NLL over the source domains."""
    from checkwise.study.baselines import read_source

    entry = read_source(_cohort(path), record.method, record.run)
    if entry["diverged"]:
        return "diverged", "diverged"
    domains = list(entry["domains"].values())
    accuracy = fsum(domain["accuracy"] for domain in domains) / len(domains)
    nll = fsum(domain["nll"] for domain in domains) / len(domains)
    return f"{100 * accuracy:.2f}", f"{nll:.4f}"


def _what(record: Derived) -> str:
    inputs = record.inputs
    if "members" in inputs:
        return f"{len(inputs['members'])} runs"
    if "candidates" in inputs:
        return f"one of {len(inputs['candidates'])} steps"
    if "steps" not in inputs:
        return "every update"
    times_taken = inputs.get("multiplicities", [1] * len(inputs["steps"]))
    steps = [
        f"{step}×{times}" if times > 1 else str(step)
        for step, times in zip(inputs["steps"], times_taken, strict=True)
    ]
    shown = steps if len(steps) <= 8 else [*steps[:6], "…", steps[-1]]
    return f"{len(steps)} {'step' if len(steps) == 1 else 'steps'}: {', '.join(shown)}"


def _cohort(path: Path) -> Path:
    from checkwise.study.folder import is_cohort

    return path if is_cohort(path) else path.absolute().parents[1]


def _lodo(
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

    ``params`` are those of the rule ac-lodo.
    """
    from checkwise.plugins import check_loaded
    from checkwise.store import inner_path
    from checkwise.study import Cohort
    from checkwise.study.folder import open_cohort
    from checkwise.study.sweep import Study, all_roots, check_sweep, inner_study, plan

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
    if not as_json:
        report(outcome, place)
    _show_choices(Cohort.open(path), params, path, as_json=as_json)
    return 0


def _show_plan(inner: Study, runs: int, place: Path, *, as_json: bool) -> None:
    left_out = {spec.name: spec.held_out or () for spec in inner.data}
    if as_json:
        planned = {"study": inner.name, "folder": str(place), "runs": runs, "steps": inner.steps}
        print_json("derive-plan", {**planned, "left_out": left_out})
        return
    printing.say(
        f"{inner.name}: {runs} inner runs of {inner.steps} updates, to be kept in {place}",
        *(
            f"  {name}, left out together: {', '.join('+'.join(names) for names in each)}"
            for name, each in left_out.items()
        ),
    )


def _show_choices(cohort: Cohort, params: Mapping[str, Any], path: Path, *, as_json: bool) -> None:
    """What each rule chooses by the inner runs, in every scope."""
    tables = {
        (scope, rule): cohort.select(rule, scope=scope, **(params if rule == "ac-lodo" else {}))
        for scope in SCOPES
        for rule in RULES
    }
    if as_json:
        kept = ["deployed", "step", "source_accuracy", "gap_pp"]
        choices = [
            {"scope": scope, "rule": rule, **record}
            for (scope, rule), table in tables.items()
            for record in table[kept].to_dict("records")
        ]
        print_json("derive-lodo", {"choices": choices})
        return
    header = ("scope", "rule", "models", "median step", "source accuracy", "gap")
    lines = [
        (
            SCOPES[scope],
            rule,
            str(len(table)),
            f"{table['step'].median():.0f}",
            f"{100 * table['source_accuracy'].mean():.2f}",
            f"{table['gap_pp'].mean():.2f}",
        )
        for (scope, rule), table in tables.items()
    ]
    printing.say(
        printing.table(header, lines, left=("scope", "rule")),
        f"On unseen domains: checkwise study compare {path} --rules {','.join(RULES)}",
    )
