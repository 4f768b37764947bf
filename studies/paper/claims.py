"""What else the study says, in sentences that are checked when the page is built."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkwise.study import SEED_UNITS, clusters
from checkwise.study.inference import equivalence
from studies.paper.answer import points
from studies.paper.caveats import unfavourable
from studies.paper.contrast import DEVELOPMENT, EVALUATION, Claim, change
from studies.paper.result_tables import Results
from studies.paper.verdicts import ACCURACY, MARGIN, NLL


def claims(results: Results) -> str:
    """Two lists, the unfavourable one first."""
    return "\n\n".join(
        (
            "**Against it, or narrowing it:**",
            points(unfavourable(results)),
            "**For it:**",
            points(favourable(results)),
        )
    )


def favourable(results: Results) -> Iterator[Claim]:
    """What speaks for choosing by reliability."""
    pool = results.main
    ours, theirs = change(pool, EVALUATION), change(pool, DEVELOPMENT)
    accuracy = ours[ACCURACY]
    by_algorithm = [c for c in results.table("by-algorithm").cells if c.measure == NLL]
    yield Claim(
        "**Every algorithm.** The mean change in NLL is negative for all five algorithms on both "
        f"data sets. Over all of them it is {ours[NLL]} on OfficeHome and {theirs[NLL]} on PACS.",
        (
            ours[NLL].mark == "†",
            theirs[NLL].mark == "†",
            max(ours[NLL].mean, theirs[NLL].mean) < 0,
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
        f"**Accuracy.** Target accuracy on OfficeHome is equivalent within ±{MARGIN} points, by "
        f"block, draw, split and domain (largest p = {max(harmless.values()):.1g}). Single runs do "
        f"lose a point or more: {lost['OfficeHome']:.0f} of {accuracy.n} there, {lost['PACS']:.0f} "
        f"of {theirs[NLL].n} on PACS.",
        (max(harmless.values()) < 0.05, accuracy.block.low > -MARGIN, min(lost.values()) > 0),
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
