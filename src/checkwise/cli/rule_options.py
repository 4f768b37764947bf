"""The options by which a command is told how to choose, and what they do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from checkwise.cli.options import Column, HeldOut, Plugins, Source, load_plugins
from checkwise.cli.progress import counting
from checkwise.errors import InputError
from checkwise.readers import load_runs
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, get_rule
from checkwise.selection.rules import find_metrics
from checkwise.selection.standing import Weights


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A rule, its parameters, and how runs are read for it; each field is an option."""

    rule: Annotated[
        str | None,
        typer.Option(
            help="How to choose; see `checkwise rules`. "
            f"[default: {DEFAULT_RULE}, or the best rule that the data allow]"
        ),
    ] = None
    delta_pp: Annotated[
        str | None, typer.Option(help="Tolerance in percentage points. [default: 0.5]")
    ] = None
    q: Annotated[str | None, typer.Option(help="Norm: 1, 2 or inf. [default: inf]")] = None
    objectives: Annotated[
        str | None, typer.Option(help="Metrics for the rule `ac`, comma separated.")
    ] = None
    threshold_pp: Annotated[
        str | None, typer.Option(help="Least accuracy in points for `wald`.")
    ] = None
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Drop dominated checkpoints before ranking.")
    ] = False
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for a rule of your own; repeatable.")
    ] = None
    weights: Annotated[
        str, typer.Option(help="equal, sample, or NAME=WEIGHT,… for every domain.")
    ] = "equal"
    worst_domain: Annotated[
        bool,
        typer.Option("--worst-domain", help="Judge checkpoints by their worst domain, unweighted."),
    ] = False
    held_out: HeldOut = None
    source: Source = None
    column: Column = None
    bins: Annotated[int, typer.Option(help="Bins of calibration errors from outputs.")] = 15
    bandwidth: Annotated[float, typer.Option(help="Width of the soft bins.")] = 0.1
    plugin: Plugins = None

    @property
    def params(self) -> dict[str, Any]:
        """Only what was given: the rule knows its defaults and refuses what it does not take."""
        params: dict[str, Any] = {}
        if self.delta_pp is not None:
            params["delta_pp"] = _number_text(self.delta_pp, "--delta-pp")
        if self.q is not None:
            norms = {"1": 1, "2": 2, "inf": inf}
            if self.q not in norms:
                raise InputError(f"Expected --q 1, 2 or inf, but got {self.q!r}.")
            params["q"] = norms[self.q]
        if self.objectives is not None:
            params["objectives"] = tuple(name.strip() for name in self.objectives.split(","))
        if self.threshold_pp is not None:
            params["threshold_pp"] = _number_text(self.threshold_pp, "--threshold-pp")
        if self.pareto:
            params["pareto"] = True
        for given in self.param or ():
            name, separator, value = given.partition("=")
            if not separator:
                raise InputError(f"Expected --param NAME=VALUE, but got {given!r}.")
            if name in params:
                raise InputError(
                    f"Expected one value of `{name}`, but got it twice, last with --param {given}: "
                    "give one."
                )
            params[name] = _value(value)
        return params

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, as ``select`` takes it."""
        return {"weights": _weights(self.weights), "worst_domain": self.worst_domain}

    def load_runs(self, path: Path) -> dict[RunKey, Trajectory]:
        """Every run at a path, with a progress bar where outputs have to be evaluated."""
        load_plugins(self.plugin)
        if self.rule is not None:
            find_metrics(get_rule(self.rule), self.params)
        with counting("evaluating checkpoints") as progress:
            return load_runs(
                path,
                held_out=self.held_out,
                sources=self.source,
                columns=_columns(self.column or ()),
                metrics=self.params.get("objectives", ()),
                bins=self.bins,
                bandwidth=self.bandwidth,
                progress=progress,
            )


def with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes ``choice`` the options of :class:`Choice`."""
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    options = get_type_hints(Choice, include_extras=True)

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        choice = Choice(**{field.name: given.pop(field.name) for field in fields(Choice)})
        command(choice=choice, **given)

    parameters = [
        own[name].replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name in own
        if name != "choice"
    ] + [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=options[field.name],
        )
        for field in fields(Choice)
    ]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    del wrapped.__wrapped__  # typer would look through to the command
    return wrapped


def _weights(text: str) -> Weights:
    """``equal``, ``sample`` or ``photo=2,art=1``."""
    if "=" not in text:
        return text
    weights: dict[str, Any] = {}
    for part in text.split(","):
        name, separator, value = part.rpartition("=")
        if not separator or not name:
            raise InputError(f"Expected --weights NAME=WEIGHT,…, but got {part!r}.")
        if name in weights:
            raise InputError(f"Expected one weight per domain, but --weights names {name!r} twice.")
        weights[name] = value
    return weights


def _columns(pairs: Iterable[str]) -> dict[str, str]:
    """``NAME=COLUMN`` as a map."""
    columns: dict[str, str] = {}
    for pair in pairs:
        name, separator, column = pair.partition("=")
        if not separator or not name or not column:
            raise InputError(
                f"Expected --column NAME=COLUMN, but got {pair!r}: write, for example, "
                "--column accuracy=val_accuracy."
            )
        if name in columns:
            raise InputError(f"Expected one column for {name}, but --column names two: give one.")
        columns[name] = column
    return columns


def _number_text(text: str, option: str) -> str:
    """The text itself, so that 0.1 stays the decimal that was written."""
    try:
        float(text)
    except ValueError:
        raise InputError(f"Expected a number for {option}, but got {text!r}.") from None
    return text


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
