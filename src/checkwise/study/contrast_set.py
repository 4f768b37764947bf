"""Contrasts that are fixed before held-out results are opened, as a file says them.

A contrast in a ``family`` is tested: together with the others of its family, by Holm's method. One
without a family is an estimate only. The file is TOML, read key by key; the log of registrations
keeps the same values with every default filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.study.compare import higher_is_better
from checkwise.study.method_table import Method, method
from checkwise.study.train import NAME, TEXT, StudyKey, TomlTable, one_of, read_toml

Hoped = Literal["higher", "lower"]
At = Literal["mean", "worst place"]
KNOWN_METRICS: Final = ("gap_pp", *(f"{s}_{m}" for s in ("source", "target") for m in METRICS))


@dataclass(frozen=True)
class NotWorse:
    """A side condition: the interval of ``metric`` stays on the good side of a loss of ``by``."""

    metric: str
    by: float


@dataclass(frozen=True)
class Where:
    """Only runs for which the temperature that ``rule`` fits is below a number."""

    rule: str
    temperature_below: float


@dataclass(frozen=True)
class PlannedContrast:
    """One difference, rule − reference in one metric, by held-out place."""

    name: str  # what the table calls it, such as ``a``
    rule: str  # what is compared
    reference: str
    metric: str
    hoped: Hoped  # the direction that was hoped for
    family: str = ""  # contrasts that are tested together; "" for an estimate only
    not_worse: NotWorse | None = None  # what has to hold as well before it counts as found
    where: Where | None = None  # which runs it is about; None for all
    at: At = "mean"  # the mean over places, or the difference of the two worst places
    # parameters of the two, besides their defaults
    params: Mapping[str, Any] = field(default_factory=dict)
    reference_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> Method:
        """The rule with its parameters."""
        return method(self.rule, **self.params)

    @property
    def against(self) -> Method:
        """The reference with its parameters."""
        return method(self.reference, **self.reference_params)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that it looks at."""
        return (self.metric, *((self.not_worse.metric,) if self.not_worse else ()))


@dataclass(frozen=True)
class ContrastSet:
    """All contrasts that were fixed together."""

    title: str
    contrasts: tuple[PlannedContrast, ...]
    note: str = ""

    @property
    def families(self) -> dict[str, tuple[PlannedContrast, ...]]:
        """The contrasts that are tested, by family."""
        named = dict.fromkeys(one.family for one in self.contrasts if one.family)
        return {f: tuple(one for one in self.contrasts if one.family == f) for f in named}

    @property
    def rows(self) -> tuple[Method, ...]:
        """Every rule and method that has to be evaluated, once."""
        sides = [side for one in self.contrasts for side in (one.row, one.against)]
        conditions = [method(one.where.rule) for one in self.contrasts if one.where]
        return tuple({row.identity: row for row in (*sides, *conditions)}.values())

    def as_dict(self) -> dict[str, Any]:
        """Plain values that :func:`parse_contrasts` reads back."""
        contrasts = [  # without what is absent, which TOML cannot say
            {name: value for name, value in asdict(one).items() if value is not None}
            for one in self.contrasts
        ]
        return {"title": self.title, "note": self.note, "contrast": contrasts}


TOP: Final = (
    StudyKey("title", TEXT, "what the contrasts are about", ""),
    StudyKey("note", TEXT, "what a reader has to know; it is printed with the results", ""),
)
CONTRAST: Final = (
    StudyKey("name", NAME, "what the table calls it"),
    StudyKey("rule", TEXT, "the rule or method that is compared"),
    StudyKey("reference", TEXT, "what is subtracted"),
    StudyKey("metric", one_of(lambda: KNOWN_METRICS), "what is compared"),
    StudyKey("hoped", one_of(lambda: get_args(Hoped)), "the direction", None),
    StudyKey("family", TEXT, "contrasts tested together; without it, no test", ""),
    StudyKey("at", one_of(lambda: get_args(At)), "the mean, or the worst place", "mean"),
)


