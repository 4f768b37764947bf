"""What the paper says and a cohort contradicts, by every unit."""

from __future__ import annotations

from collections import Counter
from functools import cache

from studies.paper.judged_claims import Cell, on_cohorts
from studies.paper.paper_says import GROUPS, PaperClaim


@cache
def contradicted() -> tuple[tuple[PaperClaim, Cell], ...]:
    """What the paper claims, describes or shows in one run, with the cohort that contradicts it."""
    return tuple(
        (claim, cell)
        for claims in GROUPS.values()
        for claim in claims
        if claim.said != "left open"
        for cell in on_cohorts(claim)
        if cell.verdict == "contradicted"
    )


def clause() -> str:
    """How many claims, how much of what is no claim, and on which data; then what was found."""
    claims = {claim.title for claim, _ in contradicted() if claim.said == "claimed"}
    others = {claim.title for claim, _ in contradicted()} - claims
    data = "; ".join(dict.fromkeys(cell.data for _, cell in contradicted()))
    beside = f"{len(others)} things that it describes or shows in one run" if others else ""
    if claims:
        named = f"{len(claims)} of [the paper's claims](claims.md)"
        said = f"**Contradicted**: {' and '.join(filter(None, (named, beside)))}, on {data}."
    else:
        said = "**No claim of the paper is contradicted** ([claims](claims.md))."
        said += f" Contradicted are {beside}, on {data}." if beside else ""
    return f"{said} {_found()}"


def _found() -> str:
    """How often the paper's claims were found."""
    verdicts = [
        cell.verdict
        for claims in GROUPS.values()
        for claim in claims
        if claim.said == "claimed"
        for cell in on_cohorts(claim)
    ]
    count = Counter(verdicts)
    tested = len(verdicts) - count["cannot be tested"]
    return (
        f"Of {tested} verdicts on what it claims, {count['found']} are *found*, "
        f"{count['found in part']} *found in part* and {count['not found']} *not found*."
    )
