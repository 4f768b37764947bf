"""The bounds that the comments on the series claim, and what threads and processes change."""

from __future__ import annotations

import os
import subprocess
import sys
from math import factorial, sqrt
from threading import Thread

import numpy as np
import pytest

from checkwise import metrics
from checkwise.metrics.gaussians import REACH, TERMS, gaussians, new_grid
from tests.metrics.cases import Array

CLAIM = 7e-9
SETTINGS = [(15, 0.1), (15, 0.01), (2, 0.05), (5, 0.01), (100, 0.02), (15, 3.0), (2, 0.01)]
CALL = """
import numpy as np
from checkwise import metrics
from checkwise.statistics import bootstrap_interval
for n, classes in ((3000, 7), (2500, 65), (900, 345)):
    rng = np.random.default_rng(classes)
    z, y = rng.standard_normal((n, classes), dtype=np.float32) * 3, rng.integers(0, classes, n)
    print([value.hex() for value in metrics.evaluate(logits=z, labels=y).values().values()])
    counts = rng.integers(0, 3, (64, n))
    print({name: v.tobytes().hex() for name, v in metrics.resampled(
        metrics.RESAMPLED, counts, logits=z[:, :40], labels=y % min(40, classes)).items()})
print(np.stack(bootstrap_interval(rng.standard_normal((540, 9)))).tobytes().hex())
"""


def bound(reach: float, terms: int) -> float:
    """Of the error of interpolating a Gaussian at Chebyshev's nodes of an interval of reach x h."""
    return 2 * 1.0865 * (reach / 4) ** terms / sqrt(factorial(terms))


def series(coefficients: Array, variable: Array) -> Array:
    """Σ_k coefficient_k variable^k."""
    powers = variable[None] ** np.arange(TERMS).reshape(-1, *[1] * variable.ndim)
    return np.asarray((powers[..., None] * coefficients).sum(axis=0))


@pytest.mark.parametrize(("bins", "bandwidth"), SETTINGS)
def test_series_of_small_probabilities(bins: int, bandwidth: float) -> None:
    assert bound(REACH, TERMS) < CLAIM < bound(REACH, TERMS - 1)
    grid = new_grid(bins, bandwidth)
    p = np.linspace(0, grid.tau, 50)
    exact = gaussians(p, bins, bandwidth).T
    found = series(grid.small[:, 0][:, None], p / grid.tau - 0.5)
    assert np.abs(found - exact).max() < CLAIM
    found = series(grid.small[:, 1][:, None], p / grid.tau - 0.5)
    assert np.abs(found - p[:, None] * exact).max() < CLAIM


@pytest.mark.parametrize(("bins", "bandwidth"), SETTINGS)
def test_series_in_cells_keep_ratios_of_weights(bins: int, bandwidth: float) -> None:
    grid = new_grid(bins, bandwidth)
    p = np.random.default_rng(0).random(500) * 1.01
    cell = grid.cell_of(p)
    exact = gaussians(p, bins, bandwidth).T
    found = series(grid.large[:, cell, 0], grid.place_in(cell, p))
    # Relative to the largest weight of the point: that is what shares and bars divide by.
    largest = exact.max(axis=1, keepdims=True)
    assert (np.abs(found - exact) / np.maximum(largest, 1e-14)).max() < 1e-7


def test_edges_of_hard_bins_belong_to_the_bin_below() -> None:
    for bins, bandwidth in SETTINGS:
        grid = new_grid(bins, bandwidth)
        edges = np.arange(bins + 1) / bins
        expected = np.maximum(np.arange(bins + 1) - 1, 0)
        assert (grid.bin_of(grid.cell_of(edges)) == expected).all()
        above = np.minimum(np.arange(bins + 1), bins - 1)
        assert (grid.bin_of(grid.cell_of(np.nextafter(edges, 2))) == above).all()


@pytest.mark.skipif(
    np.__version__.startswith("1."), reason="NumPy 1 comes with a BLAS whose threads change bits"
)
def test_one_thread_and_two_give_the_same_bytes() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", CALL],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1"},
        ).stdout
        for threads in (1, 2)
    }
    assert len(printed) == 1


def test_importing_the_package_imports_no_framework() -> None:
    code = "import sys, checkwise.metrics; print({'torch', 'pandas', 'scipy'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_accumulators_of_several_threads_do_not_meet() -> None:
    rng = np.random.default_rng(2)
    cases = [(rng.standard_normal((4000, 30)), rng.integers(0, 30, 4000)) for _ in range(4)]
    expected = [metrics.evaluate(logits=z, labels=y) for z, y in cases]
    found: dict[int, metrics.Report] = {}

    def work(k: int, z: Array, y: Array) -> None:
        for _ in range(5):
            found[k] = metrics.evaluate(logits=z, labels=y)

    threads = [Thread(target=work, args=(k, *case)) for k, case in enumerate(cases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[k] for k in range(4)] == expected