def read_contrasts(path: Path) -> ContrastSet:
    """Read a file of contrasts."""
    return parse_contrasts(read_toml(path, "a file of contrasts"), str(path))


def parse_contrasts(values: Mapping[str, Any], file: str) -> ContrastSet:
    """Check the values of a file of contrasts."""
    top = TomlTable(values, "", file).read(TOP, beside=("contrast",))
    listed = values.get("contrast", [])
    if not isinstance(listed, list) or not listed:
        raise InputError(
            f"Expected at least one table [[contrast]] in {file}, but got none: add one.",
            code="empty",
        )
    contrasts = tuple(_contrast(TomlTable(one, "contrast", file)) for one in listed)
    names = [one.name for one in contrasts]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InputError(
            f"Expected every contrast to have its own name, but {twice[0]!r} is there "
            f"{names.count(twice[0])} times in {file}: rename one.",
            code="ambiguous",
        )
    return ContrastSet(top["title"], contrasts, top["note"])


def _contrast(table: TomlTable) -> PlannedContrast:
    values = table.read(CONTRAST, beside=("params", "reference_params", "not_worse", "where"))
    if values["hoped"] is None:
        values["hoped"] = "higher" if higher_is_better(values["metric"]) else "lower"
    condition, where = (table.values.get(name) for name in ("not_worse", "where"))
    one = PlannedContrast(
        **values,
        not_worse=None if condition is None else _not_worse(condition, table),
        where=None if where is None else _where(where, table),
        params=_params("params", table),
        reference_params=_params("reference_params", table),
    )
    _check(one, table)
    return one


def _check(one: PlannedContrast, table: TomlTable) -> None:
    """Refuse what could not be computed, or would not mean what it seems to."""
    for row in (one.row, one.against):  # an unknown name is refused
        if row.oracle:
            raise table.refuse("rule", "a method that does not look at the target", row.name)
        if row.rule is not None:
            row.choice()  # refuses parameters that its rule does not take
        elif row.params:
            raise table.refuse("params", f"empty for {row.name}, which takes none", row.params)
    if one.row.identity == one.against.identity:
        raise table.refuse("reference", f"another one than the rule of {one.name}", one.reference)
    tested = one.family or one.not_worse
    if one.at != "mean" and tested:
        raise table.refuse("at", "the mean where a contrast is tested", one.at)
    if one.not_worse and not one.family:
        raise table.refuse("family", f"a name, because {one.name} has a side condition", "")


def _not_worse(values: Any, table: TomlTable) -> NotWorse:
    inner = _inner(values, "not_worse", ("metric", "by"), table)
    metric, by = inner["metric"], inner["by"]
    if metric not in KNOWN_METRICS:
        raise table.refuse("not_worse.metric", f"one of {', '.join(KNOWN_METRICS)}", metric)
    what = "a margin above 0, as results are shown"
    return NotWorse(metric, _above_zero(by, "not_worse.by", what, table))


def _where(values: Any, table: TomlTable) -> Where:
    inner = _inner(values, "where", ("rule", "temperature_below"), table)
    name, below = inner["rule"], inner["temperature_below"]
    if not isinstance(name, str) or method(name).calibrator is None:
        raise table.refuse("where.rule", "a rule with a temperature, such as source-acc+ts", name)
    return Where(name, _above_zero(below, "where.temperature_below", "a number above 0", table))


def _above_zero(value: Any, key: str, what: str, table: TomlTable) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise table.refuse(key, what, value)
    return float(value)


def _inner(values: Any, key: str, keys: tuple[str, ...], table: TomlTable) -> dict[str, Any]:
    if not isinstance(values, Mapping) or set(values) != set(keys):
        raise table.refuse(key, f"a table with {' and '.join(keys)}", values)
    return dict(values)


def _params(side: str, table: TomlTable) -> dict[str, Any]:
    values = table.values.get(side) or {}
    if not isinstance(values, Mapping):
        raise table.refuse(side, 'a table, such as {delta_pp = "1"}', values)
    return dict(values)
