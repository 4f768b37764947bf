"""Simulate every statement about paired examples, and the table behind docs/sure.md.

``python -m studies.simulations.sure_coverage --run`` simulates and writes ``sure-coverage.csv``
(about 5 minutes on one core); ``tests/docs`` repeats a few cells with fewer samples.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.statistics import Stratified, not_shown_worse, regret
from studies.page import DATA as STUDY_DATA

DATA = STUDY_DATA / "sure-coverage.csv"
CHECKPOINTS, DOMAINS, ALPHA, DELTA = 51, 3, 0.05, 0.005
SAMPLES = {50: 500, 200: 500, 1000: 200}
SEED = 20261117
STATEMENTS = ("paper", "regret", "paired", "paired, growing")
COLUMNS = ("population", "n", "groups", "statement", "finite", "samples", "failures", "median_pp")


@dataclass(frozen=True, eq=False)
class Population:
    """Checkpoints whose answers are thresholds of a slowly moving latent score.

    An example has a difficulty that all checkpoints share and noise that changes a little from
    checkpoint to checkpoint, so neighbours agree most. ``accuracy`` [T, E] is known exactly.
    """

    accuracy: np.ndarray
    shared: float = 0.9
    memory: float = 0.95

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.accuracy.mean(axis=1))

    def draw(
        self, n: int, rng: np.random.Generator, *, grouped: bool
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...] | None]:
        """Correctness [T, n] of every domain, and groups of 1 to 5 examples if asked for."""
        drawn, groups = [], []
        for e in range(self.accuracy.shape[1]):
            of = _grouped(n, rng) if grouped else np.arange(n)
            latent = self._latent(of, rng)
            drawn.append(latent <= _normal_quantile(self.accuracy[:, e])[:, None])
            groups.append(of)
        return tuple(drawn), tuple(groups) if grouped else None

    def _latent(self, of: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Standard normal scores [T, n]; examples of one group share 80% of their variance."""

        def normal() -> np.ndarray:
            alone = rng.normal(size=len(of))
            together: np.ndarray = rng.normal(size=of.max() + 1)[of]
            return together if len(of) == of.max() + 1 else 0.8**0.5 * together + 0.2**0.5 * alone

        difficulty, noise = normal(), normal()
        rows = np.empty((len(self.accuracy), len(of)))
        for t in range(len(rows)):
            rows[t] = self.shared**0.5 * difficulty + (1 - self.shared) ** 0.5 * noise
            noise = self.memory * noise + (1 - self.memory**2) ** 0.5 * normal()
        return rows


def _grouped(n: int, rng: np.random.Generator) -> np.ndarray:
    sizes = rng.integers(1, 6, n)
    return np.repeat(np.arange(n), sizes)[:n]


