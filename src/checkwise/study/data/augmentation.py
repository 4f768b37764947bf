"""The usual training augmentation for domain generalization, image by image with Pillow.

In order: random resized crop (area 0.7–1, aspect ratio 3/4–4/3, bilinear), horizontal flip
(half of the images), colour jitter (brightness, contrast, saturation by factors 0.7–1.3 and hue by
±0.3 of the circle, in random order), greyscale (one image in ten). Images come from the decoded
cache, so the crop is taken from the resized square rather than from the original file.
Normalisation is the caller's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import naming_extras

if TYPE_CHECKING:
    from PIL.Image import Image

AREA = (0.7, 1.0)
LOG_RATIO = (math.log(3 / 4), math.log(4 / 3))
JITTER = 0.3
FLIP_PROBABILITY = 0.5
GREY_PROBABILITY = 0.1
_CROP_ATTEMPTS = 10


@naming_extras()
def augment(
    images: NDArray[np.uint8], random: np.random.Generator, *, size: int | None = None
) -> NDArray[np.uint8]:
    """Return an augmented copy of uint8 ``images`` [n, height, width, 3], as [n, size, size, 3].

    ``size`` defaults to the height. Every draw comes from ``random``: equal generators give equal
    images.
    """
    from PIL import Image

    side = images.shape[1] if size is None else size
    result = np.empty((len(images), side, side, 3), dtype=np.uint8)
    for row, pixels in enumerate(images):
        result[row] = np.asarray(_augment_one(Image.fromarray(pixels), side, random))
    return result


def _augment_one(image: Image, size: int, random: np.random.Generator) -> Image:
    from PIL import Image

    image = image.crop(_crop_box(*image.size, random))
    image = image.resize((size, size), Image.Resampling.BILINEAR)
    if random.random() < FLIP_PROBABILITY:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    image = _jitter(image, random)
    if random.random() < GREY_PROBABILITY:
        image = image.convert("L").convert("RGB")
    return image


def _crop_box(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    for _ in range(_CROP_ATTEMPTS):
        area = width * height * random.uniform(*AREA)
        ratio = math.exp(random.uniform(*LOG_RATIO))
        crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = int(random.integers(width - crop_width, endpoint=True))
            top = int(random.integers(height - crop_height, endpoint=True))
            return left, top, left + crop_width, top + crop_height
    return 0, 0, width, height


def _jitter(image: Image, random: np.random.Generator) -> Image:
    from PIL import ImageEnhance

    factors = random.uniform(1 - JITTER, 1 + JITTER, size=3).tolist()
    turn = random.uniform(-JITTER, JITTER)
    for change in random.permutation(4).tolist():
        if change == 3:
            image = _turn_hue(image, turn)
            continue
        kinds = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
        image = kinds[change](image).enhance(factors[change])
    return image


def _turn_hue(image: Image, turn: float) -> Image:
    """Shift the hue by ``turn`` of the full circle."""
    from PIL import Image

    shift = int(turn * 255)
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point([(level + shift) % 256 for level in range(256)])
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")
