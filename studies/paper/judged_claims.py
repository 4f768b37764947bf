"""One of the paper's claims on every cohort: the change, and what every unit says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from checkwise.study import scale
from checkwise.words import listed
from studies.paper.cohorts import FINE_TUNED, FIVE, Described, there
from studies.paper.effects import FEW, Effect, of_values
from studies.paper.outcomes import Outcomes, read
from studies.paper.paper_says import CASES, MARGIN, PaperClaim, Side

Verdict = Literal[
    "found",
    "found in part",
    "not found",
    "contradicted in part",
    "contradicted",
    "cannot be tested",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
IN_PART: dict[Verdict, Verdict] = {
    "found": "found in part",
    "contradicted": "contradicted in part",
}
BATCHNORM = "swad-nobn"  # without live BatchNorm it is `swad`


@dataclass(frozen=True, eq=False)
class Cell:
    """One claim on one cohort; ``against`` says what does not bear out the interval printed."""

    data: str
    role: str
    verdict: Verdict
    found: Effect | None
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.found is None:
            return ""
        words = f"{self.found.plain}, {self.verdict}"
        if self.against:
            words += f" (not over {listed(self.found.named(self.against), 'or')})"
        return f"**{words}**" if self.verdict in ("found", "contradicted") else words


def on_cohorts(claim: PaperClaim) -> Iterator[Cell]:
    """A claim on every cohort, in the order of the tables."""
    for described, kept in there():
        found = next(filter(None, (_effect(claim, one) for one in first(described, kept))), None)
        data = shown_as(described.data)
        if found is None or len(found.names) < FEW:
            yield Cell(data, described.role, "cannot be tested", found)
        else:
            verdict, against = judged(claim, found)
            yield Cell(data, described.role, verdict, found, against)


def _effect(claim: PaperClaim, kept: Outcomes) -> Effect | None:
    names = [name for name in (claim.rule, claim.reference) if name]
    if BATCHNORM in names and kept.cohort not in FINE_TUNED:
        return None
    if not all(claim.metric in kept.values.get(name, {}) for name in names):
        return None
    ours, theirs = (
        kept.values[name][claim.metric] if name else np.full(len(kept.keys), claim.chance)
        for name in (claim.rule, claim.reference)
    )
    factor = 100 if claim.metric in CASES else scale(claim.metric)
    values = factor * (ours - theirs)
    have = np.isfinite(values)
    keys = [key for key, there_ in zip(kept.keys, have.tolist(), strict=True) if there_]
    return of_values(claim.metric, keys, values[have]) if keys else None


def judged(claim: PaperClaim, found: Effect) -> tuple[Verdict, tuple[str, ...]]:
    """What every unit says together, and the units that do not bear out the interval printed."""
    printed = _lies(claim.side, *found.interval)
    if printed == "not found":
        return printed, ()
    against = tuple(
        unit for unit, ends in found.units.items() if _lies(claim.side, *ends) != printed
    )
    return (IN_PART[printed] if against else printed), against


def _lies(side: Side, low: float, high: float) -> Verdict:
    """What one interval says of a claim."""
    if side == "small":
        if low > -MARGIN and high < MARGIN:
            return "found"
        return "contradicted" if low > MARGIN or high < -MARGIN else "not found"
    if not (low > 0 or high < 0):
        return "not found"
    return "found" if (high < 0) == (side == "below") else "contradicted"


def first(described: Described, kept: Outcomes) -> list[Outcomes]:
    """The outcomes of a cohort, those of five algorithms first where they are kept."""
    five = FIVE.get(described.name)
    return [kept] if five is None else [read(five.name), kept]


def shown_as(data: str) -> str:
    """The data of a cohort whose journals of five algorithms come first."""
    return data.removesuffix(", ERM")
