"""What the study measured of each recipe, read from the table that is shipped with the package.

``docs/build/advice.py`` computes the table from the packed results; nothing in it is typed in but
what is marked as quoted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.text import counted, listed, number

FILE: Final = "effects.json"
SCHEMA: Final = 1
_GROUPS: Final = {
    "run": "runs",
    "block": "blocks of seeds",
    "draw": "draws of hyperparameters",
    "trial": "splits",
    "domain": "held-out domains",
    "block_domain": "blocks of seeds × held-out domains",
}


@dataclass(frozen=True)
class Interval:
    """A 95% interval with groups of runs as the unit."""

    unit: str
    groups: int
    low: float
    high: float


@dataclass(frozen=True)
class Effect:
    """What a recipe changed on unseen domains, paired by run.

    Attributes:
        recipe: what was done.
        method: the row of ``checkwise compare`` that did it.
        against: what it is compared with.
        metric: ``target_nll`` or ``target_accuracy`` (in points).
        data, role: on what, and whether it is development or evaluation data.
        runs: how many, where known.
        level: the metric's mean under ``against``; None where it was not given.
        mean: the mean change.
        interval: the interval that decides; None where none was kept.
        direction: "better", "worse", "unclear", or "quoted" where nobody here computed it.
        reach: for what a difference is shown, in words; "" where it is unclear.
        not_borne_out: units whose interval includes zero.
        quoted: who reported it, where it is not ours.
    """

    recipe: str
    method: str
    against: str
    metric: str
    data: str
    role: str
    runs: int | None
    level: float | None
    mean: float
    interval: Interval | None
    direction: str
    reach: str
    not_borne_out: tuple[str, ...] = ()
    quoted: str = ""

    @property
    def change(self) -> str:
        """The mean change and its interval, in figures."""
        decimals, unit = (2, " points") if self.metric == "target_accuracy" else (3, "")
        text = number(self.mean, decimals, signed=True)
        if self.interval is not None:
            ends = [number(end, decimals) for end in (self.interval.low, self.interval.high)]
            text += f" [{', '.join(ends)}]"
        return text + unit

    @property
    def strength(self) -> str:
        """How far to trust it, in words."""
        if self.quoted:
            return f"quoted from {self.quoted}"
        if self.interval is None:
            return "its interval was not kept"
        if self.interval.low == self.mean == self.interval.high:
            return "the same in every run"
        if self.direction == "unclear" and self.interval.low <= 0 <= self.interval.high:
            return "not shown"
        if self.direction == "unclear":
            others = listed([_GROUPS[unit] for unit in self.not_borne_out], "or")
            return f"not shown: intervals over {others} include zero"
        worse = "worse, " if self.direction == "worse" else ""
        return f"{worse}shown for {self.reach}"

    def __str__(self) -> str:
        """The change, what its interval counts, and its strength."""
        name = {"target_accuracy": "accuracy", "target_nll": "NLL"}[self.metric]
        unit = ""
        if self.interval is not None:
            crossed = self.interval.unit == "block_domain"  # groups of two kinds at once
            unit = f" over {'' if crossed else f'{self.interval.groups} '}"
            unit += _GROUPS[self.interval.unit]
        return f"{name} {self.change}{unit} ({self.strength})"

    @property
    def about(self) -> str:
        """What was measured on what."""
        runs = "" if self.runs is None else f", {counted(self.runs, 'run')}"
        return f"{self.data}, {self.role} data{runs}, {self.method} − {self.against}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        interval = self.interval and {
            "unit": self.interval.unit,
            "groups": self.interval.groups,
            "low": self.interval.low,
            "high": self.interval.high,
            "level": 0.95,
        }
        return {
            "recipe": self.recipe,
            "method": self.method,
            "against": self.against,
            "metric": self.metric,
            "data": self.data,
            "role": self.role,
            "runs": self.runs,
            "level": self.level,
            "mean": self.mean,
            "interval": interval,
            "direction": self.direction,
            "reach": self.reach,
            "not_borne_out": list(self.not_borne_out),
            "quoted": self.quoted,
        }


def lines(effects: Sequence[Effect]) -> list[str]:
    """One line for all metrics of one comparison."""
    by_comparison: dict[str, list[str]] = {}
    for effect in effects:
        by_comparison.setdefault(effect.about, []).append(str(effect))
    return [f"{about}: {'; '.join(changes)}." for about, changes in by_comparison.items()]


@dataclass(frozen=True)
class Evidence:
    """All that is known, and what it does not reach.

    Attributes:
        effects: every effect, ours before quoted ones.
        expected: recipe → change of the NLL on unseen domains relative to its level, on the runs on
            which all recipes were measured; steps are put in this order.
        ordered_by: what these runs are.
        no_better_than: recipe → a simpler one that it was not shown to be better than; the simpler
            one comes first.
        fewest_errors: data → validation errors at the best checkpoint, in the run with fewest.
        saturated: what others report where validation is saturated.
        groups: what validation on whole groups did, in a sentence.
        scope: what the runs are, in a sentence.
    """

    effects: tuple[Effect, ...]
    expected: Mapping[str, float]
    ordered_by: str
    no_better_than: Mapping[str, str]
    fewest_errors: Mapping[str, int]
    saturated: str
    groups: str
    scope: str

    def of(self, recipe: str) -> tuple[Effect, ...]:
        """The effects of one recipe."""
        return tuple(effect for effect in self.effects if effect.recipe == recipe)


@cache
def read() -> Evidence:
    """The shipped table."""
    record = json.loads(files("checkwise.advice").joinpath(FILE).read_text(encoding="utf-8"))
    if record["schema"] != SCHEMA:
        raise InputError(
            f"Expected {FILE} of schema {SCHEMA}: install checkwise again.", code="damaged"
        )
    return Evidence(
        tuple(_effect(values) for values in record["effects"]),
        record["expected"],
        record["ordered_by"],
        record["no_better_than"],
        record["fewest_errors"],
        record["saturated"],
        record["groups"],
        record["scope"],
    )


def _effect(values: Mapping[str, Any]) -> Effect:
    interval = values["interval"]
    known = {name: value for name, value in (interval or {}).items() if name != "level"}
    return Effect(
        **{
            **values,
            "interval": Interval(**known) if interval else None,
            "not_borne_out": tuple(values["not_borne_out"]),
        }
    )
