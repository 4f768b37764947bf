"""Image folders ``domain/class/file``, decoded once into a file that all processes map; augmented.

Domains, classes and files are taken in sorted order. Every image becomes RGB (transparency dropped,
EXIF rotation not applied) and is resized to a square by Pillow's bicubic filter.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, naming_extras
from checkwise.study.data.caches import Progress, RowWriter, cache_dir, cached_rows, content_hashes
from checkwise.study.data.dataset import DomainDataset, fingerprint
from checkwise.words import shortened

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_NAMED_AT_ONCE = 5


@dataclass(frozen=True)
class ImageFolder:
    """What an image folder contains: ``files`` relative to ``root``, by domain, class and name."""

    root: Path
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    files: tuple[tuple[str, ...], ...]
    labels: tuple[NDArray[np.int64], ...]


@naming_extras()
def open_image_folder(
    root: Path | str, *, name: str | None = None, size: int = 224, progress: Progress | None = None
) -> DomainDataset:
    """Open an image folder; the first time, decode it into the cache.

    The cache is keyed by what the files contain, so any process that opens equal files at the same
    size maps the same decoded file.
    """
    from PIL import __version__ as pillow

    folder = scan(Path(root))
    files = [file for files in folder.files for file in files]
    hashes = content_hashes(folder.root, files, progress=progress)
    described = "\n".join(f"{file!r} {digest}" for file, digest in zip(files, hashes, strict=True))
    # Another Pillow may bring another JPEG decoder, whose pixels can differ by one.
    key = fingerprint(f"rgb bicubic, Pillow {pillow}", str(size), "\n".join(hashes))[:40]

    def fill(rows: RowWriter) -> None:
        _decode_into(rows, folder.root, files, hashes, size, progress)

    shape = (len(files), size, size, 3)
    pixels = cached_rows(cache_dir("images") / f"{key}.npy", shape, np.dtype(np.uint8), fill)
    ends = np.cumsum([len(files) for files in folder.files])
    return DomainDataset(
        name=name or folder.root.resolve().name,
        kind="images",
        domains=folder.domains,
        classes=folder.classes,
        x=tuple(np.split(pixels, ends[:-1])),
        y=folder.labels,
        ids=folder.files,
        fingerprint=fingerprint("rgb bicubic", str(size), described),
    )


def scan(root: Path) -> ImageFolder:
    """List an image folder without opening a file; refuses what is not ``domain/class/file``."""
    domains = _folders(root) if root.is_dir() else []
    classes_of = {domain: _folders(root / domain) for domain in domains}
    classes = sorted(set().union(*classes_of.values()))
    if not classes:
        got = "no class folders" if root.is_dir() else "nothing"
        raise InputError(
            f"Expected a folder of domain/class/file images, but got {got} in {str(root)!r}: pass "
            "the folder that holds the domain folders.",
            code="format" if root.is_dir() else "missing",
        )
    _check_same_classes(root, classes_of, classes)
    files = [[_image_files(root, domain, entry) for entry in classes] for domain in domains]
    return ImageFolder(
        root=root,
        domains=tuple(domains),
        classes=tuple(classes),
        files=tuple(tuple(file for group in groups for file in group) for groups in files),
        labels=tuple(
            np.repeat(np.arange(len(classes), dtype=np.int64), [len(group) for group in groups])
            for groups in files
        ),
    )


def decode(content: bytes, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        rgb = image.convert("RGB")
    if rgb.size != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(rgb, dtype=np.uint8)


def _folders(parent: Path) -> list[str]:
    entries = os.scandir(parent)
    return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def _image_files(root: Path, domain: str, entry: str) -> list[str]:
    folder = root / domain / entry
    nested = _folders(folder)
    if nested:
        raise InputError(
            f"Expected domain/class/file images, but got a folder {nested[0]!r} inside the class "
            f"in {str(folder)!r}: move its images up, or pass the folder above the domains.",
            code="format",
        )
    names = sorted(
        file.name
        for file in os.scandir(folder)
        if file.name.lower().endswith(SUFFIXES) and not file.name.startswith(".")
    )
    if not names:
        raise InputError(
            f"Expected images in every class, but got an empty class in {str(folder)!r}: "
            f"add images ({' '.join(SUFFIXES)}), or remove the class from all domains.",
            code="empty",
        )
    return [f"{domain}/{entry}/{name}" for name in names]


def _check_same_classes(root: Path, classes_of: dict[str, list[str]], classes: list[str]) -> None:
    # Numbering each domain's own folders would silently give one class two labels.
    lacking = {domain: sorted({*classes} - {*own}) for domain, own in classes_of.items()}
    named = [
        f"{domain!r} lacks {shortened([*map(repr, gone)])}"
        for domain, gone in lacking.items()
        if gone
    ]
    if named:
        others = len(named) - _NAMED_AT_ONCE
        so_do = [f"so do {others} more"] if others > 0 else []
        raise InputError(
            f"Expected the same classes in every domain, but "
            f"{'; '.join([*named[:_NAMED_AT_ONCE], *so_do])} in {str(root)!r}: name the folder of "
            "the domains, and add those class folders, or remove the classes from all domains.",
            code="differs",
        )


def _decode_into(
    rows: RowWriter,
    root: Path,
    files: list[str],
    hashes: list[str],
    size: int,
    progress: Progress | None,
) -> None:
    """Decode what is missing, in threads: Pillow works outside Python's lock."""

    def decoded(row: int) -> str | None:
        try:
            content = (root / files[row]).read_bytes()
            pixels = decode(content, size)
        except Exception as error:  # Pillow's decoders raise whatever a damaged file provokes
            return f"{files[row]!r} ({error})"
        if hashlib.sha256(content).hexdigest() != hashes[row]:
            return f"{files[row]!r} (changed while it was read)"
        rows.write(row, pixels[np.newaxis])
        return None

    missing = rows.missing().tolist()
    unreadable = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, problem in enumerate(pool.map(decoded, missing), start=1):
            if problem is not None:
                unreadable.append(problem)
            if progress is not None and (done % 100 == 0 or done == len(missing)):
                progress(done, len(missing))
    if unreadable:
        # Repaired files have other hashes, so another cache file.
        rows.path.unlink(missing_ok=True)
        raise InputError(
            f"Expected readable images, but got {len(unreadable)} unreadable: "
            f"{'; '.join(unreadable[:_NAMED_AT_ONCE])} in {str(root)!r}: replace or remove these "
            "files, then open the folder again.",
            code="format",
        )


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

    In order: random resized crop (area 0.7–1, aspect ratio 3/4–4/3, bilinear), horizontal flip
    (half of the images), colour jitter (brightness, contrast, saturation by factors 0.7–1.3 and
    hue by ±0.3 of the circle, in random order), greyscale (one image in ten). The crop is taken
    from the decoded square rather than from the original file. ``size`` defaults to the height.
    Every draw comes from ``random``: equal generators give equal images. Normalisation is the
    caller's.
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
    from PIL import Image

    shift = int(turn * 255)
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point([(level + shift) % 256 for level in range(256)])
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")
