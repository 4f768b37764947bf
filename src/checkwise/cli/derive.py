"""``checkwise study derive``: averages, ensembles, and steps chosen on domains left out inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkwise.cli import printing
from checkwise.cli.command import argument, command, names, option, takes
from checkwise.cli.options import (
    data_option,
    force_option,
    json_option,
    load_plugins,
    pairs,
    plugin_option,
    whole_number,
)
from checkwise.cli.printing import print_json
from checkwise.cli.progress import counting
from checkwise.cli.run import report, run_study
from checkwise.cli.workers import Launching
from checkwise.errors import InputError
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.plugins import Plugin
    from checkwise.study import Cohort
    from checkwise.study.baselines import Derived, DeriveResult

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
    type=names,
)
@option("--param NAME=VALUE…", "Of the methods: delta_pp=1, minibatches=500; repeatable.")
@data_option
@plugin_option
@takes(Launching, "launching")
@force_option.but(help="Make results again that are current.")
@json_option
def derive_command(
    path: Path,
    method: tuple[tuple[str, ...], ...],
    param: tuple[str, ...],
    data: tuple[str, ...],
    plugin: tuple[str, ...],
    launching: Launching,
    force: bool,
    as_json: bool,
) -> int:
    """Make averages and ensembles of the study in DIR, or of one run, evaluated like checkpoints.

    The method lodo trains inner runs beside the study, in DIR-lodo, and chooses steps by them: each
    leaves out a target and one further domain, and is validated on the further one. It is safe to
    interrupt and to repeat.
    """
    from checkwise.study.folder import is_cohort
    from checkwise.study.sweep import read_roots

    methods = list(dict.fromkeys(name for named in method for name in named))
    if LODO in methods and (len(methods) > 1 or force):
        raise InputError(
            f"Expected {LODO} alone, because it trains runs: make it with a command of its own.",
            code="ambiguous",
        )
    plugins = load_plugins(plugin)
    params = _params(param, methods)
    common: Any = {"roots": read_roots(data), "plugins": plugins, "launching": launching}
    if methods == [LODO]:
        return _lodo(path, params, as_json=as_json, **common)
    cohort = path if is_cohort(path) else path.absolute().parents[1]
    results = _made(path, cohort, methods, params, force=force, **common)
    if as_json:
        print_json("derive", _as_json(cohort, results))
    else:
        _present(cohort, results)
    return 0


def _params(written: Sequence[str], methods: Sequence[str]) -> dict[str, Any]:
    """Parameters of the methods; one that none of them takes is refused."""
    found: dict[str, Any] = pairs("--param", written, "NAME=VALUE", split=str.partition)
    known = {name for method in methods for name in _taken(method)}
    for name, value in found.items():
        if name not in known:
            raise InputError(
                f"Expected parameters that {', '.join(methods)} takes ({', '.join(sorted(known))}),"
                f" but got {name!r:.60}: leave it out.",
                code="unsupported",
            )
        if name == "minibatches":
            found[name] = whole_number("--param minibatches", value)
    return found


def _taken(method: str) -> set[str]:
    """The parameters that can be set; what makes a method ``-nobn`` stays."""
    from checkwise.study import recipe_of

    params = {"delta_pp": None} if method == LODO else recipe_of(method).params
    return {name for name, value in params.items() if (name, value) != ("minibatches", 0)}


def _made(
    path: Path,
    cohort: Path,
    methods: Sequence[str],
    params: Mapping[str, Any],
    *,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    launching: Launching,
    force: bool,
) -> dict[str, DeriveResult]:
    """Make the models in this process, or with workers where some were asked for."""
    from checkwise.study import recipe_of
    from checkwise.study.baselines import DeriveJob, OpenRuns, derive, derive_with_workers
    from checkwise.study.sweep import get_executor, worker_count

    settings, opening = launching.over(), OpenRuns(roots)
    results = {}
    for name in methods:
        recipe, taken = recipe_of(name), _taken(name)
        own = {p: value for p, value in params.items() if p in taken}
        if launching == Launching():
            with counting(name) as watch:
                results[name] = derive(
                    path, name, recipe, opening=opening, force=force, watch=watch, **own
                )
            continue
        job = DeriveJob(
            cohort=str(cohort.absolute()),
            path=str(path.absolute()),
            method=name,
            params=own,
            roots=roots,
            plugins={plugin.source: plugin.sha256 for plugin in plugins},
        )
        executor = get_executor(settings)
        results[name] = derive_with_workers(job, executor, worker_count(settings), force=force)
    return results


def _present(cohort: Path, results: dict[str, DeriveResult]) -> None:
    from checkwise.study.baselines import read_source

    rows, notes = [], Counter[str]()
    for name, record in _records(results):
        notes.update(f"{name}: {note}" for note in record.notes)
        entry, means = read_source(cohort, name, record.run), ("diverged", "diverged")
        if not entry["diverged"]:
            sets = entry["domains"].values()
            accuracy, nll = (fsum(s[m] for s in sets) / len(sets) for m in ("accuracy", "nll"))
            means = f"{100 * accuracy:.2f}", f"{nll:.4f}"
        rows.append((name, str(record.run), _what(record), *means))
    header = ("method", "run", "made of", "source accuracy", "source NLL")
    made = [one for result in results.values() for one in result.made]
    current = sum(len(result.current) for result in results.values())
    first = next(iter(results.values()))
    printing.say(
        printing.table(header, rows, left=("method", "run", "made of")),
        *(f"{note} ({count} runs)." if count > 1 else f"{note}." for note, count in notes.items()),
        f"{len(made)} made in {fsum(one.seconds for one in made):.1f} s, {current} were current; "
        f"{len(first.unfinished)} unfinished and {len(first.wrecked)} diverged runs left out.",
        f"On unseen domains: checkwise study compare {cohort} "
        f"--rules source-acc,ac-nc,{','.join(results)}",
    )


def _as_json(cohort: Path, results: dict[str, DeriveResult]) -> dict[str, Any]:
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
                "made_now": record in results[name].made,
                "source": read_source(cohort, name, record.run),
                "path": str(folder_of(cohort, name, record.run)),
            }
            for name, record in _records(results)
        ],
        "unfinished": len(first.unfinished),
        "wrecked": len(first.wrecked),
    }


def _records(results: dict[str, DeriveResult]) -> Iterator[tuple[str, Derived]]:
    """Every model with the name of its method."""
    for name, result in results.items():
        for record in result.records:
            yield name, record


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
    return f"{counted(len(steps), 'step')}: {', '.join(shown)}"


def _lodo(
    path: Path,
    params: Mapping[str, Any],
    *,
    roots: Mapping[str, str],
    plugins: Sequence[Plugin],
    launching: Launching,
    as_json: bool,
) -> int:
    """Train the inner runs of a study beside it, and choose steps by them; targets stay closed."""
    from checkwise.plugins import check_loaded
    from checkwise.store import inner_path
    from checkwise.study import Cohort
    from checkwise.study.folder import open_cohort
    from checkwise.study.sweep import Study, all_roots, inner_study

    study = Study.from_dict(open_cohort(path).study)
    check_loaded(study.plugins, path)
    roots = all_roots(study, roots)
    inner, place = inner_study(study, roots), inner_path(path)
    outcome = run_study(inner, place, roots, launching.over(), plugins=plugins)
    unfinished = outcome.interrupted or outcome.count("finished") < len(outcome.runs)
    if unfinished or not as_json:
        code = report(outcome, place)
        if unfinished:
            return code
    _show_choices(Cohort.open(path), params, path, as_json=as_json)
    return 0


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
