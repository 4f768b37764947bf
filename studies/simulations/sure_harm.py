"""Small validation sets: how often each way to choose does harm, for docs/sure.md.

``python -m studies.simulations.sure_harm --run COHORT …`` reads finished cohorts of development
data that kept source logits, takes 30, 50 and 100 validation examples of every source domain,
chooses by every method from these alone, and writes ``sure-harm.csv``: one row per run, size, draw
and method with the held-out results of the choice less those of source-acc on the same examples.
Rows of other cohorts stay, and those of methods that are gone.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.study import Pool
from checkwise.study.inference import numbered, two_way_means
from studies.page import DATA as STUDY_DATA
from studies.page import interval

DATA = STUDY_DATA / "sure-harm.csv"
SIZES = (30, 50, 100)
DRAWS = 2  # subsets of every size and run
SEED = 20261117
LOSS_PP = 1.0
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "source-acc": ("source-acc", {}),
    "ac-nc, fixed δ = 0.5": ("ac-nc", {}),
    "ac-nc, paired": ("ac-nc", {"tolerance": "paired"}),
}
MEASURES = ("accuracy", "nll", "cwece")
COLUMNS = ("cohort", "dataset", "run", "block", "n", "draw", "method", "step", "differs", *MEASURES)


def subsets(run: cw.Trajectory, key: str, draw: int) -> Iterator[tuple[int, cw.Trajectory]]:
    """Runs that saw few examples of every domain, by their number."""
    assert run.examples is not None
    saved = {int(step): run.examples.logits(int(step)) for step in run.steps[~run.diverged]}
    first = next(iter(saved.values()))
    for n in SIZES:
        random = np.random.default_rng([SEED, n, draw, *key.encode()])
        rows = {name: np.sort(random.permutation(len(y))[:n]) for name, (_, y) in first.items()}
        part = {
            step: {name: (z[rows[name]], y[rows[name]]) for name, (z, y) in domains.items()}
            for step, domains in saved.items()
        }
        yield n, cw.Trajectory.from_predictions(part)


def outcomes(path: Path) -> Iterator[dict[str, Any]]:
    """Every method's choice from every subset, and what it does on the held-out domain."""
    pool = Pool.of(cw.study.Cohort.open(path))
    for draw, key in product(range(DRAWS), pool.keys):
        target = {name: np.asarray(pool.target(key)[name]) for name in MEASURES}
        place = {int(step): t for t, step in enumerate(pool.trajectory(key).steps)}
        for n, run in subsets(pool.trajectory(key), str(key), draw):
            chosen = {
                name: cw.select(run, rule, guard=False, **params).step
                for name, (rule, params) in METHODS.items()
            }
            usual = place[chosen["source-acc"]]
            for name, step in chosen.items():
                yield {
                    "cohort": path.name,
                    "dataset": key.dataset,
                    "run": str(key),
                    "block": f"{key.hparams_seed}-{key.trial_seed}",
                    "n": n,
                    "draw": draw,
                    "method": name,
                    "step": step,
                    "differs": int(step != chosen["source-acc"]),
                    **{
                        measure: f"{values[place[step]] - values[usual]:.6f}"
                        for measure, values in target.items()
                    },
                }
        print(key, flush=True)


def cells(rows: list[dict[str, str]]) -> list[str]:
    """One line of the table: means over runs and draws, with t intervals over blocks × domains."""
    accuracy, nll, cwece = (np.array([float(row[m]) for row in rows]) for m in MEASURES)
    differs = np.array([float(row["differs"]) for row in rows])
    lost = accuracy <= -LOSS_PP / 100 + 1e-9
    columns = np.stack(
        [100 * differs, 100 * accuracy, 100 * lost, nll, 100 * (nll > 0.01), 100 * cwece], axis=1
    )
    blocks = numbered([row["block"] for row in rows], "block")
    # A run is named DATASET-ALGORITHM-DOMAIN-hH-tT.
    domains = numbered([row["run"].rsplit("-", 2)[0] for row in rows], "domain")
    means = two_way_means(columns, blocks, domains)
    low, high = means.interval()
    share = np.array([True, False, True, False, True, False])
    low, high = (np.where(share, np.clip(ends, 0, 100), ends) for ends in (low, high))
    decimals = (0, 2, 1, 3, 1, 3)
    return [
        interval(*ends, signed=not of_runs)
        for *ends, of_runs in zip(means.mean, low, high, decimals, share, strict=True)
    ]


def table(rows: list[dict[str, str]]) -> str:
    """The table of the page."""
    lines = [
        "| cohort | examples per domain | method | differs, % | Δ accuracy, points | loses ≥ 1 "
        "point, % | Δ NLL | NLL worse by > 0.01, % | Δ CwECE ×100 |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for cohort in sorted({row["cohort"] for row in rows}):
        for n in SIZES:
            for name in list(METHODS)[1:]:
                here = [
                    row
                    for row in rows
                    if (row["cohort"], row["n"], row["method"]) == (cohort, str(n), name)
                ]
                if here:
                    lines.append(f"| {cohort} | {n} | {name} | {' | '.join(cells(here))} |")
    return "\n".join(lines)


def read() -> list[dict[str, str]]:
    with DATA.open(newline="") as file:
        return list(csv.DictReader(file))


def compute(cohorts: list[Path]) -> None:
    """The file with these cohorts added, or put in the place of what it had of them."""
    known = read() if DATA.exists() else []
    for path in cohorts:
        known = [
            row for row in known if row["cohort"] != path.name or row["method"] not in METHODS
        ] + list(outcomes(path))
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(known)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", nargs="+", type=Path, metavar="COHORT")
    asked = parser.parse_args()
    if asked.run:
        compute(asked.run)


if __name__ == "__main__":
    main()
