"""Contrasts that are fixed before held-out results are opened, as a file says them.

A contrast in a ``family`` is tested: together with the others of its family, by Holm's method. One
without a family is an estimate only. The file is TOML, read key by key; the log of registrations
keeps the same values with every default filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.study.compare import higher_is_better
from checkwise.study.method_table import Method, method
from checkwise.study.train import (
    NAME,
    TEXT,
    StudyKey,
    TomlTable,
    a_kind,
    key,
    keys_of,
    number,
    one_of,
    read_toml,
)

Hoped = Literal["higher", "lower"]
At = Literal["mean", "worst place"]
KNOWN_METRICS: Final = ("gap_pp", *(f"{s}_{m}" for s in ("source", "target") for m in METRICS))
METRIC: Final = one_of(lambda: KNOWN_METRICS)
SIZE: Final = number(0, 1e6)
PARAMS: Final = a_kind('a table, such as {delta_pp = "1"}', lambda v: isinstance(v, Mapping), dict)


@dataclass(frozen=True)
class NotWorse:
    """A side condition: the interval of ``metric`` stays on the good side of a loss of ``by``."""

    metric: str = key("what must not get worse", kind=METRIC)
    by: float = key("a margin, as results are shown", kind=SIZE)


@dataclass(frozen=True)
class Where:
    """Only runs for which the temperature that ``rule`` fits is below a number."""

    rule: str = key("a rule with a temperature, such as source-acc+ts")
    temperature_below: float = key("what the temperature is below", kind=SIZE)


@dataclass(frozen=True)
class PlannedContrast:
    """One difference, rule − reference in one metric, by held-out place."""

    name: str = key("what the table calls it, such as `a`", kind=NAME)
    rule: str = key("the rule or method that is compared")
    reference: str = key("what is subtracted")
    metric: str = key("what is compared", kind=METRIC)
    hoped: Hoped = key("the direction that was hoped for", unset=None)
    family: str = key("contrasts that are tested together; without it an estimate only", "")
    not_worse: NotWorse | None = None  # what has to hold as well before it counts as found
    where: Where | None = None  # which runs it is about; None for all
    at: At = key("the mean over places, or the difference of the two worst places", "mean")
    params: Mapping[str, Any] = key("parameters of the rule", kind=PARAMS, unset={}, factory=dict)
    reference_params: Mapping[str, Any] = key(
        "parameters of the reference", kind=PARAMS, unset={}, factory=dict
    )

    @property
    def row(self) -> Method:
        return method(self.rule, **self.params)

    @property
    def against(self) -> Method:
        return method(self.reference, **self.reference_params)

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric, *((self.not_worse.metric,) if self.not_worse else ()))


@dataclass(frozen=True)
class ContrastSet:
    """All contrasts that were fixed together."""

    title: str
    contrasts: tuple[PlannedContrast, ...]
    note: str = ""

    @property
    def families(self) -> dict[str, tuple[PlannedContrast, ...]]:
        named = dict.fromkeys(one.family for one in self.contrasts if one.family)
        return {f: tuple(one for one in self.contrasts if one.family == f) for f in named}

    @property
    def rows(self) -> tuple[Method, ...]:
        sides = [side for one in self.contrasts for side in (one.row, one.against)]
        conditions = [method(one.where.rule) for one in self.contrasts if one.where]
        return tuple({row.identity: row for row in (*sides, *conditions)}.values())

    def as_dict(self) -> dict[str, Any]:
        contrasts = [  # without what is absent, which TOML cannot say
            {name: value for name, value in asdict(one).items() if value is not None}
            for one in self.contrasts
        ]
        return {"title": self.title, "note": self.note, "contrast": contrasts}


TOP: Final = (
    StudyKey("title", TEXT, "what the contrasts are about", ""),
    StudyKey("note", TEXT, "what a reader has to know; it is printed with the results", ""),
)


def read_contrasts(path: Path) -> ContrastSet:
    return parse_contrasts(read_toml(path, "a file of contrasts"), str(path))


def parse_contrasts(values: Mapping[str, Any], file: str) -> ContrastSet:
    top = TomlTable(values, "", file).read(TOP, beside=("contrast",))
    listed = values.get("contrast", [])
    if not isinstance(listed, list) or not listed:
        raise InputError(
            f"Expected at least one table [[contrast]] in {file}, but got none: add one.",
            code="empty",
        )
    contrasts = tuple(_contrast(one, file) for one in listed)
    names = [one.name for one in contrasts]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InputError(
            f"Expected every contrast to have its own name, but {twice[0]!r} is there "
            f"{names.count(twice[0])} times in {file}: rename one.",
            code="ambiguous",
        )
    return ContrastSet(top["title"], contrasts, top["note"])


def _contrast(content: Any, file: str) -> PlannedContrast:
    table = TomlTable(content, "contrast", file)
    values = table.read(keys_of(PlannedContrast), beside=("not_worse", "where"))
    if values["hoped"] is None:
        values["hoped"] = "higher" if higher_is_better(values["metric"]) else "lower"
    for name, kind in (("not_worse", NotWorse), ("where", Where)):
        if name in table.values:
            inner = TomlTable(table.values[name], f"contrast.{name}", file)
            values[name] = kind(**inner.read(keys_of(kind)))
    one = PlannedContrast(**values)
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
    if one.where and method(one.where.rule).calibrator is None:
        wanted = "a rule with a temperature, such as source-acc+ts"
        raise table.refuse("where.rule", wanted, one.where.rule)
