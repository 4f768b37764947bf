"""Which of the paper's claims hold on which cohort: study/claims.md, from the kept outcomes.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from checkwise.study import SEED_UNITS, clusters
from studies.page import DOCS, fill
from studies.paper.beside import grid
from studies.paper.cohorts import there
from studies.paper.judged_claims import VERDICTS, on_cohorts, shown_as
from studies.paper.paper_says import GROUPS, printed

PAGE = DOCS / "study" / "claims.md"


def parts() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {
        "own-seeds": own_seeds(),
        "uncorrected": uncorrected(),
        "summary": summary(),
        **{name: group(name) for name in GROUPS},
    }


def own_seeds() -> str:
    """The data on which no two runs share a seed, so that groups by seeds are single runs."""
    alone = [
        shown_as(described.data)
        for described, kept in there()
        if all(clusters(kept.keys, unit).count == len(kept.keys) for unit in SEED_UNITS)
    ]
    return (
        f"Some cohorts give every run its own seeds ({'; '.join(alone)}). There blocks, draws and "
        "splits are single runs."
    )


def uncorrected() -> str:
    """How many verdicts there are, and how many may be chance."""
    tested = [
        claim.side
        for claims in GROUPS.values()
        for claim in claims
        for cell in on_cohorts(claim)
        if cell.verdict != "cannot be tested"
    ]
    of_zero = sum(side != "small" for side in tested)
    return (
        f"Nothing is corrected for the number of claims. Below are {len(tested)} verdicts, "
        f"{of_zero} of them about zero. Were all these changes truly zero, about {of_zero // 20} "
        "of the printed intervals would exclude it."
    )


def summary() -> str:
    """Claims by verdict: the data of which each was shown."""
    rows = []
    for claims in GROUPS.values():
        for claim in claims:
            cells = list(on_cohorts(claim))
            rows.append(
                (claim, ["; ".join(c.data for c in cells if c.verdict == v) for v in VERDICTS])
            )
    used = [i for i in range(len(VERDICTS)) if any(named[i] for _, named in rows)]
    lines = [(claim.title, claim.said, *(named[i] for i in used)) for claim, named in rows]
    return grid(("claim", "the paper", *(VERDICTS[i] for i in used)), lines, 2 + len(used))


def group(name: str) -> str:
    """Numbers of some claims: one row for the paper, one for every cohort that has any."""
    claims = GROUPS[name]
    columns = {claim.title: list(on_cohorts(claim)) for claim in claims}
    rows = [("the paper, over runs", "", "", *(printed(claim) for claim in claims))]
    for i, (described, _) in enumerate(there()):
        cells = [column[i] for column in columns.values()]
        found = [cell.found for cell in cells if cell.found is not None]
        if found:
            counts = dict.fromkeys(each.counts for each in found)
            named = (shown_as(described.data), described.role, " / ".join(counts))
            rows.append((*named, *(str(cell) for cell in cells)))
    return grid(("data", "role", "domains, runs", *columns), rows, 3)


def main() -> None:
    for name, content in parts().items():
        fill(PAGE, name, content)


if __name__ == "__main__":
    main()
