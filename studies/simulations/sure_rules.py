"""The tolerance `paired` and other objectives on whole cohorts, beside source-acc and ac-nc.

``python -m studies.simulations.sure_rules --run COHORT …`` reads finished cohorts of development
data that kept source logits, chooses by every method from all validation examples of a run, and
writes ``sure-rules.csv``: one row per run and method with the held-out results of the choice. Rows
of other cohorts stay, and those of methods that are gone. ``studies.paper.pages``
writes its tables.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.study import Pool
from checkwise.study.inference import cluster_means, numbered, two_way_means
from studies.page import DATA as STUDY_DATA
from studies.page import interval

DATA = STUDY_DATA / "sure-rules.csv"
LOSS_PP = 1.0
LOSS_NLL = 0.01
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "source-acc": ("source-acc", {}),
    "ac-nc": ("ac-nc", {}),
    "ac-nc, paired": ("ac-nc", {"tolerance": "paired"}),
    "ac, NLL and smECE": ("ac", {"objectives": ["nll", "smece"]}),
    "ac, NLL and debiased CwECE": ("ac", {"objectives": ["nll", "debiased_cwece"]}),
    "ac, smECE": ("ac", {"objectives": ["smece"]}),
    "ac, debiased ECE": ("ac", {"objectives": ["debiased_ece"]}),
}
MEASURES = ("accuracy", "nll", "cwece")
COLUMNS = ("cohort", "dataset", "run", "domain", "block", "method", "step", *MEASURES)
Rows = list[dict[str, str]]


def outcomes(path: Path) -> Iterator[dict[str, Any]]:
    """Every method's choice from every run, and its results on the held-out domain."""
    pool = Pool.of(cw.study.Cohort.open(path))
    for key in pool.keys:
        run = pool.trajectory(key)
        target = {name: np.asarray(pool.target(key)[name]) for name in MEASURES}
        place = {int(step): t for t, step in enumerate(run.steps)}
        for name, (rule, params) in METHODS.items():
            step = cw.select(run, rule, guard=False, **params).step
            yield {
                "cohort": path.name,
                "dataset": key.dataset,
                "run": str(key),
                "domain": ", ".join(key.held_out),
                "block": f"{key.hparams_seed}-{key.trial_seed}",
                "method": name,
                "step": str(step),
                **{name: f"{values[place[step]]:.6f}" for name, values in target.items()},
            }
        print(key, flush=True)


def compute(cohorts: list[Path]) -> None:
    """The file with these cohorts added, or put in the place of what it had of them."""
    known = read() if DATA.exists() else []
    for path in cohorts:
        rows = list(outcomes(path))
        known = [
            row for row in known if row["cohort"] != path.name or row["method"] not in METHODS
        ] + rows
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(known)


def read() -> Rows:
    with DATA.open(newline="") as file:
        return list(csv.DictReader(file))


def line(rows: Rows, reference: Rows) -> tuple[float, list[str]]:
    """Δ NLL, to sort by, and the cells of one method: it less the reference, run by run."""
    numbers = [
        np.array([[float(row[m]) for m in MEASURES] for row in of]) for of in (rows, reference)
    ]
    change = numbers[0] - numbers[1]
    accuracy, nll = 100 * change[:, 0], change[:, 1]
    domains = numbered([(row["dataset"], row["domain"]) for row in rows], "domain")
    blocks = numbered([(row["dataset"], row["block"]) for row in rows], "block")
    means = two_way_means(np.stack([accuracy, nll, 100 * change[:, 2]], axis=1), blocks, domains)
    intervals = zip(means.mean, *means.interval(), (2, 3, 2), strict=True)
    differs = sum(a["step"] != b["step"] for a, b in zip(rows, reference, strict=True))
    cells = [
        f"{differs} of {len(rows)}",
        *(interval(*one) for one in intervals),
        str(int((accuracy <= -LOSS_PP + 1e-9).sum())),
        str(int((nll > LOSS_NLL).sum())),
        _worst(rows, reference),
    ]
    accuracy_cell, nll_cell, cwece_cell = cells[1:4]
    ordered = [cells[0], accuracy_cell, cells[4], nll_cell, cells[5], cwece_cell, cells[6]]
    return float(means.mean[1]), ordered


def _worst(rows: Rows, reference: Rows) -> str:
    """The change of the least accuracy of any held-out domain, over blocks of the same seeds."""
    least: dict[tuple[str, str], list[float]] = {}
    for place, of in enumerate((rows, reference)):
        for row in of:
            ends = least.setdefault((row["dataset"], row["block"]), [1.0, 1.0])
            ends[place] = min(ends[place], float(row["accuracy"]))
    points = np.array([[100 * (one - other)] for one, other in least.values()])
    means = cluster_means(points, numbered(list(least), "block"))
    low, high = means.interval()
    return interval(means.mean[0], low[0], high[0], 2)


def table(rows: Rows, reference: str) -> str:
    """One table of the page: the largest rise of NLL first."""
    lines = [
        f"| cohort | method | chooses otherwise than {reference} | Δ accuracy, points | runs that "
        "lose ≥ 1 point | Δ NLL | runs whose NLL rises by > 0.01 | Δ CwECE ×100 | Δ worst domain, "
        "points |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cohort in sorted({row["cohort"] for row in rows}):
        of = {
            name: [row for row in rows if (row["cohort"], row["method"]) == (cohort, name)]
            for name in METHODS
        }
        found = {name: line(here, of[reference]) for name, here in of.items() if name != reference}
        unfavourable_first = sorted(found.items(), key=lambda one: -one[1][0])
        lines += [
            f"| {cohort} | {name} | {' | '.join(cells)} |"
            for name, (_, cells) in unfavourable_first
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", nargs="+", type=Path, metavar="COHORT")
    asked = parser.parse_args()
    if asked.run:
        compute(asked.run)


if __name__ == "__main__":
    main()
