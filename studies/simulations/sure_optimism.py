"""Simulate how much selection flatters a choice, and whether the correction works.

``python -m studies.simulations.sure_optimism --run`` simulates and writes ``sure-optimism.csv``;
``tests/docs`` repeats a cell with fewer samples.
"""

from __future__ import annotations

import argparse
import csv
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.records import Examples, Outcomes
from checkwise.words import number
from studies.page import DATA as STUDY_DATA

DATA = STUDY_DATA / "sure-optimism.csv"
CHECKPOINTS, DOMAINS = 51, 3
SIZES = (50, 200, 1000)
SAMPLES = 200
RULES = ("source-acc", "ac-nll")
SEED = 20261117
Sharpness = np.ndarray | float
SHARED = 0.8  # of the variance of an example's margin, shared by all checkpoints
COLUMNS = ("n", "rule", "metric", "samples", "measured", "error", "corrected", "left", "covered")


def margins(steps: int) -> np.ndarray:
    """The mean margin of every checkpoint: it rises, then stays on a plateau that wavers."""
    t = np.arange(steps)
    return 1.0 - np.exp(-t / 6) + 0.02 * np.sin(t / 3)


def _column(sharpness: Sharpness) -> np.ndarray:
    return np.broadcast_to(sharpness, (CHECKPOINTS,))[:, None]


def truth(mean: np.ndarray | None = None, sharpness: Sharpness = 1.0) -> dict[str, np.ndarray]:
    """Accuracy and mean loss of the population: margins are normal with variance 1.

    Checkpoints differ in their mean margin, and in the sharpness that losses multiply it by.
    """
    mean = margins(CHECKPOINTS) if mean is None else mean
    z, weight = np.polynomial.hermite_e.hermegauss(201)
    at = mean[:, None] + np.sort(z)
    weight = (weight / weight.sum())[np.argsort(z)]
    from scipy.special import ndtr

    return {"accuracy": ndtr(mean), "nll": np.log1p(np.exp(-2 * _column(sharpness) * at)) @ weight}


def sample(
    n: int,
    random: np.random.Generator,
    mean: np.ndarray | None = None,
    sharpness: Sharpness = 1.0,
) -> cw.Trajectory:
    """A run of correlated checkpoints on ``n`` examples per domain."""
    mean = margins(CHECKPOINTS) if mean is None else mean
    correct, losses = [], []
    for _ in range(DOMAINS):
        shared = random.normal(size=n) * np.sqrt(SHARED)
        moving = np.empty((CHECKPOINTS, n))
        moving[0] = random.normal(size=n)
        for t in range(1, CHECKPOINTS):
            moving[t] = 0.8 * moving[t - 1] + 0.6 * random.normal(size=n)
        margin = mean[:, None] + shared + np.sqrt(1 - SHARED) * moving
        correct.append(margin > 0)
        losses.append(np.log1p(np.exp(-2 * _column(sharpness) * margin)))
    domains = tuple(f"domain {e}" for e in range(DOMAINS))
    steps = 100 * np.arange(CHECKPOINTS)
    return cw.Trajectory(
        steps=steps,
        domains=domains,
        values={
            "accuracy": np.stack([one.mean(axis=1) for one in correct], axis=1),
            "nll": np.stack([one.mean(axis=1) for one in losses], axis=1),
        },
        counts=[n] * DOMAINS,
        examples=Examples(
            domains=domains, steps=steps, outcomes=Outcomes(tuple(correct), nll=tuple(losses))
        ),
    )


def simulate(n: int, rule: str, samples: int, seed: int = SEED) -> list[dict[str, Any]]:
    """What is measured, corrected and covered, on average over samples of the examples."""
    population = truth()
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in population}
    for k in range(samples):
        run = sample(n, np.random.default_rng([seed, n, k]))
        chosen = cw.select(run, rule, guard=False)
        for name, found in chosen.optimism(repeats=3).items():
            true = float(population[name][chosen.index])
            covered = found.low <= true <= found.high
            rows[name].append((found.measured - true, found.corrected - true, float(covered)))
    answer = []
    for name, values in rows.items():
        table = np.array(values)
        answer.append(
            {
                "n": n,
                "rule": rule,
                "metric": name,
                "samples": samples,
                "measured": table[:, 0].mean(),
                "error": table[:, 0].std(ddof=1) / np.sqrt(samples),
                "corrected": table[:, 1].mean(),
                "left": table[:, 1].std(ddof=1) / np.sqrt(samples),
                "covered": table[:, 2].mean(),
            }
        )
    return answer


def table(rows: list[dict[str, str]]) -> str:
    """The table of the page."""
    lines = [
        "| examples per domain | rule | metric | measured − true | corrected − true | interval "
        "covers |",
        "|---:|---|---|---:|---:|---:|",
    ]
    for row in rows:
        scale, digits = (100, 2) if row["metric"] == "accuracy" else (1, 4)
        unit = " points" if row["metric"] == "accuracy" else ""
        sides = [
            f"{number(scale * float(row[mean]), digits, signed=True)} ± "
            f"{number(scale * float(row[error]), digits)}{unit}"
            for mean, error in (("measured", "error"), ("corrected", "left"))
        ]
        lines.append(
            f"| {row['n']} | {row['rule']} | {row['metric']} | {sides[0]} | {sides[1]} | "
            f"{100 * float(row['covered']):.0f}% of {row['samples']} |"
        )
    return "\n".join(lines)


def read() -> list[dict[str, str]]:
    """The rows of the file."""
    with DATA.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    if parser.parse_args().run:
        rows = [row for n in SIZES for rule in RULES for row in simulate(n, rule, SAMPLES)]
        with DATA.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()}
                for row in rows
            )


if __name__ == "__main__":
    main()
