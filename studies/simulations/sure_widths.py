"""The bounds of real runs beside the paper's.

``python -m studies.simulations.sure_widths COHORT…`` reads the source validation of cohorts with
source logits and writes ``sure-widths.csv``. Nothing held out is read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import checkwise as cw
from checkwise.statistics import Stratified
from studies.page import DATA as STUDY_DATA

DATA = STUDY_DATA / "sure-widths.csv"
RULES = ("source-acc", "ac-nc")
TOLERANCES = ("fixed", "paired")


def rows_of(cohort: Path, run: cw.Trajectory) -> list[dict[str, Any]]:
    """The bounds of every rule at one run, and how many checkpoints every tolerance keeps."""
    assert run.examples is not None
    assert run.key is not None
    sample = Stratified(run.examples.correct, np.full(len(run.domains), 1 / len(run.domains)))
    best = int(sample.mean.argmax())
    disagree = np.mean([(v != v[best]).mean(axis=1) for v in sample.values], axis=0)
    kept = {
        name: cw.select(run, "ac-nc", guard=False, tolerance=name).feasible.sum()
        for name in TOLERANCES
    }
    found = []
    for rule in RULES:
        bound = cw.select(run, rule, guard=False).guarantee()
        found.append(
            {
                "cohort": cohort.name,
                "run": str(run.key),
                "rule": rule,
                "examples": int(sample.counts.sum()),
                "checkpoints": len(run),
                "disagree_pp": round(100 * float(np.median(disagree)), 3),
                "paper_pp": round(bound.bound_pp, 4),
                "paired_pp": round(bound.tightest_pp, 4),
                **{f"kept_{name}": int(count) for name, count in kept.items()},
            }
        )
    return found


def compute(cohorts: list[Path]) -> None:
    """Rows of other cohorts stay as they are in the file."""
    known: list[Any] = pandas.read_csv(DATA).to_dict("records") if DATA.exists() else []
    rows = [row for row in known if row["cohort"] not in {cohort.name for cohort in cohorts}]
    for cohort in cohorts:
        for folder in sorted(path.parent for path in (cohort / "runs").glob("*/done")):
            rows += rows_of(cohort, cw.load(folder))
            pandas.DataFrame(rows).to_csv(DATA, index=False, lineterminator="\n")
            print(folder.name, rows[-1]["paper_pp"], rows[-1]["paired_pp"], flush=True)


def table() -> str:
    data = pandas.read_csv(DATA)
    data["ratio"] = data.paper_pp / data.paired_pp
    lines = [
        "| cohort | rule | runs | examples | paper's bound | paired bound | times narrower "
        "| least and most |",
        "|:--|:--|--:|--:|--:|--:|--:|--:|",
    ]
    for (cohort, rule), part in data.groupby(["cohort", "rule"], sort=False):
        middle = part.median(numeric_only=True)
        lines.append(
            f"| {cohort} | {rule} | {len(part)} | {middle.examples:.0f} | {middle.paper_pp:.1f} | "
            f"{middle.paired_pp:.1f} | {middle.ratio:.1f} | "
            f"{part.ratio.min():.1f} to {part.ratio.max():.1f} |"
        )
    return "\n".join(lines)


def kept() -> str:
    """How many checkpoints every tolerance keeps, as Markdown."""
    data = pandas.read_csv(DATA)
    lines = [
        "| cohort | runs | checkpoints | " + " | ".join(TOLERANCES) + " |",
        "|:--|--:|--:|" + "--:|" * len(TOLERANCES),
    ]
    for cohort, part in data[data["rule"] == RULES[0]].groupby("cohort", sort=False):
        numbers = [f"{part[f'kept_{name}'].median():.0f}" for name in TOLERANCES]
        checkpoints = f"{part['checkpoints'].median():.0f}"
        lines.append(f"| {cohort} | {len(part)} | {checkpoints} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) > 1:
        compute([Path(name) for name in sys.argv[1:]])


if __name__ == "__main__":
    main()
