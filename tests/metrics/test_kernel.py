"""The bounds that the kernel's comments claim, and how it is loaded."""

from __future__ import annotations

import subprocess
import sys
from math import factorial, sqrt
from threading import Thread

import numpy as np
import pytest

from checkwise import metrics
from checkwise.metrics import exponentials, kernel, sums
from tests.metrics.cases import Array


def cramer(reach: float, terms: int) -> float:
    """Bound of the rest of the Hermite series per unit of p, at t = 0."""
    return 1.0865 * sum(reach**k / sqrt(factorial(k)) for k in range(terms, terms + 60))


CLAIMS = [(9, 4e-8), (13, 3e-8)]


@pytest.mark.parametrize(("terms", "claim"), CLAIMS)
@pytest.mark.parametrize("bandwidth", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("bins", [2, 15, 100])
def test_power_series_of_small_probabilities(
    terms: int, claim: float, bandwidth: float, bins: int
) -> None:
    reach = kernel.REACH[terms]
    assert cramer(reach, terms) < claim
    assert series_error(bins, bandwidth, terms, dropped=0) <= cramer(reach, terms)


@pytest.mark.parametrize(("terms", "claim"), CLAIMS)
@pytest.mark.parametrize("bins", [2, 15, 100])
def test_without_its_last_term_the_series_breaks_its_claim(
    terms: int, claim: float, bins: int
) -> None:
    assert cramer(kernel.REACH[terms], terms - 1) > claim
    assert series_error(bins, 0.1, terms, dropped=1) > claim


def series_error(bins: int, bandwidth: float, terms: int, *, dropped: int) -> float:
    """The largest error of the series as far as it is used, without its last few terms."""
    series = kernel.small_series(bins, bandwidth, terms)
    p = np.linspace(0, kernel.REACH[terms] * bandwidth, 50)[:, None]
    centres = np.arange(bins) / (bins - 1)
    exact = np.exp(-((p - centres) ** 2) / (2 * bandwidth**2))
    found = np.sum([series[k] * p**k for k in range(terms - dropped)], axis=0)
    return float(np.abs(found - exact).max())


@pytest.mark.parametrize(
    ("bins", "bandwidth"), [(15, 0.1), (15, 0.01), (2, 0.05), (5, 0.01), (100, 0.02), (15, 3.0)]
)
def test_local_polynomials_keep_ratios_of_weights(bins: int, bandwidth: float) -> None:
    grid = kernel.new_grid(10, bins, bandwidth)
    points = np.random.default_rng(0).random(500)
    node = (points * grid.density + 0.5).astype(int)
    x = (points - node / grid.density)[:, None]
    table = grid.table.swapaxes(1, 2).reshape(len(grid.table), sums.ORDER, -1)[:, :, :bins]
    found = np.sum([table[node, k] * x**k for k in range(sums.ORDER)], axis=0)
    centres = np.arange(bins) / (bins - 1)
    exact = np.exp(-((points[:, None] - centres) ** 2) / (2 * bandwidth**2))
    # Relative to the largest weight of the point: that is what shares and bars divide by.
    largest = exact.max(axis=1, keepdims=True)
    assert (np.abs(found - exact) / np.maximum(largest, 1e-14)).max() < 1e-7


@pytest.mark.parametrize("size", [5, 16, 17, 31, 65, 345])
def test_exponentials(size: int) -> None:
    rng = np.random.default_rng(size)
    for kind in (np.float32, np.float64):
        z = (rng.standard_normal(size) * 10).astype(kind)
        m, out = float(z.max()), np.zeros(size)
        total = exponentials.exponentials(z, m, out)
        exact = np.exp(z.astype(np.float64) - m)
        np.testing.assert_allclose(out, np.maximum(exact, 1e-30), rtol=1.3e-10)
        assert total == pytest.approx(exact.sum(), rel=1.3e-10)
        z[3] = np.nan
        assert np.isnan(exponentials.exponentials(z, m, out))


def test_importing_the_package_imports_no_compiler_and_no_framework() -> None:
    code = (
        "import sys, checkwise.metrics; "
        "print([m for m in ('numba', 'torch', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


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
