"""The simulated coverage on the page is what its scripts compute."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.docs.test_pages import ROOT, builder

PAGE = ROOT / "docs" / "statistics.md"


@pytest.mark.parametrize("clusters", [3, 9])
def test_a_row_of_the_coverage_table_is_rebuilt(clusters: int) -> None:
    module = builder("intervals")
    name, shared, df = module.SCENARIOS[1]
    line = module.row(name, clusters, module.simulate(clusters, shared, df))
    assert line in PAGE.read_text().splitlines()


def test_the_page_shows_every_row() -> None:
    module = builder("intervals")
    shown = builder("page").part(module.PAGE, module.PART).splitlines()
    assert len(shown) == 2 + len(module.SCENARIOS) * len(module.CLUSTERS)


@pytest.mark.parametrize("df", [None, 5, 12])
def test_simulated_differences_have_variance_1(df: int | None) -> None:
    values = builder("intervals").studies(9, 0.3, df)
    assert values.var() == pytest.approx(1, rel=0.05)


def crossed_rows() -> list[list[str]]:
    """Cells of the table of crossed draws and trials, without its head."""
    shown = builder("page").part(PAGE, builder("crossed").PART).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in shown[2:]]


@pytest.mark.parametrize("name", ["30% shared by draw", "15% by draw, 15% by trial"])
def test_a_row_of_crossed_draws_and_trials_is_rebuilt(name: str) -> None:
    assert builder("crossed").row(name) in PAGE.read_text().splitlines()


def test_crossed_draws_and_trials_show_every_row() -> None:
    assert [name for name, *_ in crossed_rows()] == list(builder("crossed").SCENARIOS)


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        # Of nine blocks three are of one draw, and each trial has three.
        ("30% shared by draw", 0.3 * (1 / 9 + 6 / 81) + 0.7 / 180),
        ("20% by draw, 10% by trial", 0.2 * (1 / 9 + 6 / 81) + 0.1 / 3 + 0.7 / 180),
        ("30% by block alone", 0.3 / 9 + 0.7 / 180),
    ],
)
def test_simulated_means_vary_as_the_design_says(name: str, variance: float) -> None:
    module = builder("crossed")
    values = module.studies(module.SCENARIOS[name])
    assert values.shape == (180, 2000)
    # The standard error of a variance of 2,000 normal values is √(2/1999) of it.
    assert values.mean(axis=0).var(ddof=1) == pytest.approx(variance, rel=4 * (2 / 1999) ** 0.5)
    assert values.var() == pytest.approx(1, rel=0.05)


def test_what_the_page_says_below_is_what_the_rows_say() -> None:
    rows = crossed_rows()
    alone, shared = rows[-1], rows[:-1]
    block, draw, trial, any_of = ([int(row[k].rstrip("%")) for row in rows] for k in (2, 3, 4, 5))
    text = re.sub(r"\s+", " ", PAGE.read_text())
    assert alone[2] == "95%"
    assert f"shared across blocks it covers {block[0]}%" in text
    assert f"splits are as well {min(block[1:3])}–{max(block[1:3])}%" in text
    assert f"somewhat better ({min(draw[:3])}–{max(draw[:3])}% there)" in text
    assert f"safest single unit ({min(trial)}–{max(trial)}%)" in text
    assert f"in every row ({min(any_of)}–{max(any_of)}%, last column)" in text
    assert max(*block[:3], *draw[:3], min(trial)) < 95 <= min(any_of)
    assert all(min(draw[k], trial[k]) > block[k] for k in range(len(shared)))


def test_trials_give_the_widest_intervals() -> None:
    module = builder("crossed")
    for shared in module.SCENARIOS.values():
        ends = module.cluster_t(module.studies(shared))
        widths = [float(np.median(high - low)) for low, high in ends]
        assert widths[2] == max(widths)


def test_the_coverage_quoted_for_few_blocks_is_that_of_the_table() -> None:
    module = builder("intervals")
    lines = builder("page").part(PAGE, module.PART).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    nine = {row[4] for row in cells if row[1] == "9"}
    three = sorted(row[4].rstrip("%") for row in cells if row[1] == "3")
    text = re.sub(r"\s+", " ", PAGE.read_text())
    assert nine == {"89%"}
    assert f"in 89% of simulated studies with 9 clusters, in {three[0]}–{three[-1]}% with 3" in text
