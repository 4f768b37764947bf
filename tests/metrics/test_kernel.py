"""The bounds that the kernel's comments claim, and how it is loaded, kept and replaced."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from math import factorial, sqrt
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import checkwise
from checkwise import metrics
from checkwise.metrics import kernel, smooth
from tests.metrics.cases import Array

SOURCE = Path(checkwise.__file__).parent
CALL = """
import json
import numpy as np
from checkwise import metrics
rng = np.random.default_rng(4)
z, y = rng.standard_normal((70, 20)) * 3, rng.integers(0, 20, 70)
z[3, 1:4] = -np.inf
y[3] = 0
found = metrics.evaluate(logits=z, labels=y)
print(json.dumps({**found.values(), "correct": found.correct}))
"""


def cramer(reach: float, terms: int) -> float:
    """Bound of the rest of the Hermite series per unit of p, at t = 0."""
    return 1.0865 * sum(reach**k / sqrt(factorial(k)) for k in range(terms, terms + 60))


CLAIM = 4e-9


@pytest.mark.parametrize("bandwidth", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("bins", [2, 15, 100])
def test_power_series_of_small_probabilities(bins: int, bandwidth: float) -> None:
    bound = cramer(smooth.REACH / 2, smooth.TERMS)
    assert bound < CLAIM
    assert series_error(bins, bandwidth, dropped=0) <= bound


def test_without_its_last_term_the_series_breaks_its_claim() -> None:
    assert cramer(smooth.REACH / 2, smooth.TERMS - 1) > CLAIM
    assert series_error(15, 0.1, dropped=1) > CLAIM


def series_error(bins: int, bandwidth: float, *, dropped: int) -> float:
    """The largest error of the series as far as it is used, without its last few terms."""
    series = smooth.small_series(bins, bandwidth)[:, 0]
    p = np.linspace(0, smooth.largest_small(bins, bandwidth), 50)[:, None]
    x = p - smooth.middle(bins, bandwidth)
    centres = np.arange(bins) / (bins - 1)
    exact = np.exp(-((p - centres) ** 2) / (2 * bandwidth**2))
    found = np.sum([series[k] * x**k for k in range(smooth.TERMS - dropped)], axis=0)
    return float(np.abs(found - exact).max())


@pytest.mark.parametrize(
    ("bins", "bandwidth"), [(15, 0.1), (15, 0.01), (2, 0.05), (5, 0.01), (100, 0.02), (15, 3.0)]
)
def test_local_polynomials_keep_ratios_of_weights(bins: int, bandwidth: float) -> None:
    grid = smooth.new_grid(bins, bandwidth)
    points = np.random.default_rng(0).random(500)
    node = (points * grid.density + 0.5).astype(int)
    x = (points - node / grid.density)[:, None]
    table = grid.table[:, :, :bins]
    found = np.sum([table[node, k] * x**k for k in range(smooth.ORDER)], axis=0)
    centres = np.arange(bins) / (bins - 1)
    exact = np.exp(-((points[:, None] - centres) ** 2) / (2 * bandwidth**2))
    # Relative to the largest weight of the point: that is what shares and bars divide by.
    largest = exact.max(axis=1, keepdims=True)
    assert (np.abs(found - exact) / np.maximum(largest, 1e-14)).max() < 1e-7


def test_exponentials() -> None:
    near, far = np.linspace(-5, 0, 2000), np.linspace(-69, 0, 2000)
    for x, limit in ((near, 1e-14), (far, 2e-14)):
        found = np.array([kernel.exponential(value) for value in x])
        np.testing.assert_allclose(found, np.exp(x), rtol=limit)
    assert kernel.exponential(0.0) == 1.0
    assert 0 < kernel.exponential(-np.inf) < 1.1e-30
    assert np.isnan(kernel.exponential(np.nan))


def test_only_public_numba_is_used() -> None:
    """A private door may close with any release, and numba has no upper bound."""
    private = re.compile(r"numba\.(core|np|cpython|typed|targets|extending)\b|llvmlite|\b_nrt\b")
    hidden = re.compile(r"(numba|compiled|dispatcher)\._")
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not private.search(text), path
        assert "import numba" not in text or not hidden.search(text), path


def call(code: str = CALL, **environment: str) -> tuple[dict[str, float], str]:
    """What `CALL` prints in a new process, and everything printed before."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    before, _, last = done.stdout.strip().rpartition("\n")
    return json.loads(last), before


def assert_close(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found["correct"] == expected["correct"]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_without_the_compiler_values_are_the_same() -> None:
    assert_close(call(NUMBA_DISABLE_JIT="1")[0], call(NUMBA_DISABLE_JIT="0")[0])


def test_a_second_process_does_not_compile(tmp_path: Path) -> None:
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DEBUG_CACHE": "1"}
    expected, first = call(**settings)
    found, second = call(**settings)
    assert found == expected
    assert first.count("data saved to") == 1
    assert second.count("data loaded from") == 1
    assert "data saved to" not in second


def test_it_compiles_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """A file where each folder for compiled code would be: root may write to any folder."""
    package = shutil.copytree(
        SOURCE, tmp_path / "checkwise", ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "metrics" / "__pycache__").touch()
    barrier = tmp_path / "file"
    barrier.touch()
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), barrier)
    found, before = call(
        PYTHONPATH=str(tmp_path),
        NUMBA_DEBUG_CACHE="1",
        NUMBA_OPT="0",
        **{name: str(place / "below") for name, place in places.items()},
    )
    assert "[cache]" not in before
    assert_close(found, call()[0])


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_it_works_when_the_disk_is_full(tmp_path: Path) -> None:
    limit = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    )
    found, _ = call(limit + CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert not [path for path in tmp_path.rglob("*.nb*") if path.stat().st_size]
    assert_close(found, call()[0])


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
