"""One softmax serves whoever needs probabilities as an array."""

from __future__ import annotations

import inspect
from types import ModuleType

import numpy as np
import pytest
from scipy import special

from checkwise.calibrators import ts_domains
from checkwise.metrics import per_example, probabilities
from checkwise.study import heldout
from checkwise.study.tables import from_logits as binning


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e4])
def test_it_is_softmax_in_double_precision(kind: str, scale: float) -> None:
    z = (scale * np.random.default_rng(0).normal(size=(50, 7))).astype(kind)
    found = probabilities(z)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, special.softmax(z.astype(np.float64), axis=1), rtol=1e-13)


def test_the_kernel_says_the_same() -> None:
    z = np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32)
    found = probabilities(z)
    rows = per_example(logits=z, labels=np.zeros(200, dtype=np.int64))
    np.testing.assert_allclose(rows.confidence, found.max(axis=1), rtol=1e-7)
    np.testing.assert_allclose(rows.nll, -np.log(found[:, 0]), rtol=1e-7)


@pytest.mark.parametrize("module", [binning, heldout, ts_domains])
def test_nobody_writes_it_again(module: ModuleType) -> None:
    assert vars(module)["probabilities"] is probabilities
    assert "np.exp(" not in inspect.getsource(module)
