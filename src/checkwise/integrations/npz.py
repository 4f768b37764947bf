"""Saved outputs of one checkpoint on one domain: an ``.npz`` of plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from checkwise.errors import InputError

OUTPUTS = ("logits", "probs")


class _Needs(NamedTuple):
    kinds: str
    ndim: int


ARRAYS = {"logits": _Needs("fiu", 2), "probs": _Needs("f", 2), "labels": _Needs("iuf", 1)}


def read_outputs(file: Path, kind: str | None = None) -> tuple[str, Any, Any]:
    """What the outputs are ("logits" or "probs", by the array's name), the outputs, the labels."""
    with _opened(file) as saved:
        kind = kind or _kind(saved, file)
        return kind, _array(saved, kind, file), _array(saved, "labels", file)


def kind_of(file: Path) -> str:
    """Whether a file holds logits or probs, without reading either."""
    with _opened(file) as saved:
        return _kind(saved, file)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        # Opened here, because np.load leaves a file that is no archive open.
        with file.open("rb") as handle:
            saved = np.load(handle, allow_pickle=False)
            if not isinstance(saved, np.lib.npyio.NpzFile):
                raise _unexpected(file, "a single array")
            with saved:
                yield saved
    except InputError:
        raise
    except Exception as error:
        # Damage surfaces as a dozen kinds of error; all mean the same to the caller.
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise InputError(
            f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
            "save it again with np.savez."
        ) from None


def _kind(saved: Any, file: Path) -> str:
    for kind in OUTPUTS:
        if kind in saved.files:
            return kind
    raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}")


def _array(saved: Any, name: str, file: Path) -> Any:
    if name not in saved.files:
        raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}, no {name}")
    array = saved[name]
    needs = ARRAYS[name]
    if array.ndim != needs.ndim or array.dtype.kind not in needs.kinds:
        raise _unexpected(file, f"{name} of shape {array.shape} and type {array.dtype}")
    return array


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…)."
    )
