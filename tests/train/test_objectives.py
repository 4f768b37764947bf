"""Penalties by hand, and against their definitions written out slowly."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from checkwise.errors import InputError
from checkwise.study.train import build_algorithm
from checkwise.study.train.algorithms import CORAL, IRM, Forward, GroupDRO, VREx, moment_distance
from tests.train.networks_for_tests import HPARAMS, minibatches, small

domain_sizes = st.lists(st.integers(2, 9), min_size=2, max_size=4).map(tuple)
seeds = st.integers(0, 10_000)

# Two classes with logits (z, 0) and label 0: cross-entropy log(1 + e^−z).
LOG3 = math.log(3.0)


def _forward(logits: Tensor, labels: list[int], sizes: tuple[int, ...]) -> Forward:
    return Forward(logits, logits, torch.tensor(labels), sizes)


def _literal_distance(features: Tensor, sizes: tuple[int, ...]) -> Tensor:
    moments = []
    for rows in torch.split(features, list(sizes)):
        mean = rows.mean(0, keepdim=True)
        centred = rows - mean
        moments.append((mean, centred.t() @ centred / (len(rows) - 1)))
    pairs = list(combinations(moments, 2))
    terms = [(a[0] - b[0]).pow(2).mean() + (a[1] - b[1]).pow(2).mean() for a, b in pairs]
    return torch.stack(terms).mean()


def _literal_irm(logits: Tensor, labels: Tensor, sizes: tuple[int, ...]) -> Tensor:
    penalties = []
    for z, y in zip(
        torch.split(logits, list(sizes)), torch.split(labels, list(sizes)), strict=True
    ):
        scale = torch.ones((), dtype=z.dtype, requires_grad=True)
        slopes = [
            torch.autograd.grad(cross_entropy(z[i::2] * scale, y[i::2]), scale, create_graph=True)
            for i in (0, 1)
        ]
        penalties.append(slopes[0][0] * slopes[1][0])
    return torch.stack(penalties).mean()


def test_coral_distance_by_hand() -> None:
    """Domains {0, 2} and {1, 5} on one feature: means 1 and 3, variances 2 and 8."""
    features = torch.tensor([[0.0], [2.0], [1.0], [5.0]])
    assert float(moment_distance(features, (2, 2))) == pytest.approx(2**2 + 6**2)


@settings(max_examples=40, deadline=None)
@given(sizes=domain_sizes, width=st.integers(1, 40), seed=seeds)
def test_coral_distance_is_the_mean_over_pairs(
    sizes: tuple[int, ...], width: int, seed: int
) -> None:
    """Widths on both sides of the number of rows, so both routes are met."""
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(sum(sizes), width, generator=random, dtype=torch.float64)
    features.requires_grad_()
    fast, slow = moment_distance(features, sizes), _literal_distance(features, sizes)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(
        torch.autograd.grad(3 * fast, features), torch.autograd.grad(3 * slow, features)
    )


@settings(max_examples=20, deadline=None)
@given(seed=seeds, shift=st.floats(-5, 5))
def test_coral_distance_ignores_a_common_shift_and_the_order_of_rows(
    seed: int, shift: float
) -> None:
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(12, 4, generator=random, dtype=torch.float64)
    distance = moment_distance(features, (5, 7))
    torch.testing.assert_close(moment_distance(features + shift, (5, 7)), distance)
    order = torch.cat(
        [torch.randperm(5, generator=random), 5 + torch.randperm(7, generator=random)]
    )
    torch.testing.assert_close(moment_distance(features[order], (5, 7)), distance)


def test_coral_adds_gamma_times_the_distance() -> None:
    hparams = {"lr": 1e-3, "mmd_gamma": 0.5}
    algorithm = build_algorithm("CORAL", nn.Linear(2, 2), nn.Linear(2, 2), hparams)
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
    objective, logged = algorithm.objective(_forward(logits, [0, 0, 0, 0], (2, 2)))
    nll = float(cross_entropy(logits, torch.zeros(4, dtype=torch.int64)))
    penalty = 2**2 / 2 + 6**2 / 4
    assert float(logged["penalty"]) == pytest.approx(penalty)
    assert float(logged["loss"]) == float(logged["nll"]) == pytest.approx(nll)
    assert float(objective) == pytest.approx(nll + 0.5 * penalty)


@pytest.mark.parametrize("name", ["CORAL", "IRM"])
def test_single_rows_are_refused_where_the_penalty_is_undefined(name: str) -> None:
    with pytest.raises(InputError, match=f"at least 2 rows per domain for {name}"):
        small(name).update(minibatches(0, (4, 1)))


def test_irm_penalty_by_hand() -> None:
    """With logits (z, 0) and label 0 the slope of a row is −z/(1 + e^z): −log(3)/4 at z = log 3."""
    logits = torch.tensor([[LOG3, 0.0], [LOG3, 0.0], [LOG3, 0.0], [0.0, 0.0]])
    algorithm = small("IRM", classes=2)
    assert isinstance(algorithm, IRM)
    nll, penalty = algorithm.nll_and_penalty(_forward(logits, [0, 0, 0, 0], (2, 2)))
    assert float(penalty) == pytest.approx(((LOG3 / 4) ** 2 + (LOG3 / 4) * 0) / 2)
    assert float(nll) == pytest.approx((3 * math.log(4 / 3) + math.log(2)) / 4)


@settings(max_examples=40, deadline=None)
@given(sizes=domain_sizes, seed=seeds, scale=st.floats(0.01, 50))
def test_irm_penalty_is_the_product_of_autograd_slopes(
    sizes: tuple[int, ...], seed: int, scale: float
) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(sum(sizes), 5, generator=random, dtype=torch.float64)
    logits.requires_grad_()
    labels = torch.randint(5, (sum(sizes),), generator=random)
    algorithm = small("IRM", classes=5)
    assert isinstance(algorithm, IRM)
    _, fast = algorithm.nll_and_penalty(Forward(logits, logits, labels, sizes))
    slow = _literal_irm(logits, labels, sizes)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(
        torch.autograd.grad(fast, logits), torch.autograd.grad(slow, logits), rtol=1e-6, atol=1e-8
    )


def test_vrex_penalty_by_hand() -> None:
    """Cross-entropies log 2 and log(4/3): population variance = gap²/4."""
    logits = torch.tensor([[0.0, 0.0], [LOG3, 0.0]])
    algorithm = small("VREx", classes=2)
    assert isinstance(algorithm, VREx)
    nll, penalty = algorithm.nll_and_penalty(_forward(logits, [0, 0], (1, 1)))
    gap = math.log(2) - math.log(4 / 3)
    assert float(penalty) == pytest.approx(gap**2 / 4)
    assert float(nll) == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_groupdro_weights_by_hand() -> None:
    """q starts uniform; two steps at η = 1 multiply by the odds e^CE = 2 and 4/3 each time."""
    algorithm = build_algorithm(
        "GroupDRO", nn.Identity(), nn.Linear(2, 2), {"lr": 1e-3, "groupdro_eta": 1.0}
    )
    assert isinstance(algorithm, GroupDRO)
    forward = _forward(torch.tensor([[0.0, 0.0], [LOG3, 0.0]]), [0, 0], (1, 1))
    for q in ([0.6, 0.4], [9 / 13, 4 / 13]):
        loss, _ = algorithm.objective(forward)
        assert algorithm.q.tolist() == pytest.approx(q)
        assert float(loss) == pytest.approx(q[0] * math.log(2) + q[1] * math.log(4 / 3))


def test_groupdro_survives_huge_losses() -> None:
    algorithm = build_algorithm(
        "GroupDRO", nn.Identity(), nn.Linear(2, 2), {"lr": 1e-3, "groupdro_eta": 1.0}
    )
    assert isinstance(algorithm, GroupDRO)
    forward = _forward(torch.tensor([[-1e4, 0.0], [LOG3, 0.0]]), [0, 0], (1, 1))
    for _ in range(3):
        algorithm.objective(forward)
    assert algorithm.q.tolist() == [1.0, 0.0]


def test_erm_weighs_rows_and_the_others_weigh_domains() -> None:
    logits = torch.tensor([[0.0, 0.0], [LOG3, 0.0], [LOG3, 0.0], [LOG3, 0.0]])
    forward = _forward(logits, [0, 0, 0, 0], (1, 3))
    by_row = (math.log(2) + 3 * math.log(4 / 3)) / 4
    by_domain = (math.log(2) + math.log(4 / 3)) / 2
    assert float(small("ERM", classes=2).objective(forward)[1]["nll"]) == pytest.approx(by_row)
    for name in ("VREx", "GroupDRO"):
        logged = small(name, classes=2).objective(forward)[1]
        assert float(logged["nll"]) == pytest.approx(by_domain)


@pytest.mark.parametrize("name", ["IRM", "VREx"])
def test_the_penalty_weight_jumps_and_adam_restarts_at_the_anneal_step(name: str) -> None:
    algorithm = small(name)
    weight = HPARAMS[f"{name.lower()}_lambda"]
    for step in range(6):
        logged = {key: float(value) for key, value in algorithm.update(minibatches(step)).items()}
        expected = logged["nll"] + (weight if step >= 3 else 1.0) * logged["penalty"]
        assert logged["loss"] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        adam_steps = {int(s["step"]) for s in algorithm.optimizer.state.values()}
        assert adam_steps == {step + 1 if step < 3 else step - 2}


def test_coral_sees_the_featurizers_output() -> None:
    algorithm = small("CORAL")
    assert isinstance(algorithm, CORAL)
    batch = minibatches(0)
    algorithm.featurizer[3].p = 0.0  # type: ignore[index]
    features = algorithm.featurizer(torch.cat([x for x, _ in batch]))
    expected = _literal_distance(features, (5, 5, 5))
    torch.testing.assert_close(algorithm.update(batch)["penalty"], expected.detach())
