"""What a paired difference may be called: one criterion for the command line, page and study."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Literal

from checkwise.study.compare import Contrast, higher_is_better
from checkwise.study.units import DOMAIN_UNITS, MANY_PLACES, SEED_UNITS

Direction = Literal["better", "worse", "unclear"]
Reach = Literal["new domains", "these domains", "these runs"]


@dataclass(frozen=True)
class Verdict:
    """Whether a rule is better or worse than the reference, and for what that is shown.

    Args:
        direction: "unclear" unless the interval over runs and those by block, draw and trial all
            exclude zero; of the last three those with enough groups. Where there are many held-out
            places, the interval over places has to exclude zero as well.
        reach: how far a difference reaches. "these runs" where no unit of seeds has enough groups,
            "these domains" where the intervals with held-out domains do not exclude zero as well.
        against: units that can decide and whose interval includes zero, "run" among them.
        too_few: units with too few groups to decide.
    """

    direction: Direction
    reach: Reach
    against: tuple[str, ...]
    too_few: tuple[str, ...]


def verdict(contrast: Contrast) -> Verdict:
    """The criterion of docs/statistics.md, applied to one contrast."""
    units = contrast.units
    deciding = [unit for unit in units if units[unit].decides]
    against = [unit for unit in deciding if units[unit].includes_zero]
    low, high = contrast.over_runs or (contrast.low, contrast.high)
    if isnan(low) or low <= 0 <= high:
        against.insert(0, "run")
    return Verdict(
        _direction(contrast, against),
        _reach(deciding, against),
        tuple(against),
        tuple(unit for unit in units if unit not in deciding),
    )


def _direction(contrast: Contrast, against: list[str]) -> Direction:
    domains = contrast.units.get("domain")
    by_place = ("domain",) if domains is not None and domains.groups >= MANY_PLACES else ()
    if any(unit in against for unit in ("run", *SEED_UNITS, *by_place)):
        return "unclear"
    return "better" if (contrast.mean > 0) == higher_is_better(contrast.metric) else "worse"


def _reach(deciding: list[str], against: list[str]) -> Reach:
    if not any(unit in deciding for unit in SEED_UNITS):
        return "these runs"
    shown = "domain" in deciding and not any(unit in against for unit in DOMAIN_UNITS)
    return "new domains" if shown else "these domains"
