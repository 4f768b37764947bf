"""Agreement with other libraries where they define the same thing."""

from __future__ import annotations

import numpy as np
import pytest

from checkwise import metrics
from tests.metrics.reference import softmax
from tests.requirements import package

torch = package("torch")
RNG = np.random.default_rng(11)
Z = (RNG.standard_normal((500, 20)) * 3).astype(np.float32)
Y = RNG.integers(0, 20, 500)


def test_torch_cross_entropy() -> None:
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(Z).double(), torch.from_numpy(Y)
    ).item()
    assert metrics.nll(logits=Z, labels=Y) == pytest.approx(expected, rel=1e-7)
    assert metrics.nll(logits=torch.from_numpy(Z), labels=torch.from_numpy(Y)) == pytest.approx(
        expected, rel=1e-7
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_tensors(kind: str) -> None:
    z = torch.from_numpy(Z).to(getattr(torch, kind)).requires_grad_()
    y = torch.from_numpy(Y)
    expected = torch.nn.functional.cross_entropy(z.detach().double(), y).item()
    assert metrics.nll(logits=z, labels=y) == pytest.approx(expected, rel=1e-7)
    p = torch.softmax(z.detach().float(), 1).to(getattr(torch, kind)).clamp_min(1e-7)
    metrics.evaluate(probs=p, labels=y)


def test_transposed_tensor() -> None:
    z = torch.from_numpy(np.ascontiguousarray(Z.T)).T
    assert metrics.evaluate(logits=z, labels=Y) == metrics.evaluate(logits=Z, labels=Y)


def test_sklearn_log_loss_and_brier() -> None:
    sklearn = package("sklearn.metrics")
    p = softmax(Z)
    expected = sklearn.log_loss(Y, p, labels=range(20))
    assert metrics.nll(probs=p, labels=Y) == pytest.approx(expected, rel=1e-12)
    assert metrics.nll(logits=Z, labels=Y) == pytest.approx(expected, rel=1e-7)
    two = softmax(Z[:, :2])
    binary = 2 * sklearn.brier_score_loss(Y % 2, two[:, 1])
    assert metrics.brier(probs=two, labels=Y % 2) == pytest.approx(binary, rel=1e-12)


def test_torchmetrics_hard_ece() -> None:
    """Identical except on edges, where its bins close on the left; random values avoid them."""
    functional = package("torchmetrics.functional.classification")
    p = softmax(Z)
    expected = functional.multiclass_calibration_error(
        torch.from_numpy(p), torch.from_numpy(Y), num_classes=20, n_bins=15, norm="l1"
    ).item()
    assert metrics.hard_ece(probs=p, labels=Y) == pytest.approx(expected, abs=1e-6)


def test_sklearn_recalls() -> None:
    sklearn = package("sklearn.metrics")
    expected = sklearn.recall_score(Y, Z.argmax(1), average=None)
    found = metrics.evaluate(logits=Z, labels=Y)
    assert found.per_class["recall"] == pytest.approx(expected)
    assert found.worst_class_accuracy == expected.min()
