"""Augmentation: reproducible, and each of its parts does what it says."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from checkwise.data import augment
from checkwise.errors import InputError


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


def test_size_is_as_asked(images: NDArray[np.uint8]) -> None:
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
    from checkwise.data.augment import _crop_box

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


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((2, 8, 8, 3)), np.zeros((2, 8, 8, 1), np.uint8), np.zeros((8, 8, 3), np.uint8)],
)
def test_anything_but_rgb_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="uint8 images"):
        augment(wrong, np.random.default_rng(0))
