"""Stages of a backbone that learn: where it is cut, channels last, BatchNorm's momentum."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from checkwise.study.train import Algorithm, NetworkConfig, build_algorithm, frozen_part
from checkwise.study.train.backbone import Backbone, trainable_part
from checkwise.study.train.networks import lite0
from tests.refusals import refused


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return lite0()


def _images(size: int, n: int = 4) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(0))


def _algorithm(backbone: Backbone, tune: Any, **options: Any) -> Algorithm:
    torch.manual_seed(0)
    network = trainable_part(backbone, tune, 7, **options)
    return build_algorithm("CORAL", network.featurizer, network.classifier, {"lr": 1e-3})


@pytest.mark.parametrize(("size", "side"), [(224, 14), (160, 10)])
def test_the_last_two_stages_start_where_the_resolution_is_halved(
    backbone: Backbone, size: int, side: int
) -> None:
    part = frozen_part(backbone, "last-two-stages", size=size)
    whole = frozen_part(backbone, "head", size=size).module
    assert part.module is not None
    assert whole is not None
    x = _images(size, n=2)
    with torch.inference_mode():
        activations = part.module(x)
        features = trainable_part(backbone, "last-two-stages", 7).featurizer.eval()(activations)
        torch.testing.assert_close(features, whole(x))
    assert activations.shape[1:] == part.shape == (112, side, side)


def test_the_shape_after_the_frozen_part_follows_the_size_of_the_images(backbone: Backbone) -> None:
    assert frozen_part(backbone, "last-stage", size=160).shape == (192, 5, 5)
    assert frozen_part(backbone, "all", size=112).shape == (3, 112, 112)


def test_a_backbone_without_a_second_last_stage_is_refused() -> None:
    whole = Backbone((nn.Identity(),), 3, 8, (0.5,) * 3, (0.5,) * 3)
    with refused("unsupported"):
        frozen_part(whole, "last-two-stages")


@pytest.mark.parametrize("tune", ["last-two-stages", "all"])
def test_channels_last_computes_the_same_but_for_rounding(backbone: Backbone, tune: Any) -> None:
    """In double precision, where rounding is far below any other difference."""
    x = (_images(64) if tune == "all" else torch.rand(4, 112, 4, 4)).double()
    batches = [(x[:2], torch.tensor([0, 1])), (x[2:], torch.tensor([2, 3]))]
    both = [_algorithm(backbone, tune, channels_last=on).double() for on in (False, True)]
    logits = [algorithm.predict(x) for algorithm in both]
    torch.testing.assert_close(logits[0], logits[1])
    losses = [algorithm.update(batches)["loss"] for algorithm in both]
    torch.testing.assert_close(losses[0], losses[1])
    assert list(both[0].deployable_state()) == list(both[1].deployable_state())
    gradients = [[p.grad for p in algorithm.parameters()] for algorithm in both]
    for one, other in zip(*gradients, strict=True):
        assert one is not None
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tune", ["last-two-stages", "all"])
def test_channels_last_continues_bit_for_bit(backbone: Backbone, tune: Any) -> None:
    x = _images(64) if tune == "all" else torch.rand(4, 112, 4, 4)
    batches = [(x[:2], torch.tensor([0, 1])), (x[2:], torch.tensor([2, 3]))]
    straight = _algorithm(backbone, tune, channels_last=True, bn_momentum=0.1)
    straight.update(batches)
    saved = io.BytesIO()
    torch.save(straight.training_state(), saved)
    straight.update(batches)
    continued = _algorithm(backbone, tune, channels_last=True, bn_momentum=0.1)
    continued.load_training_state(torch.load(io.BytesIO(saved.getvalue()), weights_only=True))
    continued.update(batches)
    for name, tensor in straight.deployable_state().items():
        assert torch.equal(tensor, continued.deployable_state()[name]), name


def test_the_momentum_of_batchnorm_is_that_of_the_statistics(backbone: Backbone) -> None:
    algorithm = _algorithm(backbone, "last-two-stages", bn_momentum=0.1)
    layer = next(m for m in algorithm.modules() if isinstance(m, nn.BatchNorm2d))
    assert layer.running_mean is not None
    before = layer.running_mean.clone()
    x = torch.rand(4, 112, 4, 4)
    convolution = next(m for m in algorithm.modules() if isinstance(m, nn.Conv2d))
    with torch.no_grad():
        batch = convolution(x).mean((0, 2, 3))
    algorithm.update([(x, torch.tensor([0, 1, 2, 3]))])
    torch.testing.assert_close(layer.running_mean, 0.9 * before + 0.1 * batch)


def test_settings_that_are_not_used_are_not_written() -> None:
    old = {"kind", "hidden", "backbone", "tune", "freeze_bn"}
    assert set(NetworkConfig("backbone").as_dict()) == old
    new = NetworkConfig("backbone", bn_momentum=0.1, channels_last=True).as_dict()
    assert NetworkConfig(**new) == NetworkConfig("backbone", bn_momentum=0.1, channels_last=True)
