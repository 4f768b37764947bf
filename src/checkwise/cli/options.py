"""The options that commands share: what to choose, what to read, what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkwise import store
from checkwise.cli.command import OUTPUT, PATH, Shared, field, names, option
from checkwise.cli.places import check_sealed
from checkwise.cli.progress import counting
from checkwise.errors import InputError
from checkwise.plugins import Plugin, load_plugin
from checkwise.readers import Request, load_runs, only
from checkwise.records import RunKey, Trajectory
from checkwise.selection import DEFAULT_RULE, DELTA_PP, NAMED_SCORES, Choice, find_metrics, get_rule

CHOOSE = "Choose"
READ = "Read the log"
FIND = "Find the files"

json_option = option("--json", "Print JSON for machines.", name="as_json", under=OUTPUT)
open_option = option("--open", "Open the page in the browser.", name="show", under=OUTPUT)
out_option = option("-o, --out PATH", "Where to write it.", type=PATH, under=OUTPUT)
force_option = option("--force", "Replace what is there.", under=OUTPUT)
plugin_option = option(
    "--plugin FILE…",
    "A Python file or module with rules, metrics or algorithms of your own; repeatable.",
)
column_option = option(
    "--column NAME=COLUMN…", "Read a column as NAME: accuracy=val/top1; repeatable.", under=READ
)
source_option = option(
    "--source NAME…", "Validation, although it looks held out; repeatable.", under=READ
)
data_option = option("--data NAME=PATH…", "Where a data set is; repeatable. Or set CHECKWISE_DATA.")


def load_plugins(names: Iterable[str]) -> tuple[Plugin, ...]:
    """Import files or modules whose decorators register what is in them."""
    return tuple(load_plugin(name) for name in names)


def pairs(
    option: str,
    written: Iterable[str],
    form: str,
    *,
    split: Callable[[str, str], tuple[str, str, str]] = str.rpartition,
) -> dict[str, str]:
    """``NAME=VALUE``, each name once, as a map; ``split`` says at which ``=``."""
    found: dict[str, str] = {}
    for pair in written:
        name, separator, value = split(pair, "=")
        if not name or not separator:
            raise InputError(f"Expected {option} {form}, but got {pair!r:.60}.")
        if name in found:
            raise InputError(
                f"Expected one value of `{name}`, but {option} names {name!r} twice: give one.",
                code="ambiguous",
            )
        found[name] = value
    return found


class RuleSettings(Shared, under=CHOOSE):
    """Parameters of rules, how domains count, and where rules of your own are."""

    delta_pp: str | None = field(
        "--delta-pp POINTS", f"How far below the best is near it. [default: {DELTA_PP}]"
    )
    param: tuple[str, ...] = field(
        "--param NAME=VALUE…", "A parameter of `checkwise rules`: q=1; repeatable."
    )
    weights: str = field(
        "--weights HOW", "How sets count: equal, sample, worst, NAME=WEIGHT,…", default="equal"
    )
    plugin: tuple[str, ...] = plugin_option.but(
        "Python file with rules or metrics; repeatable.", under=CHOOSE
    ).field

    @property
    def params(self) -> dict[str, Any]:
        """Only what was given: the rule knows its defaults and refuses what it does not take."""
        given = pairs("--param", self.param, "NAME=VALUE", split=str.partition)
        for name, value in given.items():
            instead = INSTEAD.get(name, f"--{name.replace('_', '-')}" * (name in self.declared))
            if instead:
                raise InputError(
                    f"Expected a parameter of a rule, but got --param {name}={value}: use "
                    f"{instead}.",
                    code="unsupported",
                )
        own = {name: getattr(self, name, None) for name in WITH_OPTION}
        given |= {name: value for name, value in own.items() if value is not None}
        return {name: _parameter(name, value) for name, value in given.items()}

    @property
    def weighting(self) -> dict[str, Any]:
        """How domains count, as ``select`` takes it."""
        if self.weights == "worst":
            return {"weights": "equal", "worst_domain": True}
        by_name = "=" in self.weights and pairs("--weights", names(self.weights), "NAME=WEIGHT,…")
        return {"weights": by_name or self.weights, "worst_domain": False}


WITH_OPTION = ("delta_pp", "constraint", "delta", "objectives")
# What is no parameter of a rule, and not named like its option.
INSTEAD = {
    "worst_domain": "--weights worst",
    "guard": "--no-guard",
    "directions": "--direction",
    "rule": "--rule",
}


class Choosing(RuleSettings, under=CHOOSE):
    """The rule, and what a run may need that carries scores which checkwise does not know."""

    rule: str | None = field(
        "--rule NAME", f"The rule. [default: {DEFAULT_RULE}, or what the data allow]"
    )
    constraint: str | None = field(
        "--constraint NAME", "What has to be near its best. [default: accuracy]"
    )
    delta: str | None = field("--delta SIZE", "How near another score: 1%, or 0.01 in its units.")
    objectives: str | None = field(
        "--objectives NAMES", "What decides among the near-best: nll,cwece."
    )
    direction: tuple[str, ...] = field(
        "--direction NAME=lower…", "What is better, lower or higher; repeatable."
    )
    no_guard: bool = field("--no-guard", "Rank even where validation has 5 errors or fewer.")

    @property
    def choice(self) -> Choice:
        """All of it in one argument; imports the rules and metrics of ``--plugin``."""
        load_plugins(self.plugin)
        directions = pairs(
            "--direction", dict.fromkeys(self.direction), "NAME=higher or NAME=lower"
        )
        return Choice.of(
            self.rule,
            **self.weighting,
            directions=directions,
            guard=not self.no_guard,
            **self.params,
        )


def _parameter(name: str, text: str) -> Any:
    """The value of a parameter; exact decimals stay the text that was written."""
    if name == "objectives":
        objectives = tuple(part.strip() for part in text.split(","))
        if not all(objectives):
            raise InputError(f"Expected objectives with commas between, but got {text!r}.")
        return objectives
    if name in ("delta", "delta_pp", "threshold_pp"):
        return text
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return {"true": True, "false": False}.get(text.lower(), text)


class Reading(Shared, under=READ):
    """What is kept out, which columns are read, and how metrics are computed from outputs."""

    held_out: tuple[str, ...] = field(
        "--held-out NAME…", "A set that must not be read; repeatable."
    )
    source: tuple[str, ...] = source_option.field
    column: tuple[str, ...] = column_option.field
    n: str | None = field("--n NUMBER", "Validation examples: 5000, or photo=400,art=300.")
    only_run: str | None = field("--run NAME", "Only this run of several.")
    validation: str | None = field(
        "--validation NAME", "Of runs with both: examples or groups. [examples]"
    )
    checkpoints: str | None = field(
        "--checkpoints PATTERN", "As 'checkpoint-{step}' or 'weights.{epoch+1}.keras'.", under=FIND
    )
    include_unsaved: bool = field(
        "--include-unsaved", "Allow steps whose checkpoint is not there.", under=FIND
    )

    def load_runs(self, path: Path, choice: Choice) -> dict[RunKey, Trajectory]:
        """Every run at a path, for a choice whose plug-in is loaded."""
        asked: dict[str, Any] = {
            "sources": self.source,
            "columns": columns_of(self.column),
            "n": examples_of(self.n),
            "checkpoints": self.checkpoints,
            "include_unsaved": self.include_unsaved,
        }
        check_sealed(path, Request.of(self.held_out, (), **asked))
        if self.validation is not None:
            asked["validation"] = store.check_validation(self.validation)
        asked |= {"held_out": self.held_out, "metrics": scores_read(choice)}
        with counting("evaluating checkpoints") as progress:
            runs = load_runs(path, **asked, progress=progress)
        return runs if self.only_run is None else only(self.only_run, runs, path)


def scores_read(choice: Choice) -> tuple[str, ...]:
    """The scores that a reader has to find; none where those that it knows anyway will do.

    Accuracy is among them where the rule needs it: where it is not, a run may lack it.
    """
    named = "objectives" in choice.params or "constraint" in choice.params
    used = get_rule(choice.rule or (NAMED_SCORES if named else DEFAULT_RULE))
    if choice.rule is not None:
        find_metrics(used, choice.params)
    return used.looks_at(choice.params) if named or not used.needs_accuracy else ()


def columns_of(written: Iterable[str]) -> dict[str, str]:
    """``NAME=COLUMN`` as a map."""
    return pairs("--column", written, "NAME=COLUMN", split=str.partition)


def examples_of(text: str | None) -> int | dict[str, int] | None:
    """``5000``, or ``photo=400,art=300`` as a map."""
    if text is None or "=" not in text:
        return None if text is None else whole_number("--n", text)
    by_name = pairs("--n", text.split(","), "SET=NUMBER,…")
    return {name: whole_number("--n", number) for name, number in by_name.items()}


def whole_number(option: str, text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) < 2**53:
        raise InputError(f"Expected {option} as a whole number above 0, but got {text!r:.40}.")
    return int(text)
