"""The options that say how to choose."""

from __future__ import annotations

from typing import Any

from checkwise.cli.command import Shared, field, field_of
from checkwise.cli.options import CHOOSE, load_plugins, plugin_option
from checkwise.errors import InputError
from checkwise.selection import DEFAULT_RULE, DELTA_PP, Choice, Weights

WORST = "worst"
OPTION_OF = {
    "weights": "--weights",
    "worst_domain": f"--weights {WORST}",
    "guard": "--no-guard",
    "directions": "--direction",
    "rule": "--rule",
}
EXACT = ("delta_pp", "threshold_pp", "delta")  # the decimal that was written, never a float


class RuleSettings(Shared):
    """Parameters of rules, how domains count, and where rules of your own are."""

    delta_pp: str | None = field(
        "--delta-pp",
        metavar="POINTS",
        under=CHOOSE,
        help=f"How far below the best is near it. [default: {DELTA_PP}]",
    )
    param: tuple[str, ...] = field(
        "--param",
        multiple=True,
        metavar="NAME=VALUE",
        under=CHOOSE,
        help="A parameter of `checkwise rules`: q=1; repeatable.",
    )
    weights: str = field(
        "--weights",
        metavar="HOW",
        default="equal",
        under=CHOOSE,
        help="How sets count: equal, sample, worst, NAME=WEIGHT,…",
    )
    plugin: tuple[str, ...] = field_of(
        plugin_option.but(under=CHOOSE, help="Python file with rules or metrics; repeatable.")
    )

    def load_plugins(self) -> None:
        """Import the rules and metrics of ``--plugin``."""
        load_plugins(self.plugin)

    @property
    def params(self) -> dict[str, Any]:
        """Only what was given: the rule knows its defaults and refuses what it does not take."""
        params: dict[str, Any] = {}
        if self.delta_pp is not None:
            params["delta_pp"] = _number_text(self.delta_pp, "--delta-pp")
        for assignment in self.param:
            name, separator, value = assignment.partition("=")
            if not separator or not name:
                raise InputError(f"Expected --param NAME=VALUE, but got {assignment!r}.")
            if name in OPTION_OF:
                raise InputError(
                    f"Expected a parameter of a rule, but got --param {assignment}: use "
                    f"{OPTION_OF[name]}.",
                    code="unsupported",
                )
            if name in params:
                raise InputError(
                    f"Expected one value of `{name}`, but got it twice, last with --param "
                    f"{assignment}: give one.",
                    code="ambiguous",
                )
            params[name] = _parameter(name, value)
        return params

    def refuse_weighting(self, what: str) -> None:
        """Refuse weights of domains where every domain counts the same."""
        if self.weights != "equal":
            raise InputError(
                f"Expected no --weights, because in {what} every domain counts the same: leave it "
                "out, or use `checkwise study compare`.",
                code="unsupported",
            )

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, as ``select`` takes it."""
        if self.weights == WORST:
            return {"weights": "equal", "worst_domain": True}
        return {"weights": _weights(self.weights), "worst_domain": False}


class Choosing(RuleSettings):
    """The rule, and what a run may need that carries scores which checkwise does not know."""

    rule: str | None = field(
        "--rule",
        metavar="NAME",
        under=CHOOSE,
        help=f"The rule. [default: {DEFAULT_RULE}, or what the data allow]",
    )
    constraint: str | None = field(
        "--constraint",
        metavar="NAME",
        under=CHOOSE,
        help="What has to be near its best. [default: accuracy]",
    )
    delta: str | None = field(
        "--delta",
        metavar="SIZE",
        under=CHOOSE,
        help="How near another score: 1%, or 0.01 in its units.",
    )
    objectives: str | None = field(
        "--objectives",
        metavar="NAMES",
        under=CHOOSE,
        help="What decides among the near-best: nll,cwece.",
    )
    direction: tuple[str, ...] = field(
        "--direction",
        multiple=True,
        metavar="NAME=lower",
        under=CHOOSE,
        help="What is better, lower or higher; repeatable.",
    )
    no_guard: bool = field(
        "--no-guard",
        is_flag=True,
        under=CHOOSE,
        help="Rank even where validation has 5 errors or fewer.",
    )

    @property
    def params(self) -> dict[str, Any]:
        """Those of ``--param``, and of the options that name scores."""
        params = super().params
        given = {"constraint": self.constraint, "delta": self.delta, "objectives": self.objectives}
        for name, value in given.items():
            if value is not None and name in params:
                raise InputError(
                    f"Expected one value of `{name}`, but got --{name} and --param: give one.",
                    code="ambiguous",
                )
            if value is not None:
                params[name] = _parameter(name, value)
        return params

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, which values are better and the guard, as ``select`` takes it."""
        directions: dict[str, str] = {}
        for assignment in self.direction:
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

    @property
    def choice(self) -> Choice:
        """All of it in one argument."""
        return Choice.of(self.rule, **self.weighting, **self.params)


def _parameter(name: str, text: str) -> Any:
    if name == "objectives":
        names = tuple(part.strip() for part in text.split(","))
        if not all(names):
            raise InputError(
                f"Expected objectives with commas between, but got {text!r}: for example nll,cwece."
            )
        return names
    if name in EXACT:
        return text if name == "delta" else _number_text(text, f"--param {name}")
    return _value(text)


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
