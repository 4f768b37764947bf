"""Augmentation: reproducible, and each of its parts does what it says."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from checkwise.study.data import augment
from checkwise.study.data.images import _crop_box, _jitter


@pytest.fixture
def images() -> NDArray[np.uint8]:
    random = np.random.RandomState(0)
    return random.randint(0, 256, size=(16, 32, 32, 3)).astype(np.uint8)


def test_equal_generators_give_equal_images(images: NDArray[np.uint8]) -> None:
    before = images.copy()
    first = augment(images, np.random.default_rng(1))
    assert np.array_equal(first, augment(images, np.random.default_rng(1)))
    assert not np.array_equal(first, augment(images, np.random.default_rng(2)))
    assert np.array_equal(images, before)
    assert first.shape == images.shape
    assert first.flags.writeable
    assert augment(images[:2], np.random.default_rng(0), size=20).shape == (2, 20, 20, 3)


def test_one_image_in_ten_is_grey(images: NDArray[np.uint8]) -> None:
    many = np.repeat(images, 50, axis=0)
    result = augment(many, np.random.default_rng(0))
    grey = (result == result[..., :1]).all((1, 2, 3)).mean()
    assert 0.06 < grey < 0.14


def test_half_of_the_images_are_flipped() -> None:
    ramp = np.tile(np.arange(0, 128, 4, dtype=np.uint8)[:, None], (400, 32, 1, 3))
    result = augment(ramp, np.random.default_rng(0)).astype(int)
    flipped = (result[:, :, :8].mean((1, 2, 3)) > result[:, :, -8:].mean((1, 2, 3))).mean()
    assert 0.4 < flipped < 0.6


def test_crops_keep_at_least_seven_tenths_of_the_area() -> None:
    random = np.random.default_rng(0)
    boxes = np.array([_crop_box(224, 224, random) for _ in range(2000)])
    left, top, right, bottom = boxes.T
    assert boxes.min() >= 0
    assert boxes.max() <= 224
    area = (right - left) * (bottom - top) / 224**2
    ratio = (right - left) / (bottom - top)
    assert area.min() > 0.69
    assert area.max() <= 1
    assert ratio.min() > 0.74
    assert ratio.max() < 1.35
    assert left.std() > 5
    assert top.std() > 5


class _Fixed:
    """Stands in for a generator: these factors, no turn of the hue, changes as written."""

    def __init__(self, *factors: float) -> None:
        self.factors = factors

    def uniform(self, low: float, high: float, size: int | None = None) -> Any:
        return 0.0 if size is None else np.array(self.factors)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return np.arange(n)


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ((0.8, 1, 1), lambda rgb, luma: 0.8 * rgb),
        ((1, 0.7, 1), lambda rgb, luma: 0.7 * rgb + 0.3 * luma.mean()),
        ((1, 1, 0.75), lambda rgb, luma: 0.75 * rgb + 0.25 * luma[..., None]),
    ],
)
def test_brightness_contrast_and_saturation_follow_their_formulas(
    images: NDArray[np.uint8], factors: tuple[float, ...], expected: Any
) -> None:
    rgb = images[0].astype(float)
    luma = rgb @ [0.299, 0.587, 0.114]
    jittered = _jitter(Image.fromarray(images[0]), _Fixed(*factors))  # type: ignore[arg-type]
    # The round trip through 8-bit hue costs a few levels.
    assert np.abs(np.asarray(jittered) - expected(rgb, luma)).mean() < 2.5


def test_brightness_and_hue_move_within_their_ranges() -> None:
    red = np.zeros((600, 8, 8, 3), np.uint8)
    red[..., 0] = 150
    result = augment(red, np.random.default_rng(0))[:, 4, 4].astype(float) / 255
    hues, values = [], []
    for pixel in result:
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        values.append(value)
        if saturation > 0.2:
            hues.append((hue + 0.5) % 1 - 0.5)
    assert -0.32 < min(hues) < -0.25
    assert 0.25 < max(hues) < 0.32
    assert max(values) > 1.1 * 150 / 255
