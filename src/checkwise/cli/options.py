"""Options that several commands share, and how their words become values."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from checkwise.errors import InputError
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.weights import Weights

RuleName = Annotated[str, typer.Option("--rule", help="How to choose; see `checkwise rules`.")]
Delta = Annotated[
    str | None, typer.Option("--delta-pp", help="Tolerance in percentage points. [default: 0.5]")
]
Q = Annotated[str | None, typer.Option("--q", help="Norm: 1, 2 or inf. [default: inf]")]
Objectives = Annotated[
    str | None, typer.Option("--objectives", help="Metrics for the rule `ac`, comma separated.")
]
Threshold = Annotated[
    str | None, typer.Option("--threshold-pp", help="Least accuracy in points for `wald`.")
]
Pareto = Annotated[
    bool, typer.Option("--pareto", help="Drop dominated checkpoints before ranking.")
]
Parameters = Annotated[
    list[str] | None, typer.Option("--param", help="NAME=VALUE for a rule of your own; repeatable.")
]
DomainWeights = Annotated[
    str, typer.Option("--weights", help="equal, sample, or NAME=WEIGHT,… for every domain.")
]
WorstDomain = Annotated[
    bool, typer.Option("--worst-domain", help="Judge checkpoints by their worst domain.")
]
HeldOut = Annotated[
    list[str] | None,
    typer.Option("--held-out", help="A domain that must not be read; repeatable."),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A Python file or module with rules or metrics of your own."),
]
Bins = Annotated[int, typer.Option("--bins", help="Bins of calibration errors from outputs.")]
Bandwidth = Annotated[float, typer.Option("--bandwidth", help="Width of the soft bins.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

__all__ = ["DEFAULT_RULE"]


def read_weights(text: str) -> Weights:
    """``equal``, ``sample`` or ``photo=2,art=1``."""
    if "=" not in text:
        return text
    weights: dict[str, Any] = {}
    for part in text.split(","):
        name, separator, value = part.rpartition("=")
        if not separator or not name:
            raise InputError(f"Expected --weights NAME=WEIGHT,…, but got {part!r}.")
        weights[name] = value
    return weights


def read_params(
    *,
    delta_pp: str | None,
    q: str | None,
    objectives: str | None,
    threshold_pp: str | None,
    pareto: bool,
    further: list[str] | None,
) -> dict[str, Any]:
    """Only what was given: the rule knows its defaults and refuses what it does not take."""
    params: dict[str, Any] = {}
    if delta_pp is not None:
        params["delta_pp"] = _number_text(delta_pp, "--delta-pp")
    if q is not None:
        norms = {"1": 1, "2": 2, "inf": inf}
        if q not in norms:
            raise InputError(f"Expected --q 1, 2 or inf, but got {q!r}.")
        params["q"] = norms[q]
    if objectives is not None:
        params["objectives"] = tuple(name.strip() for name in objectives.split(","))
    if threshold_pp is not None:
        params["threshold_pp"] = _number_text(threshold_pp, "--threshold-pp")
    if pareto:
        params["pareto"] = True
    for given in further or ():
        name, separator, value = given.partition("=")
        if not separator:
            raise InputError(f"Expected --param NAME=VALUE, but got {given!r}.")
        params[name] = _value(value)
    return params


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


def load_plugins(names: list[str] | None) -> None:
    """Import files or modules whose decorators register rules and metrics."""
    for name in names or ():
        path = Path(name)
        try:
            if path.suffix == ".py":
                spec = importlib.util.spec_from_file_location(path.stem, path)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[path.stem] = module
                spec.loader.exec_module(module)
            else:
                importlib.import_module(name)
        except (ImportError, OSError, SyntaxError) as error:
            raise InputError(
                f"Expected --plugin to name a Python file or module, but {name!r} cannot be "
                f"loaded: {error}."
            ) from None
