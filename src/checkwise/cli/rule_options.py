"""The options that say how to choose; every command that chooses takes all of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import typer

from checkwise.cli.option_groups import OptionGroup
from checkwise.cli.options import Plugins, load_plugins
from checkwise.errors import InputError
from checkwise.selection import DEFAULT_RULE
from checkwise.selection.constrained import DELTA_PP
from checkwise.selection.standing import Weights
from checkwise.selection.tolerances import TOLERANCE_OPTIONS

RuleName = Annotated[
    str | None,
    typer.Option(
        "--rule",
        metavar="NAME",
        help="How to choose; see `checkwise rules`. "
        f"[default: {DEFAULT_RULE}, or the best rule that the data allow]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RuleOptions(OptionGroup):
    """The parameters of rules, how domains count, and where rules of your own are."""

    delta_pp: Annotated[
        str | None,
        typer.Option(
            metavar="POINTS",
            help="How far below the best accuracy a checkpoint may be, in percentage points. "
            f"[default: {DELTA_PP}]",
        ),
    ] = None
    q: Annotated[
        str | None, typer.Option(help="Norm over objectives: 1, 2 or inf. [default: inf]")
    ] = None
    objectives: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Metrics that choose among the near-best, comma separated."
        ),
    ] = None
    constraint: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The score that has to be near its best. [default: accuracy]"
        ),
    ] = None
    delta: Annotated[
        str | None,
        typer.Option(help="Tolerance of the constraint: 0.5% of the best, or 0.005 in its units."),
    ] = None
    tolerance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What counts as near the best: fixed (within --delta-pp), or by what every "
            "validation example said: paired. [default: fixed]",
        ),
    ] = None
    alpha: Annotated[
        float | None, typer.Option(help="Level of --tolerance paired. [default: 0.05]")
    ] = None
    ties: Annotated[
        str | None,
        typer.Option(help="Among exact ties: earliest, latest or accuracy (the constraint)."),
    ] = None
    threshold_pp: Annotated[
        str | None, typer.Option(help="Least accuracy in points for `wald`.")
    ] = None
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Drop dominated checkpoints before ranking.")
    ] = False
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of a rule of your own; repeatable."),
    ] = None
    weights: Annotated[
        str, typer.Option(help="equal, sample, or NAME=WEIGHT,… for every domain.")
    ] = "equal"
    worst_domain: Annotated[
        bool,
        typer.Option("--worst-domain", help="Judge checkpoints by their worst domain, unweighted."),
    ] = False
    plugin: Plugins = None

    def load_plugins(self) -> None:
        """Import the rules and metrics of ``--plugin``."""
        load_plugins(self.plugin)

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
            names = tuple(name.strip() for name in self.objectives.split(","))
            if not all(names):
                raise InputError(
                    f"Expected --objectives to name metrics with commas between, but got "
                    f"{self.objectives!r}: for example nll,cwece."
                )
            params["objectives"] = names
        if self.threshold_pp is not None:
            params["threshold_pp"] = _number_text(self.threshold_pp, "--threshold-pp")
        if self.pareto:
            params["pareto"] = True
        for name in ("constraint", "delta", "ties", *TOLERANCE_OPTIONS):
            if getattr(self, name) is not None:
                params[name] = getattr(self, name)
        for assignment in self.param or ():
            name, separator, value = assignment.partition("=")
            if not separator:
                raise InputError(f"Expected --param NAME=VALUE, but got {assignment!r}.")
            if name in params:
                raise InputError(
                    f"Expected one value of `{name}`, but got it twice, last with --param "
                    f"{assignment}: give one.",
                    code="ambiguous",
                )
            params[name] = _value(value)
        return params

    def refuse_weighting(self, what: str) -> None:
        """Refuse weights of domains where every domain counts the same."""
        if self.weights != "equal" or self.worst_domain:
            option = "--worst-domain" if self.worst_domain else "--weights"
            raise InputError(
                f"Expected no {option}, because in {what} every domain counts the same: leave it "
                "out, or use `checkwise compare`.",
                code="unsupported",
            )

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, as ``select`` takes it."""
        return {"weights": _weights(self.weights), "worst_domain": self.worst_domain}


@dataclass(frozen=True, kw_only=True)
class RunRuleOptions(RuleOptions):
    """The same for commands whose runs may carry scores that checkwise does not know."""

    direction: Annotated[
        list[str] | None,
        typer.Option(help="NAME=higher or NAME=lower: which is better; repeatable."),
    ] = None
    no_guard: Annotated[
        bool,
        typer.Option(
            "--no-guard",
            help="Rank by probabilities even where validation has 5 errors or fewer, instead of "
            "taking the earliest near-best checkpoint.",
        ),
    ] = False

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, which values are better and the guard, as ``select`` takes it."""
        directions: dict[str, str] = {}
        for assignment in self.direction or ():
            name, separator, direction = assignment.rpartition("=")
            if not separator or not name or direction not in ("higher", "lower"):
                raise InputError(
                    f"Expected --direction NAME=higher or NAME=lower, but got {assignment!r}."
                )
            if directions.setdefault(name, direction) != direction:
                raise InputError(
                    f"Expected one direction of {name}, but got both: give one.", code="ambiguous"
                )
        asked = {"directions": directions} if directions else {}
        return {**super().weighting, **asked, **({"guard": False} if self.no_guard else {})}


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
            raise InputError(
                f"Expected one weight per domain, but --weights names {name!r} twice.",
                code="ambiguous",
            )
        weights[name] = value
    return weights


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
