"""The claims of the paper that a cohort contradicts, by every unit."""

from __future__ import annotations

from functools import cache

from paper_claims import GROUPS, Cell, PaperClaim, on_cohorts


@cache
def contradicted() -> tuple[tuple[PaperClaim, Cell], ...]:
    """Every claim with the cohort that contradicts it; not what the paper leaves open."""
    return tuple(
        (claim, cell)
        for claims in GROUPS.values()
        for claim in claims
        if not claim.open
        for cell in on_cohorts(claim)
        if cell.verdict == "contradicted"
    )


def clause() -> str:
    """How many claims, and on which data."""
    found = contradicted()
    data = "; ".join(dict.fromkeys(cell.data for _, cell in found))
    count = len({claim.title for claim, _ in found}) or "none"
    words = f"{count} of [the paper's claims](claims.md)"
    return f"**Contradicted**: {words}{f' (on {data})' if found else ''}."
