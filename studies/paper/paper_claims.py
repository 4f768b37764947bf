"""Which of the paper's claims hold on which cohort, from the kept outcomes."""

from __future__ import annotations

from studies.paper.beside import grid
from studies.paper.cohorts import there
from studies.paper.judged_claims import VERDICTS, on_cohorts, shown_as
from studies.paper.paper_says import GROUPS, printed


def parts() -> dict[str, str]:
    """Every table by name."""
    return {
        "summary": summary(),
        **{name: group(name) for name in GROUPS},
    }


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


def counts() -> str:
    """The same with numbers of data."""
    lines = []
    for claims in GROUPS.values():
        for claim in claims:
            found = [cell.verdict for cell in on_cohorts(claim)]
            tested = len(found) - found.count("cannot be tested")
            said = [str(found.count(verdict) or "") for verdict in VERDICTS[:-1]]
            lines.append((claim.title, claim.said, str(tested), *said))
    return grid(("claim", "the paper", "tested on", *VERDICTS[:-1]), lines, 2)


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
