"""What a paired difference may be called: one criterion for the command line, page and study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from checkwise.study.compare import Contrast, higher_is_better
from checkwise.study.units import DOMAIN_UNITS, SEED_UNITS, deciding

Direction = Literal["better", "worse", "unclear"]
Reach = Literal["new domains", "these domains", "these runs"]


@dataclass(frozen=True)
class Verdict:
    """Whether a rule is better or worse than the reference, and for what that is shown.

    Args:
        direction: "unclear" unless the interval over runs and those of every unit with more than
            two groups (block, draw, trial, domain, block × domain) lie on the mean's side of zero.
            Where the interval that is shown counts places, it has to lie there as well.
        reach: how far a difference reaches. "these runs" where no unit of seeds has enough groups,
            "these domains" where the held-out domains are too few, or do not bear it out.
        against: units that can decide and do not bear it out, "run" among them.
        too_few: units with too few groups to decide.
    """

    direction: Direction
    reach: Reach
    against: tuple[str, ...]
    too_few: tuple[str, ...]


def verdict(contrast: Contrast) -> Verdict:
    """The criterion of docs/statistics.md, applied to one contrast."""
    decisive = deciding(contrast.units, crossed=contrast.crossed)
    intervals = {
        "run": [contrast.over_runs or (contrast.low, contrast.high)],
        **{unit: [(one.low, one.high)] for unit, one in decisive.items()},
    }
    if contrast.over in ("places", "domains"):
        intervals.setdefault("domain", []).append((contrast.low, contrast.high))
    against = tuple(
        unit
        for unit, ends in intervals.items()
        if not all(_bears_out(contrast.mean, low, high) for low, high in ends)
    )
    return Verdict(
        _direction(contrast, against),
        _reach(tuple(decisive), against),
        against,
        tuple(unit for unit, one in contrast.units.items() if not one.decides),
    )


def _bears_out(mean: float, low: float, high: float) -> bool:
    """Whether an interval lies on the mean's side of zero; never without an interval."""
    return low > 0 if mean > 0 else high < 0


def _direction(contrast: Contrast, against: tuple[str, ...]) -> Direction:
    if against:
        return "unclear"
    return "better" if (contrast.mean > 0) == higher_is_better(contrast.metric) else "worse"


def _reach(decisive: tuple[str, ...], against: tuple[str, ...]) -> Reach:
    if not any(unit in decisive for unit in SEED_UNITS):
        return "these runs"
    shown = "domain" in decisive and not any(unit in against for unit in DOMAIN_UNITS)
    return "new domains" if shown else "these domains"
