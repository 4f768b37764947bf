"""DomainBed's checkpoints, ``model_step100.pkl``: opened without running what is inside.

They are pickles. Only tensors, plain values and NumPy scalars, which DomainBed's random
hyperparameters are, are let through; anything else is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError, naming_extras
from checkwise.words import listed, shown

# The module in which NumPy keeps its scalars had another name before version 2.
_SCALAR: Final = np.float64(0).__reduce__()[0]
_SCALAR_NAMES: Final = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
_NUMPY: Final[list[Any]] = [
    *((_SCALAR, name) for name in _SCALAR_NAMES),
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "U1")),
    type(np.dtype("?")),
]
_KEYS: Final = {
    "args": Mapping,
    "model_input_shape": tuple,
    "model_num_classes": int,
    "model_num_domains": int,
    "model_hparams": Mapping,
    "model_dict": Mapping,
}


def _is_number(value: Any) -> bool:
    return type(value) is int


def _are_environments(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(i) is int and i >= 0 for i in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_fraction(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


_ARGS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "dataset": (_is_text, "a name"),
    "algorithm": (_is_text, "a name"),
    "test_envs": (_are_environments, "a list of numbers"),
    "trial_seed": (_is_number, "a number"),
    "holdout_fraction": (_is_fraction, "a fraction"),
    "seed": (_is_number, "a number"),
}


@dataclass(frozen=True)
class Checkpoint:
    """What DomainBed saved of a training.

    Attributes:
        args: the arguments of ``domainbed.scripts.train``.
        hparams: the hyperparameters.
        input_shape, classes, domains: what the algorithm is built for.
        state: its ``state_dict``.
    """

    args: dict[str, Any]
    hparams: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int
    domains: int
    state: dict[str, Any]

    @property
    def targets(self) -> tuple[int, ...]:
        """The environments that are held out."""
        return tuple(self.args["test_envs"])


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint of DomainBed.

    Raises:
        InputError: it holds something else than tensors, plain values and NumPy scalars, or is no
            checkpoint of DomainBed.
    """
    with naming_extras():
        import torch
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"Expected a checkpoint of DomainBed, but there is no file at {path}.", code="missing"
        )
    try:
        with torch.serialization.safe_globals(_NUMPY):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged file leads to inside torch has no common kind
        raise _refused(path, error) from None
    return _checked(content, path)


def _refused(path: Path, error: Exception) -> InputError:
    import torch

    try:
        with torch.serialization.safe_globals(_NUMPY):
            unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:
        unsafe = []
    if unsafe:
        return InputError(
            f"Expected tensors, plain values and NumPy scalars, but {path} holds "
            f"{listed(sorted(unsafe))}: loading that could run code of a stranger, so the "
            "file was not opened.",
            code="unsupported",
        )
    reason = " ".join(str(error).split())
    return InputError(
        f"Expected a checkpoint of DomainBed, but {path} is none: {reason:.120}", code="format"
    )


def _checked(content: Any, path: Path) -> Checkpoint:
    for key, kind in _KEYS.items():
        value = content.get(key) if isinstance(content, Mapping) else None
        if not isinstance(value, kind):
            raise InputError(
                f"Expected {key} in a checkpoint of DomainBed, but {path} has {shown(value)}: name "
                "a file that `domainbed.scripts.train --save_model_every_checkpoint` wrote.",
                code="format",
            )
    args = dict(content["args"])
    for name, (is_right, form) in _ARGS.items():
        if name not in args:
            raise InputError(
                f"Expected args.{name} in a checkpoint of DomainBed, but {path} lacks it: it was "
                "written by another version.",
                code="missing",
            )
        if not is_right(args[name]):
            raise InputError(
                f"Expected {form} as args.{name} in a checkpoint of DomainBed, but {path} has "
                f"{shown(args[name])}: it was changed after the training, or written by another "
                "version.",
                code="format",
            )
    return Checkpoint(
        args=args,
        hparams=dict(content["model_hparams"]),
        input_shape=tuple(content["model_input_shape"]),
        classes=content["model_num_classes"],
        domains=content["model_num_domains"],
        state=dict(content["model_dict"]),
    )
