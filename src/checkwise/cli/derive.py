"""``checkwise derive`` and ``checkwise swad``: make other models from a cohort's checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkwise.cli import printing
from checkwise.cli.executor_options import ExecutorOptions
from checkwise.cli.json_output import print_json
from checkwise.cli.option_groups import with_groups
from checkwise.cli.options import AsJson, Data, Plugins, load_plugins
from checkwise.cli.progress import counting
from checkwise.errors import InputError
from checkwise.selection.constrained import DELTA_PP
from checkwise.selection.members import MEMBERS_DELTA_PP

if TYPE_CHECKING:
    from checkwise.plugins import Plugin
    from checkwise.weights.derive import DeriveResult
    from checkwise.weights.derived import Derived
    from checkwise.weights.evaluate import OpenRuns

Place = Annotated[Path, typer.Argument(metavar="PATH", help="A cohort, or one run of it.")]
Minibatches = Annotated[
    int | None,
    typer.Option(min=1, help="Source minibatches for BatchNorm statistics. [default: 500]"),
]
Force = Annotated[bool, typer.Option("--force", help="Make results again that are current.")]


@with_groups
def command(
    path: Place,
    method: Annotated[
        list[str], typer.Option("--method", help="What to make; repeatable, or comma separated.")
    ],
    minibatches: Minibatches = None,
    delta_pp: Annotated[
        str | None,
        typer.Option(
            help=f"Tolerance in points. [default: {DELTA_PP}; of mean-…: {MEMBERS_DELTA_PP}]"
        ),
    ] = None,
    data: Data = None,
    force: Force = False,
    *,
    launching: ExecutorOptions,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Make models other than single checkpoints: averages and ensembles, evaluated like them."""
    asked = _Asked(path, data, force, launching, load_plugins(plugin))
    names = [name.strip() for listed in method for name in listed.split(",") if name.strip()]
    if not names:
        raise InputError(
            f"Expected --method with a name, but got {', '.join(map(repr, method))}: name what to "
            "make, such as swad.",
            code="missing",
        )
    _derive(asked, names, as_json, minibatches=minibatches, delta_pp=delta_pp)


@with_groups
def swad(
    path: Place,
    mode: Annotated[
        str, typer.Option(help="faithful (the released code) or as-described (the article).")
    ] = "faithful",
    no_bn: Annotated[
        bool, typer.Option("--no-bn", help="Keep the BatchNorm buffers of the first checkpoint.")
    ] = False,
    minibatches: Minibatches = None,
    data: Data = None,
    force: Force = False,
    *,
    launching: ExecutorOptions,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Average the checkpoints in the loss valley of every run: short for derive --method swad."""
    asked = _Asked(path, data, force, launching, load_plugins(plugin))
    suffixes = {"faithful": "", "as-described": "-as-described"}
    if mode not in suffixes:
        raise InputError(f"Expected --mode faithful or as-described, but got {mode!r}.")
    if no_bn and minibatches is not None:
        raise InputError(
            "Expected --no-bn or --minibatches, but got both: leave one out.", code="ambiguous"
        )
    name = f"swad{suffixes[mode]}{'-nobn' if no_bn else ''}"
    _derive(asked, [name], as_json, minibatches=minibatches)


@dataclass(frozen=True)
class _Asked:
    """What both commands take."""

    path: Path
    data: list[str] | None
    force: bool
    launching: ExecutorOptions
    plugins: tuple[Plugin, ...]

    @cached_property
    def roots(self) -> dict[str, str]:
        """Where data sets lie."""
        from checkwise.sweep.datasets import read_roots

        return read_roots(self.data or ())

    @cached_property
    def opening(self) -> OpenRuns:
        """Opens runs for all methods that are made in this process."""
        from checkwise.weights.evaluate import OpenRuns

        return OpenRuns(self.roots)

    def make(
        self, name: str, params: dict[str, Any], watch: Callable[[int, int], None]
    ) -> DeriveResult:
        """Make a method's models in this process, or with workers where some were asked for."""
        from checkwise.study.derive_job import DeriveJob, derive_with_workers
        from checkwise.study.methods import recipe_of
        from checkwise.sweep.executors import get_executor, worker_count
        from checkwise.weights.derive import derive

        if self.launching == ExecutorOptions():
            recipe, opening = recipe_of(name), self.opening
            return derive(
                self.path, name, recipe, opening=opening, force=self.force, watch=watch, **params
            )
        settings = self.launching.over()
        job = DeriveJob(
            cohort=str(_cohort(self.path).absolute()),
            path=str(self.path.absolute()),
            method=name,
            params=params,
            roots=self.roots,
            plugins={plugin.source: plugin.sha256 for plugin in self.plugins},
        )
        executor = get_executor(settings)
        return derive_with_workers(job, executor, worker_count(settings), force=self.force)


def _derive(asked: _Asked, names: list[str], as_json: bool, **options: Any) -> None:
    from checkwise.study.methods import recipe_of

    recipes = {name: recipe_of(name) for name in names}
    chosen = {name: value for name, value in options.items() if value is not None}
    idle = [p for p in chosen if not any(p in recipe.params for recipe in recipes.values())]
    if idle:
        raise InputError(
            f"Expected options that {', '.join(names)} takes, but none takes "
            f"--{idle[0].replace('_', '-')}: leave it out.",
            code="unsupported",
        )
    results = {}
    for name, recipe in recipes.items():
        params = {p: value for p, value in chosen.items() if p in recipe.params}
        with counting(name) as watch:
            results[name] = asked.make(name, params, watch)
    if as_json:
        print_json("derive", _as_json(asked.path, results))
    else:
        _present(asked.path, results)


def _present(path: Path, results: dict[str, DeriveResult]) -> None:
    out = printing.console()
    rows = []
    for name, result in results.items():
        for record in result.records:
            accuracy, nll = _source(path, record)
            rows.append((name, str(record.run), _what(record), accuracy, nll))
    header = ("method", "run", "made of", "source accuracy", "source NLL")
    out.print(printing.table(header, rows, left=("method", "run", "made of")))
    for (name, note), count in _notes(results).items():
        out.print(f"{name}: {note}" + (f" ({count} runs)." if count > 1 else "."))
    made = sum(len(result.made) for result in results.values())
    current = sum(len(result.current) for result in results.values())
    first = next(iter(results.values()))
    left = f"{len(first.unfinished)} unfinished and {len(first.wrecked)} diverged runs left out"
    seconds = fsum(r.seconds for result in results.values() for r in result.made)
    out.print(f"{made} made in {seconds:.1f} s, {current} were current; {left}.")
    out.print(
        f"On unseen domains: checkwise compare {_cohort(path)} "
        f"--rules source-acc,ac-nc,{','.join(results)}"
    )


def _as_json(path: Path, results: dict[str, DeriveResult]) -> dict[str, Any]:
    from checkwise.weights.derived import folder_of, read_source

    return {
        "schema": 1,
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
        "unfinished": len(next(iter(results.values())).unfinished),
        "wrecked": len(next(iter(results.values())).wrecked),
    }


def _source(path: Path, record: Derived) -> tuple[str, str]:
    from checkwise.weights.derived import read_source

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


def _notes(results: dict[str, DeriveResult]) -> Counter[tuple[str, str]]:
    """Every distinct note of a method, and how many runs it is about."""
    return Counter(
        (name, note)
        for name, result in results.items()
        for record in result.records
        for note in record.notes
    )


def _cohort(path: Path) -> Path:
    from checkwise.store.cohort import is_cohort

    return path if is_cohort(path) else path.absolute().parents[1]