def _normal_quantile(p: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def populations() -> dict[str, Population]:
    """Where the statements are easy, and where they are hardest."""
    rng = np.random.default_rng(SEED)
    rise = 0.5 + 0.4 * (1 - np.exp(-np.arange(CHECKPOINTS) / 4))[:, None]
    drift = np.cumsum(rng.normal(scale=0.003, size=(CHECKPOINTS, DOMAINS)), axis=0)
    shift = np.array([-0.04, 0.0, 0.04])
    edge = np.full((CHECKPOINTS, DOMAINS), 0.9 - DELTA)
    edge[::2] -= 1e-6
    edge[1::2] += 1e-6
    edge[CHECKPOINTS // 2] = 0.9
    return {
        "a training run": Population(np.clip(rise + drift + shift, 0.05, 0.99)),
        "all equally good": Population(np.tile(0.9 + shift, (CHECKPOINTS, 1))),
        "at the edge of δ": Population(edge),
        "few errors, much agreement": Population(np.full((CHECKPOINTS, DOMAINS), 0.985), 0.97),
    }


def failures(population: Population, sample: Stratified) -> dict[str, bool]:
    """Which statements about this sample are wrong."""
    truth = population.mean
    short = truth.max() - truth
    bounds = regret(sample, alpha=ALPHA)
    kept = {
        "paired": not_shown_worse(sample, delta=DELTA, alpha=ALPHA),
        "paired, growing": not_shown_worse(sample, delta=DELTA, alpha=ALPHA, growing=True),
    }
    radius = cw.source_accuracy_radius(len(truth), sample.counts.tolist(), ALPHA) / 100
    near = sample.mean >= sample.mean.max() - DELTA
    return {
        "paper": bool((short[near] > DELTA + 2 * radius).any()),
        "regret": bool((short > bounds.upper).any()),
        **{name: bool((short[~mask] <= DELTA).any()) for name, mask in kept.items()},
    }


def simulate(
    population: Population, n: int, *, grouped: bool, samples: int
) -> list[dict[str, Any]]:
    """Failures of every statement, and the median bound on the most accurate checkpoint."""
    rng = np.random.default_rng([SEED, n, int(grouped)])
    counted = dict.fromkeys(STATEMENTS, 0)
    bounds = []
    for _ in range(samples):
        correct, groups = population.draw(n, rng, grouped=grouped)
        sample = Stratified(correct, np.full(DOMAINS, 1 / DOMAINS), groups)
        for name, failed in failures(population, sample).items():
            counted[name] += failed
        bounds.append(regret(sample, alpha=ALPHA).upper[int(sample.mean.argmax())])
    radius = cw.source_accuracy_radius(CHECKPOINTS, [n] * DOMAINS, ALPHA)
    width = {"regret": 100 * float(np.median(bounds)), "paper": 100 * DELTA + 2 * radius}
    return [
        {
            "n": n,
            "groups": int(grouped),
            "statement": name,
            "finite": 1,
            "samples": samples,
            "failures": counted[name],
            "median_pp": f"{width[name]:.3f}" if name in width else "",
        }
        for name in STATEMENTS
    ]


def read() -> list[dict[str, str]]:
    with DATA.open(newline="") as file:
        return list(csv.DictReader(file))


def run() -> None:
    # Rows of statements that are gone stay.
    rows: list[dict[str, Any]] = [row for row in read() if row["statement"] not in STATEMENTS]
    for name, population in populations().items():
        for grouped in (False, True):
            for n in SAMPLES:
                cells = simulate(population, n, grouped=grouped, samples=SAMPLES[n])
                rows += [{"population": name, **cell} for cell in cells]
                print(name, n, grouped, {c["statement"]: c["failures"] for c in cells}, flush=True)
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table() -> str:
    """Failures and bounds of every population, number of examples and statement, as Markdown."""
    lines = [
        "| population | examples per domain | " + " | ".join(STATEMENTS) + " |",
        "|:--|--:|" + "--:|" * len(STATEMENTS),
    ]
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in read():
        share = 100 * int(row["failures"]) / int(row["samples"])
        where = (row["population"], row["n"], row["groups"])
        cells.setdefault(where, {})[row["statement"]] = f"{share:.1f}"
    for (name, n, groups), shares in cells.items():
        named = f"{name}, in groups" if groups == "1" else name
        values = " | ".join(shares[statement] for statement in STATEMENTS)
        lines.append(f"| {named} | {n} | {values} |")
    return "\n".join(lines)


def bounds() -> str:
    """The median bound on the most accurate checkpoint beside the paper's, as Markdown."""
    width = {
        (row["population"], row["groups"], row["n"], row["statement"]): float(row["median_pp"])
        for row in read()
        if row["median_pp"]
    }
    lines = [
        "| population | examples per domain | paper's bound | paired bound | ratio |",
        "|:--|--:|--:|--:|--:|",
    ]
    for (name, groups, n, statement), paper in width.items():
        if statement == "paper":
            paired = width[name, groups, n, "regret"]
            named = f"{name}, in groups" if groups == "1" else name
            lines.append(f"| {named} | {n} | {paper:.1f} | {paired:.1f} | {paper / paired:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    if parser.parse_args().run:
        run()
