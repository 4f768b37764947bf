"""``checkwise status``: how far the runs of a cohort are."""

from __future__ import annotations

import json
from collections import Counter

from checkwise.cli import printing
from checkwise.cli.options import AsJson, CohortFolder


def command(path: CohortFolder, as_json: AsJson = False) -> None:
    """Which runs of DIR are finished, running, interrupted, failed or waiting."""
    from checkwise.store.cohort import open_cohort
    from checkwise.sweep.status import cohort_status

    cohort = open_cohort(path)
    runs = cohort_status(cohort)
    counts = Counter(run.state for run in runs)
    if as_json:
        content = {
            "schema": 1,
            "name": cohort.name,
            "role": cohort.role,
            "counts": dict(counts),
            "runs": [
                {
                    "run": run.key.as_dict(),
                    "state": run.state,
                    "records": run.records,
                    "planned": run.planned,
                    "reason": run.reason,
                }
                for run in runs
            ],
        }
        print(json.dumps(content, allow_nan=False))
        return
    out = printing.console()
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    out.print(f"{cohort.name} ({cohort.role}): {len(runs)} runs, {summary}")
    open_runs = [run for run in runs if run.state not in ("finished", "waiting")]
    if open_runs:
        rows = [
            (str(run.key), run.state, f"{run.records}/{run.planned}", run.reason or "")
            for run in open_runs
        ]
        header = ("run", "state", "records", "reason")
        out.print(printing.table(header, rows, left=("run", "state", "reason")))
