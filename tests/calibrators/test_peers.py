"""Every calibrator against probmetrics, and against plain optimisers written out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

from checkwise.calibrators import fit
from tests.calibrators.drawn import domains, drawn

GOLDEN = Path(__file__).parent / "golden" / "probmetrics.npz"


def golden() -> list[Any]:
    with np.load(GOLDEN) as file:
        arrays = dict(file)
    parts = [tuple(key.split("/")) for key in arrays]
    return [
        pytest.param(
            name,
            *(arrays[f"{case}/{part}"] for part in ("logits", "labels", "new", name)),
            id=f"{name}, {case}",
        )
        for case, name in parts
        if name not in ("logits", "labels", "new")
    ]


@pytest.mark.parametrize(("name", "logits", "labels", "new", "expected"), golden())
def test_probmetrics_agrees(name: str, logits: Any, labels: Any, new: Any, expected: Any) -> None:
    fitted = fit({"validation": (logits, labels)}, name, force=True)
    np.testing.assert_allclose(fitted.probabilities(new), expected, rtol=0, atol=1e-6)


def test_the_golden_file_covers_what_probmetrics_has() -> None:
    covered = {parameters.values[0] for parameters in golden()}
    assert covered == {"ts", "isotonic"}


def nll(z: Any, y: Any) -> float:
    return float(-log_softmax(z, axis=1)[np.arange(len(y)), y].mean())


def brent(z: Any, y: Any, *, least: float = 1e-3) -> float:
    """T of at least ``least`` by a bounded search on the NLL itself."""
    answer = minimize_scalar(
        lambda s: nll(z / np.exp(s), y),
        bounds=(np.log(least), np.log(1e3)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(np.exp(answer.x))


def together(logits: Any) -> tuple[Any, Any]:
    z, y = zip(*logits.values(), strict=True)
    return np.concatenate(z), np.concatenate(y)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stretch", [0.4, 1.0, 3.0])
def test_temperatures_by_a_bounded_search(seed: int, stretch: float) -> None:
    logits: Any = {d: (stretch * z, y) for d, (z, y) in domains(seed).items()}
    z, y = together(logits)
    each = [brent(*pair) for pair in logits.values()]
    for name, expected in {
        "ts": brent(z, y),
        "ts-soften": brent(z, y, least=1.0),
        "ts-max": max(1.0, *each),
        "ts-multi": np.mean(each),
    }.items():
        assert fit(logits, name).temperature == pytest.approx(expected, rel=1e-6), name


@pytest.mark.parametrize("classes", [2, 5])
def test_isotonic_by_scikit_learn(classes: int) -> None:
    z, y = drawn(1, 300, classes=classes)
    z = z.round(1)  # many equal probabilities
    new = drawn(2, 100, classes=classes)[0] * 2
    levels = []
    for c in range(classes):
        one = IsotonicRegression(out_of_bounds="clip").fit(softmax(z, axis=1)[:, c], y == c)
        levels.append(one.predict(softmax(new, axis=1)[:, c]))
    shares = np.stack(levels, axis=1)
    expected = 300 / 301 * shares / shares.sum(axis=1, keepdims=True) + 1 / 301 / classes
    np.testing.assert_allclose(
        fit({"a": (z, y)}, "isotonic").probabilities(new), expected, rtol=0, atol=1e-9
    )
