"""The page on certainty shows what its scripts computed; a small part is computed again."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from tests.docs.test_pages import builder

ROOT = Path(__file__).parents[2]


def test_stored_finite_sample_statements_hold_at_their_level() -> None:
    with builder("sure_coverage").DATA.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["n"]) for row in rows} == {50, 200, 1000}
    for row in rows:
        if row["finite"] == "1" and (row["statement"], row["groups"]) != ("paper", "1"):
            # More would be seen once in a thousand times at a true level of 5%.
            assert int(row["failures"]) <= binom.ppf(0.999, int(row["samples"]), 0.05), row


@pytest.mark.parametrize(
    ("population", "n", "grouped"),
    [
        ("a training run", 50, True),
        ("at the edge of δ", 200, False),
        ("all equally good", 50, False),
    ],
)
def test_statements_hold_in_a_small_simulation(population: str, n: int, grouped: bool) -> None:
    script = builder("sure_coverage")
    samples = 30
    cells = script.simulate(script.populations()[population], n, grouped=grouped, samples=samples)
    assert len(cells) == 4
    for cell in cells:
        assert cell["failures"] <= binom.ppf(0.999, samples, 0.05), cell
    width = {cell["statement"]: float(cell["median_pp"]) for cell in cells if cell["median_pp"]}
    assert width["regret"] < width["paper"] / (1 if grouped else 3)


def test_the_simulated_accuracies_are_those_of_the_population() -> None:
    """Otherwise coverage would be measured against a wrong truth."""
    script = builder("sure_coverage")
    population = script.populations()["a training run"]
    for grouped in (False, True):
        rng = np.random.default_rng(1)
        correct, groups = population.draw(20_000, rng, grouped=grouped)
        assert (groups is not None) == grouped
        measured = np.stack([one.mean(axis=1) for one in correct], axis=1)
        np.testing.assert_allclose(measured, population.accuracy, atol=0.025 if grouped else 0.015)
