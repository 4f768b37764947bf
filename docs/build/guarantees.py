"""Simulate the accuracy bound and write its table into sure.md.

Run by ``make pages``; ``tests/docs`` checks that the page shows what this computes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import checkwise as cw
from studies.page import fill

PAGE = Path(__file__).parents[1] / "sure.md"
PART = "simulation"
CHECKPOINTS, DOMAINS, DRAWS = 51, 3, 2000
ALPHA, DELTA = 0.05, 0.5


def population(rng: np.random.Generator) -> np.ndarray:
    """True accuracies of a run: a rise, then a plateau that drifts by a point or so."""
    rise = 0.85 * (1 - np.exp(-np.arange(CHECKPOINTS) / 6))[:, None]
    drift = np.cumsum(rng.normal(scale=0.002, size=(CHECKPOINTS, DOMAINS)), axis=0)
    return np.clip(rise + drift + rng.uniform(0, 0.05, DOMAINS), 0.01, 0.99)


def simulate(n: int) -> tuple[float, float, float, float]:
    """Share of draws within the bound, the bound, and what it would have needed to be."""
    rng = np.random.default_rng(20261115)
    truth = population(rng)
    mean = 100 * truth.mean(axis=1)
    correct = rng.binomial(n, truth, size=(DRAWS, CHECKPOINTS, DOMAINS)).sum(axis=2)
    # δ points of a mean over equally large domains are δ/100·E·n answers.
    feasible = correct.max(axis=1, keepdims=True) - correct <= DELTA / 100 * DOMAINS * n
    shortfall = np.where(feasible, mean.max() - mean, 0).max(axis=1)
    bound = DELTA + 2 * cw.source_accuracy_radius(CHECKPOINTS, [n] * DOMAINS, ALPHA)
    needed = float(np.quantile(shortfall, 1 - ALPHA))
    return float((shortfall <= bound).mean()), bound, needed, float(np.median(shortfall))


def table() -> str:
    lines = [
        "| n per domain | bound (points) | draws within it | 95% of draws are within | median |",
        "|---:|---:|---:|---:|---:|",
    ]
    for n in (100, 400, 1600, 6400):
        inside, bound, needed, median = simulate(n)
        lines.append(f"| {n} | {bound:.2f} | {100 * inside:.1f}% | {needed:.2f} | {median:.2f} |")
    return "\n".join(lines)


def main() -> None:
    fill(PAGE, PART, table())


if __name__ == "__main__":
    main()
