"""What the study says, in sentences that are checked against its numbers when the page is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from caveats import unfavourable
from contrast import DEVELOPMENT, EVALUATION, Claim, change
from result_tables import Results
from verdicts import ACCURACY, MARGIN, NLL

from checkwise.study.clusters import clusters
from checkwise.study.equivalence import equivalence


def claims(results: Results) -> str:
    """Two lists; building the page fails where a sentence has become untrue."""
    lines = []
    for head, found in (
        ("**Holds** (all but the first is exploratory):", favourable(results)),
        ("**Does not hold, or not as one might read it:**", unfavourable(results)),
    ):
        lines += [head, ""]
        for claim in found:
            if not all(claim.holds):
                raise SystemExit(f"Expected the numbers to bear out: {claim.text}")
            lines.append(f"- {claim.text}")
        lines.append("")
    return "\n".join(lines).strip()


def favourable(results: Results) -> Iterator[Claim]:
    """What speaks for choosing by reliability."""
    pool = results.main
    ours, theirs = change(pool, EVALUATION), change(pool, DEVELOPMENT)
    nll, accuracy = ours[NLL], ours[ACCURACY]
    by_algorithm = [c for c in results.table("by-algorithm").cells if c.measure == NLL]
    yield Claim(
        f"Target NLL falls on OfficeHome, {nll}, by the interval that the protocol lets decide; so "
        f"it does on the development data, {theirs[NLL]}. The mean change is negative for all five "
        "algorithms on both data sets.",
        (
            nll.high < 0,
            theirs[NLL].high < 0,
            len(by_algorithm) == 10,
            all(cell.value < 0 for cell in by_algorithm),
        ),
    )
    harmless = _equivalence(results)
    lost = {
        data: results.table("losses").value(data, "ac-nc − source-acc", measure="lose_1pp")
        for data in ("OfficeHome", "PACS")
    }
    yield Claim(
        f"Target accuracy on OfficeHome is equivalent within ±{MARGIN} points (p = "
        f"{harmless:.1g}). Single runs do lose: {lost['OfficeHome']:.0f} of {accuracy.n} a point "
        f"or more there, {lost['PACS']:.0f} of {theirs[NLL].n} on PACS.",
        (harmless < 0.05, accuracy.low > -MARGIN, min(lost.values()) > 0),
    )
    ranks = results.table("rank-correlation")
    utility, plain = (
        [ranks.value(data, proxy, measure="rho") for data in ("OfficeHome", "PACS")]
        for proxy in ("AC utility", "source accuracy")
    )
    yield Claim(
        "Inside the feasible set the order of source reliability carries over to the target (mean "
        f"ρ {utility[0]:.2f} on OfficeHome, {utility[1]:.2f} on PACS); the order of source "
        f"accuracy does not ({plain[0]:.2f} and {plain[1]:.2f}).",
        (min(utility) > 0.4, max(map(abs, plain)) < 0.1),
    )


def _equivalence(results: Results) -> float:
    keep = np.array([role == EVALUATION for role in results.main.roles])
    found = results.main.differences("ac-nc", "source-acc", [ACCURACY], keep)
    groups = clusters(found.keys, "block")
    return equivalence(found.values[:, 0], groups, MARGIN, higher_is_better=True).p_equivalent
