"""The registered contrast: its numbers, and success or not by the words of the protocol."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from beside import grid
from contrast import change

from checkwise.report.measures import title
from checkwise.study.multiplicity import holm
from checkwise.study.pool import Pool
from checkwise.study.registered import choice_of, registered
from checkwise.study.setting import Setting

MARGIN = 0.5
NLL, ACCURACY, SECONDARY = "target_nll", "target_accuracy", ("target_cwece", "target_ece")
ROLES = {"OfficeHome": "evaluation", "PACS": "development"}


def registered_contrast(pool: Pool) -> str:
    """Every number that the protocol asks for, as a table."""
    lines = []
    for data, role in ROLES.items():
        found = change(pool, role)
        p = holm(np.array([found[metric].p for metric in SECONDARY]))
        corrected = dict(zip(SECONDARY, p.tolist(), strict=True))
        for metric in (NLL, *SECONDARY, ACCURACY):
            row = found[metric]
            lines.append(
                (
                    *(data, title(metric), row.text(row.level), row.with_runs, str(row)),
                    f"{row.p:.4f}",
                    f"{corrected[metric]:.4f}" if metric in corrected else "",
                    " / ".join(map(str, row.counts)),
                )
            )
    header = (
        *("data", "metric", "source-acc", "change [95%, runs]", "change [95%, cluster-t]"),
        *("p, cluster-t", "p, Holm", "runs better / equal / worse"),
    )
    return grid(header, lines, 2)


def verdict(pool: Pool, cohort: Path) -> str:
    """Success or not, by the words of the protocol."""
    found = change(pool, "evaluation")
    nll, accuracy = found[NLL], found[ACCURACY]
    below, harmless = nll.high < 0, accuracy.low > -MARGIN
    state = registered(cohort, choice_of(Setting("ac-nc")))
    return (
        f"`ac-nc` on {nll.n} OfficeHome runs ({nll.clusters} clusters): {state}\n\n"
        f"1. Target NLL {nll}: the interval "
        f"{'lies below zero. **Met.**' if below else 'does not lie below zero. **Not met.**'}\n"
        f"2. Target accuracy {accuracy} points: its lower end is "
        f"{'above' if harmless else 'not above'} −{MARGIN}. "
        f"**{'Met' if harmless else 'Not met'}.**\n\n"
        f"By the protocol this is {'a **success**' if below and harmless else '**no success**'}."
    )
