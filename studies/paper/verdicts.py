"""The contrast that the first study registered: every number that its protocol asks for."""

from __future__ import annotations

import numpy as np

from checkwise.study import Pool
from checkwise.study.inference import holm
from checkwise.study.tables import column_title
from studies.paper.beside import grid
from studies.paper.contrast import change

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
