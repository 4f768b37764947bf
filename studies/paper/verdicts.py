"""The registered contrast: its numbers, and the verdict by the words of the protocol."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from checkwise.study import Pool, choice_of, registered_first
from checkwise.study.inference import holm
from checkwise.study.tables import column_title
from studies.paper.beside import grid
from studies.paper.contrast import EVALUATION, Change, change

MARGIN = 0.5
NLL, ACCURACY, SECONDARY = "target_nll", "target_accuracy", ("target_cwece", "target_ece")
ROLES = {"OfficeHome": "evaluation", "PACS": "development"}


def registered_contrast(pool: Pool) -> str:
    """Every number that the protocol asks for, as a table."""
    lines = []
    for data, role in ROLES.items():
        found = change(pool, role)
        p = holm(np.array([found[metric].block.p for metric in SECONDARY]))
        corrected = dict(zip(SECONDARY, p.tolist(), strict=True))
        for metric in (NLL, *SECONDARY, ACCURACY):
            row = found[metric]
            lines.append(
                (
                    *(data, column_title(metric), row.text(row.level), row.with_runs, str(row)),
                    f"{row.block.p:.4f}",
                    f"{corrected[metric]:.4f}" if metric in corrected else "",
                    f"{row.row.wins} / {row.row.ties} / {row.row.losses}",
                )
            )
    header = (
        *("data", "metric", "source-acc", "change [95%, runs]", "change [95%, cluster-t]"),
        *("p, cluster-t", "p, Holm", "runs better / equal / worse"),
    )
    return grid(header, lines, 2)


def verdict(pool: Pool, cohort: Path) -> str:
    """Whether the registered criterion is met, and what the other units say of it."""
    found = change(pool, EVALUATION)
    nll, accuracy = found[NLL], found[ACCURACY]
    below, harmless = nll.block.high < 0, accuracy.block.low > -MARGIN
    state = registered_first(cohort, choice_of("ac-nc"))
    return (
        f"`ac-nc` on {nll.n} OfficeHome runs ({nll.block.groups} blocks): {state}\n\n"
        f"1. Target NLL {nll}: the interval "
        f"{'lies below zero. **Met.**' if below else 'does not lie below zero. **Not met.**'}\n"
        f"2. Target accuracy {accuracy} points: its lower end is "
        f"{'above' if harmless else 'not above'} −{MARGIN}. "
        f"**{'Met' if harmless else 'Not met'}.**\n\n"
        f"**{outcome(nll, met=below and harmless)}**"
    )


def outcome(nll: Change, *, met: bool) -> str:
    """The verdict in one line: what was registered, then whether the other units agree."""
    registered_as = f"{'Met' if met else 'Not met'} by the registered criterion"
    if nll.against:
        return f"{registered_as}; not borne out by {nll.not_borne_out_by}."
    return f"{registered_as}; borne out by draws, splits and domains."
