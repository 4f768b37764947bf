"""ResNet-50 with its real weights: reference outputs, and what an update changes of it.

`make test-resnet50` gets the weights and runs these tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from checkwise.study.train import TUNES, build_algorithm, frozen_part
from checkwise.study.train.backbone import Backbone, trainable_part
from checkwise.study.train.networks import build_backbone
from studies.resnet50_weights import FOLDER, convert, from_keras, read_tfjs
from tests.requirements import SHARED, requires

PACKED = os.environ.get("CHECKWISE_RESNET50", "")
PACS = SHARED / "data" / "PACS"
TUNED = [tune for tune in TUNES if tune != "head"]
# Names of tensors in the parts that learn.
LEARNS = {
    "last-stage": ("layer4.",),
    "last-two-stages": ("layer3.", "layer4."),
    "all": ("conv1.", "bn1.", "layer"),
}
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

pytestmark = pytest.mark.skipif(
    not PACKED, reason="CHECKWISE_RESNET50 names no npm package: use `make test-resnet50`"
)
with_images = requires("shared", PACS.is_dir(), "the PACS images are not beside the clone")

Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def keras() -> Arrays:
    """Keras' own tensors, the ImageNet classifier among them."""
    return dict(read_tfjs(Path(PACKED), FOLDER))


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backbone]:
    """The backbone as users get it: converted into a cache and loaded from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHECKWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        convert(PACKED)
        yield build_backbone("resnet50")


@pytest.fixture(scope="module")
def golden() -> Arrays:
    with np.load(SHARED / "golden" / "resnet50.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def images(golden: Arrays, backbone: Backbone) -> Tensor:
    from PIL import Image

    pixels = []
    for name in golden["files"]:
        with Image.open(PACS / name) as image:
            resized = image.convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
        pixels.append(np.asarray(resized))
    return backbone.normalise(torch.tensor(np.stack(pixels)).permute(0, 3, 1, 2))


def _after_frozen(backbone: Backbone, tune: Any, x: Tensor) -> Tensor:
    part = frozen_part(backbone, tune)
    with torch.no_grad():
        x = x if part.module is None else part.module(x)
    assert x.shape[1:] == part.shape
    return x


def _assert_equal_but_for_rounding(found: Tensor, expected: NDArray[Any]) -> None:
    """Values reach 17; the order of float32 sums moved them by up to 2e-5."""
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-4)


@with_images
def test_features_and_imagenet_logits_are_the_reference_outputs(
    backbone: Backbone, keras: Arrays, golden: Arrays, images: Tensor
) -> None:
    features = _after_frozen(backbone, "head", images)
    kernel, bias = (torch.from_numpy(keras[f"fc1000/{name}"]) for name in ("kernel", "bias"))
    assert features.shape == (12, 2048)
    assert golden["imagenet_logits"].shape == (12, 1000)
    _assert_equal_but_for_rounding(features, golden["features"])
    _assert_equal_but_for_rounding(features @ kernel + bias, golden["imagenet_logits"])


@with_images
@pytest.mark.parametrize("tune", TUNED)
def test_before_any_update_both_parts_together_give_the_reference_features(
    backbone: Backbone, golden: Arrays, images: Tensor, tune: Any
) -> None:
    featurizer = trainable_part(backbone, tune, 7).featurizer.eval()
    with torch.no_grad():
        features = featurizer(_after_frozen(backbone, tune, images))
    _assert_equal_but_for_rounding(features, golden["features"])


@pytest.mark.parametrize("freeze_bn", [True, False], ids=["frozen-bn", "live-bn"])
@pytest.mark.parametrize("tune", TUNED)
def test_an_update_changes_the_part_that_learns_and_nothing_else(
    backbone: Backbone, keras: Arrays, tune: Any, freeze_bn: bool
) -> None:
    torch.manual_seed(0)
    pretrained = from_keras(keras, PACKED)
    pixels = torch.randint(256, (4, 3, 224, 224))
    x = _after_frozen(backbone, tune, backbone.normalise(pixels))
    network = trainable_part(backbone, tune, 7, freeze_bn=freeze_bn)
    erm = build_algorithm("ERM", network.featurizer, network.classifier, {"lr": 5e-5})
    erm.update([(x[:2], torch.tensor([0, 1])), (x[2:], torch.tensor([2, 3]))])

    # `featurizer.last_stage.layer4.0.conv1.weight` is the backbone's `layer4.0.conv1.weight`.
    after = {
        name.split(".", 2)[2]: tensor
        for name, tensor in erm.deployable_state().items()
        if name.startswith("featurizer.")
    }
    assert set(after) == {name for name in pretrained if name.startswith(LEARNS[tune])}
    changed = {name for name in after if not torch.equal(after[name], pretrained[name])}
    still = {name for name in after if freeze_bn and name.endswith(STATISTICS)}
    assert changed == set(after) - still

    whole = {**backbone.stem.state_dict(), **backbone.last_stage.state_dict()}
    assert whole.keys() == pretrained.keys()
    assert all(torch.equal(whole[name], pretrained[name]) for name in pretrained)
