"""What the user's function returned, checked before it is written, and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.arrays import Array, to_numpy
from checkwise.metrics.inputs import Predictions, read
from checkwise.readers.predictions_file import OUTPUTS, read_outputs
from checkwise.records.examples import group_numbers
from checkwise.store.atomic_write import write_with
from checkwise.store.npz import open_npz, write_npz
from checkwise.text import shown

EXPECTED = (
    "(logits, labels), (logits, labels, groups), or a dict with `logits` (or `probs`) and `labels`"
)
_MEASURED = (*OUTPUTS, "labels")


@dataclass(frozen=True)
class Facts:
    """What has to be the same at every checkpoint of a domain."""

    kind: str
    examples: int
    classes: int
    labels: str
    groups: str | None = None

    def difference(self, other: Facts) -> str | None:
        """The first of these that differs, in words."""
        theirs = asdict(other)
        return next((name for name, value in asdict(self).items() if theirs[name] != value), None)


@dataclass(frozen=True)
class Outputs:
    """Logits or probabilities [n, C] and labels [n], as they are written.

    ``groups`` [n] names the independent unit (site, patient, burst) of every example, if given.
    """

    kind: str
    values: Array
    labels: Array
    groups: Array | None = None

    @property
    def facts(self) -> Facts:
        """Kind, number of examples and classes, and hashes of the labels and groups."""
        examples, classes = self.values.shape
        digest = hashlib.sha256(self.labels.astype(np.int64).tobytes()).hexdigest()
        if self.groups is None:
            return Facts(self.kind, examples, classes, digest)
        units = hashlib.sha256(group_numbers(self.groups, examples).tobytes()).hexdigest()
        return Facts(self.kind, examples, classes, digest, units)

    def write(self, path: Path) -> None:
        """Write ``<domain>.npz``, whole; equal outputs give equal files."""

        def save(temporary: Path) -> None:
            arrays = {self.kind: self.values, "labels": self.labels}
            if self.groups is not None:
                arrays["groups"] = self.groups
            with temporary.open("wb") as file:
                write_npz(file, arrays)

        write_with(path, save)


def check_outputs(returned: Any) -> Outputs:
    """Outputs that ``select`` will be able to read.

    Logits that are not finite are allowed: their checkpoint counts as diverged.

    Raises:
        InputError: another shape or type, labels that are not whole or out of range, no examples,
            or probabilities that are none.

    Example:
        >>> check_outputs(([[2.0, 1.0], [0.0, 3.0]], [0, 1])).kind
        'logits'
    """
    arrays = _arrays(returned)
    present = {name: to_numpy(arrays[name], name) for name in _MEASURED if name in arrays}
    for kind in present.keys() & {*OUTPUTS}:
        present[kind] = _storable(present[kind])
    # What is written is checked: in bfloat16 rows may sum to 1 less exactly than in float32.
    predictions = read(
        logits=present.get("logits"), probs=present.get("probs"), labels=present["labels"]
    )
    _refuse_unmeasurable(predictions)
    groups = _groups(arrays.get("groups"), len(predictions.labels))
    return Outputs(predictions.kind, predictions.values, predictions.labels, groups)


def saved_facts(path: Path) -> Facts:
    """The facts of a file that was written earlier."""
    return Outputs(*read_outputs(path)[:4]).facts


def is_whole(path: Path) -> bool:
    """Whether a file of outputs is there and was not cut off; no value is read."""
    try:
        with path.open("rb") as file, open_npz(file) as (headers, _):
            return "labels" in headers and any(kind in headers for kind in OUTPUTS)
    except (OSError, ValueError):
        return False


def _arrays(returned: Any) -> Mapping[str, Any]:
    if isinstance(returned, tuple) and len(returned) in (2, 3):
        return dict(zip(("logits", "labels", "groups"), returned, strict=False))
    if not isinstance(returned, Mapping):
        length = f" of {len(returned)}" if isinstance(returned, tuple | list) else ""
        raise InputError(
            f"Expected the function to return {EXPECTED}, but got "
            f"{type(returned).__name__}{length}: return one of these."
        )
    names = [str(name) for name in returned]
    if "labels" not in names or not any(kind in names for kind in OUTPUTS):
        raise InputError(
            f"Expected the function to return {EXPECTED}, but got a dict with "
            f"{shown(', '.join(names)) if names else 'nothing'}: rename or add what is missing."
        )
    return returned


def _groups(given: Any, n: int) -> Array | None:
    """The groups as plain names or whole numbers, one per example."""
    if given is None:
        return None
    raw = np.asarray(given) if isinstance(given, list | tuple) else to_numpy(given, "groups")
    if raw.dtype.kind in "OT" and all(isinstance(name, str) for name in raw.ravel().tolist()):
        raw = raw.astype(np.str_)  # a column of a data frame
    group_numbers(raw, n)
    return np.ascontiguousarray(raw)


def _storable(values: Array) -> Array:
    """Numbers as native floats of at most 64 bits, in one block."""
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and values.dtype.itemsize > 8):
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            values = values.astype(np.float64)
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))


def _refuse_unmeasurable(predictions: Predictions) -> None:
    """Refuse rows for which no finite NLL exists, unless logits blew up as a whole."""
    refused: tuple[int, Array, int] | None = None
    for start, rows, labels in predictions.blocks():
        if predictions.kind == "logits":
            if np.isnan(rows).any() or np.isposinf(rows).any():
                return
            bad = np.isneginf(rows[np.arange(len(rows)), labels])
        else:
            sums = rows.sum(1, dtype=np.float64)
            with np.errstate(invalid="ignore"):
                fine = (rows >= 0).all(1) & (np.abs(sums - 1) <= predictions.tolerance)
            bad = ~fine | (rows[np.arange(len(rows)), labels] <= 0)
        if bad.any() and refused is None:
            row = int(np.flatnonzero(bad)[0])
            refused = start + row, rows[row], int(labels[row])
    if refused is not None:
        predictions.refuse(*refused)
