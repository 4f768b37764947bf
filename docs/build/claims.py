"""What the study says, in sentences that are checked against its numbers when the page is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from caveats import unfavourable
from contrast import DEVELOPMENT, EVALUATION, Claim, change
from result_tables import Results
from verdicts import ACCURACY, MARGIN, NLL

from checkwise.statistics.equivalence import equivalence
from checkwise.study.units import SEED_UNITS, clusters


def claims(results: Results) -> str:
    """Two lists; building the page fails where a sentence has become untrue."""
    lines = []
    for head, found in (
        ("**Holds** (all but the first point is exploratory):", favourable(results)),
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
        f"The registered criterion is met: by block, target NLL on OfficeHome changes by {nll}, "
        "and accuracy is not inferior. That NLL falls in general does not follow (see the first "
        "point below). In these runs the mean change is negative for all five algorithms on both "
        "data sets.",
        (
            nll.block.high < 0,
            nll.mark == "†",
            accuracy.block.low > -MARGIN,
            theirs[NLL].mean < 0,
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
        f"Target accuracy on OfficeHome is equivalent within ±{MARGIN} points, by block, draw, "
        f"split and domain alike (largest p = {max(harmless.values()):.1g}). Single runs do lose: "
        f"{lost['OfficeHome']:.0f} of {accuracy.n} a point or more there, {lost['PACS']:.0f} of "
        f"{theirs[NLL].n} on PACS.",
        (max(harmless.values()) < 0.05, accuracy.block.low > -MARGIN, min(lost.values()) > 0),
    )
    ranks = results.table("rank-correlation")
    utility, plain = (
        [ranks.value(data, proxy, measure="rho") for data in ("OfficeHome", "PACS")]
        for proxy in ("AC utility", "source accuracy")
    )
    yield Claim(
        "In these runs the order of source reliability inside the feasible set carries over to the "
        f"target (mean ρ {utility[0]:.2f} on OfficeHome, {utility[1]:.2f} on PACS); the order of "
        f"source accuracy does not ({plain[0]:.2f} and {plain[1]:.2f}).",
        (min(utility) > 0.4, max(map(abs, plain)) < 0.1),
    )


def _equivalence(results: Results) -> dict[str, float]:
    """The p-value of equivalent accuracy by every unit."""
    keep = np.array([role == EVALUATION for role in results.main.roles])
    found = results.main.differences("ac-nc", "source-acc", [ACCURACY], keep)
    return {
        unit: equivalence(
            found.values[:, 0], clusters(found.keys, unit), MARGIN, higher_is_better=True
        ).p_equivalent
        for unit in (*SEED_UNITS, "domain")
    }
