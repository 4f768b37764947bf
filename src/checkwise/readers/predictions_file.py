"""Saved outputs of one checkpoint on one domain: an ``.npz`` of plain arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.examples import Outcomes
from checkwise.store.npz import ArrayHeader, open_npz
from checkwise.store.safe_read import open_regular

OUTPUTS = ("logits", "probs")
_SINGLE = b"\x93NUMPY"  # how a file of one array begins


class _Needs(NamedTuple):
    """Kinds of types, dimensions, and how to say both of an array that may be left out."""

    kinds: str
    ndim: int
    said: str = ""


ARRAYS = {
    "logits": _Needs("fiu", 2),
    "probs": _Needs("f", 2),
    "labels": _Needs("iuf", 1),
    "groups": _Needs("iuUSb", 1, "whole numbers or text [n], the unit of every example"),
    "correct": _Needs("b", 1, "true or false [n], one per example"),
    "nll": _Needs("f", 1, "decimal numbers [n], one per example"),
}


class SavedOutputs(NamedTuple):
    """What a file holds.

    ``groups`` are the independent units of the examples, if named. ``outcomes`` are correctness and
    NLL from a higher precision than that of the outputs, if saved.
    """

    kind: str
    outputs: Any
    labels: Any
    groups: Any | None
    outcomes: Outcomes | None = None


def read_outputs(file: Path, kind: str | None = None) -> SavedOutputs:
    """The kind of the outputs ("logits" or "probs", by the array's name), outputs and labels."""
    with _opened(file) as saved:
        kind = kind or _kind(saved, file)
        groups = saved["groups"] if "groups" in saved.files else None
        outputs, labels = _array(saved, kind, file), _array(saved, "labels", file)
        return SavedOutputs(kind, outputs, labels, groups, _outcomes(saved))


def read_outcomes(file: Path) -> SavedOutputs:
    """The same without the outputs, which are most of a file and are not read."""
    with _opened(file) as saved:
        groups = saved["groups"] if "groups" in saved.files else None
        labels = _array(saved, "labels", file)
        return SavedOutputs(_kind(saved, file), None, labels, groups, _outcomes(saved))


def _outcomes(saved: Any) -> Outcomes | None:
    if not {"correct", "nll"} <= {*saved.files}:
        return None
    return Outcomes(saved["correct"], np.asarray(saved["nll"], dtype=np.float64))


def kind_of(file: Path) -> str:
    """Whether a file holds logits or probs, without reading either."""
    with _opened(file) as saved:
        return _kind(saved, file)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with open_regular(file) as handle:
            if handle.read(6) == _SINGLE:
                raise _unexpected(file, "a single array")
            handle.seek(0)
            with open_npz(handle) as (headers, saved):
                _check(headers, file)
                yield saved
    except InputError:
        raise
    except Exception as error:
        # Damage surfaces as a dozen kinds of error; all mean the same to the caller.
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise InputError(
            f"Expected an .npz file of plain arrays, but {file} cannot be read ({reason}): "
            "save it again with np.savez.",
            code="format",
        ) from None


def _kind(saved: Any, file: Path) -> str:
    for kind in OUTPUTS:
        if kind in saved.files:
            return kind
    raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}")


def _array(saved: Any, name: str, file: Path) -> Any:
    if name not in saved.files:
        raise _unexpected(file, f"arrays {', '.join(saved.files) or '(none)'}, no {name}")
    return saved[name]


def _check(headers: Mapping[str, ArrayHeader], file: Path) -> None:
    """Refuse what cannot be outputs and their labels, by headers alone."""
    for name, needs in ARRAYS.items():
        if name not in headers:
            continue
        shape, dtype = headers[name]
        if len(shape) != needs.ndim or dtype.kind not in needs.kinds:
            came = f"{name} of shape {shape} and type {dtype}"
            if needs.said:
                raise InputError(
                    f"Expected {name} as {needs.said}, but {file} holds {came}: save it so, or "
                    "leave it out.",
                    code="format",
                )
            raise _unexpected(file, came)
    sizes = {name: headers[name].shape[0] for name in ARRAYS if name in headers}
    labels = sizes.pop("labels", None)
    for name, rows in sizes.items():
        if labels is not None and rows != labels:
            raise InputError(
                f"Expected {rows} labels, one per row of {name}, but {file} holds {labels}: save "
                "outputs, labels and groups of the same examples."
                if name in OUTPUTS
                else f"Expected {labels} {name}, one per label, but {file} holds {rows}: save "
                "those of the same examples.",
                code="differs",
            )


def _unexpected(file: Path, came: str) -> InputError:
    return InputError(
        f"Expected numeric arrays logits (or probs) [n, C] and labels [n], but {file} holds "
        f"{came}: save them with np.savez(file, logits=…, labels=…).",
        code="format",
    )
