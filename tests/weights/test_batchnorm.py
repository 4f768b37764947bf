"""BatchNorm statistics re-estimated: plain means of per-batch means and unbiased variances."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from checkwise.study.baselines.evaluate import live_layers, reestimate
from checkwise.study.train.backbone import _FixedStatistics


def batches(shape: tuple[int, ...], count: int = 7) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4 + k, *shape, generator=generator) * (1 + k) + k for k in range(count)]


def test_statistics_are_plain_means_over_minibatches() -> None:
    first, second = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)
    network = nn.Sequential(first, second, nn.ReLU())
    second.running_mean = torch.full((5,), 9.0)
    drawn = batches((3, 6, 6))
    assert reestimate(network, drawn, network) == 1
    with torch.no_grad():
        activations = [first(x).double().transpose(0, 1).flatten(1) for x in drawn]
    mean = torch.stack([a.mean(1) for a in activations]).mean(0)
    variance = torch.stack([a.var(1, unbiased=True) for a in activations]).mean(0)
    assert isinstance(second.running_mean, Tensor)
    assert isinstance(second.running_var, Tensor)
    assert torch.allclose(second.running_mean.double(), mean, rtol=1e-5, atol=1e-6)
    assert torch.allclose(second.running_var.double(), variance, rtol=1e-5)
    biased = torch.stack([a.var(1, unbiased=False) for a in activations]).mean(0)
    assert not torch.allclose(second.running_var.double(), biased, rtol=1e-3)


def test_later_layers_see_the_batch_statistics_of_earlier_ones() -> None:
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.BatchNorm1d(3))
    drawn = batches((4,))
    reestimate(network, drawn, network)
    means = []
    for x in drawn:
        normed = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()
        means.append(network[1](normed).mean(0))
    last = network[2]
    assert isinstance(last, nn.BatchNorm1d)
    assert last.running_mean is not None
    assert torch.allclose(last.running_mean, torch.stack(means).mean(0), atol=1e-5)


def test_dropout_stays_off_and_the_network_is_left_in_evaluation_mode() -> None:
    network = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(4, momentum=0.3))
    drawn = batches((4,))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    reestimate(network, drawn, network)
    assert torch.equal(before, torch.get_rng_state())
    layer = network[1]
    assert isinstance(layer, nn.BatchNorm1d)
    assert layer.momentum == 0.3
    assert not any(module.training for module in network.modules())


def test_fixed_statistics_are_not_touched() -> None:
    fixed = _FixedStatistics(nn.Linear(4, 4), nn.BatchNorm1d(4))
    assert live_layers(fixed) == []
    layer = fixed[1]
    assert isinstance(layer, nn.BatchNorm1d)
    assert layer.running_mean is not None
    before = layer.running_mean.clone()
    assert reestimate(fixed, batches((4,)), fixed) == 0
    assert torch.equal(layer.running_mean, before)
