"""What the user's function returned, checked: outputs that ``select`` will be able to read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import Accumulator, Array, read, to_numpy
from checkwise.records import group_numbers
from checkwise.store import OUTPUTS, Predictions, is_whole, read_outputs, write_outputs
from checkwise.words import shown

EXPECTED = (
    "(logits, labels), (logits, labels, groups), or a dict with `logits` (or `probs`) and `labels`"
)


class Facts(NamedTuple):
    """What has to be the same at every checkpoint of a domain."""

    kind: str
    examples: int
    classes: int
    labels: str
    groups: str | None

    def difference(self, other: Facts) -> str | None:
        """The first of these that differs, in words."""
        pairs = zip(self._fields, self, other, strict=True)
        return next((name for name, one, two in pairs if one != two), None)


class Known(NamedTuple):
    """The facts of a domain, and the step at which they were first seen."""

    step: int
    facts: Facts


def known_facts(out: Path) -> dict[str, Known]:
    """The facts of every domain that has outputs, from its first step."""
    known: dict[str, Known] = {}
    for step, files in Predictions(out).files.items():
        for domain, file in files.items():
            if domain not in known and is_whole(file):
                known[domain] = Known(step, saved_facts(file))
    return known


def saved_facts(file: Path) -> Facts:
    """The facts of a file that was written earlier."""
    saved = read_outputs(file)
    return Outputs(saved.kind, saved.outputs, saved.labels, saved.groups).facts


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
        units = None
        if self.groups is not None:
            units = hashlib.sha256(group_numbers(self.groups, examples).tobytes()).hexdigest()
        return Facts(self.kind, examples, classes, digest, units)

    def write(self, path: Path) -> None:
        """Write ``<domain>.npz``, whole; equal outputs give equal files."""
        arrays = {self.kind: self.values, "labels": self.labels}
        if self.groups is not None:
            arrays["groups"] = self.groups
        write_outputs(path, arrays)


def check_outputs(returned: Any) -> Outputs:
    """Outputs that ``select`` will be able to read.

    Logits that are not finite are allowed: their checkpoint counts as diverged.

    Example:
        >>> check_outputs(([[2.0, 1.0], [0.0, 3.0]], [0, 1])).kind
        'logits'
    """
    arrays = _arrays(returned)
    outputs = {kind: _storable(to_numpy(arrays[kind], kind)) for kind in OUTPUTS if kind in arrays}
    # What is written is checked: in bfloat16 rows may sum to 1 less exactly than in float32.
    checked = read(
        logits=outputs.get("logits"),
        probs=outputs.get("probs"),
        labels=to_numpy(arrays["labels"], "labels"),
    )
    if not (checked.kind == "logits" and any(_has_blown_up(z) for _, z, _ in checked.blocks())):
        Accumulator(classes=checked.classes).add(checked)
    groups = _groups(arrays.get("groups"), len(checked.labels))
    return Outputs(checked.kind, checked.values, checked.labels, groups)


def _arrays(returned: Any) -> Mapping[str, Any]:
    if isinstance(returned, tuple) and len(returned) in (2, 3):
        return dict(zip(("logits", "labels", "groups"), returned, strict=False))
    came = type(returned).__name__
    if isinstance(returned, Mapping):
        names = [str(name) for name in returned]
        if "labels" in names and any(kind in names for kind in OUTPUTS):
            return returned
        came = f"a dict with {shown(', '.join(names)) if names else 'nothing'}"
    elif isinstance(returned, tuple | list):
        came = f"{came} of {len(returned)}"
    raise InputError(
        f"Expected the function to return {EXPECTED}, but got {came}: return one of these."
    )


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


def _has_blown_up(logits: Array) -> bool:
    return bool(np.isnan(logits).any() or np.isposinf(logits).any())
