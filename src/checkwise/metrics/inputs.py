"""Arrays at the door: duck-typed, checked, and cut into blocks.

Nothing here copies the whole input: half precision, foreign tensors and strided views are
converted a block at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics.arrays import Array, sliceable, to_numpy
from checkwise.words import shown

_BLOCK = 1 << 22  # elements converted at a time, of no more
_ROWS = 1 << 12  # rows than this
_MANY = 20


@dataclass(frozen=True)
class Predictions:
    """Checked shapes and labels; the values themselves are checked by the kernel, row by row.

    Attributes:
        values: [n, C] array or tensor of logits or probabilities, untouched.
        kind: "logits" or "probs".
        labels: [n] int64.
        classes: C.
        tolerance: how far the sum of a row of probabilities may be from 1; negative for logits.
    """

    values: Any
    kind: str
    labels: Array
    classes: int
    tolerance: float

    def blocks(self, multiple: int = 1) -> Iterator[tuple[int, Array, Array]]:
        """(first row, contiguous float32 or float64 values, labels), in order.

        Each but the last has a multiple of so many rows.
        """
        n = len(self.labels)
        size = max(1, min(_ROWS, _BLOCK // self.classes) // multiple) * multiple
        for start in range(0, n, size):
            rows = to_numpy(self.values[start : start + size], self.kind)
            if rows.dtype not in (np.float32, np.float64):
                with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
                    rows = rows.astype(np.float32 if rows.dtype.itemsize == 2 else np.float64)
            yield start, _frozen(rows), _frozen(self.labels[start : start + size])

    def refuse(self, row: int, values: Array, label: int) -> NoReturn:
        """Raise the error that says why this row cannot be used."""
        problem = _logit_problem if self.kind == "logits" else _probability_problem
        raise InputError(problem(row, values.astype(np.float64), label, self.tolerance))


def read(*, logits: Any, probs: Any, labels: Any, classes: int | None = None) -> Predictions:
    """Check everything that can be checked without reading all values.

    Raises:
        InputError: both or neither of logits and probs, wrong shapes or types, labels out of
            range, no examples.
    """
    if (logits is None) == (probs is None):
        raise InputError(
            "Expected exactly one of `logits` and `probs`, but got "
            f"{'neither' if logits is None else 'both'}. Pass raw scores as `logits=` or "
            "probabilities as `probs=`; they are never guessed from their values.",
            code="ambiguous",
        )
    kind = "probs" if logits is None else "logits"
    values = probs if logits is None else logits
    values = sliceable(values, kind)
    given = tuple(values.shape)
    values, labels = binary(values, labels, kind)
    shape = tuple(values.shape)
    if len(shape) != 2 or shape[1] < 2:
        raise InputError(
            f"Expected `{kind}` of shape [n, C], or [n] of class 1 of two, but got {list(shape)}. "
            "Give one row per example."
        )
    if shape[0] == 0:
        raise InputError(
            f"Expected at least one example, but `{kind}` is empty. Add rows.", code="empty"
        )
    if classes is not None and shape[1] != classes:
        raise InputError(
            f"Expected {classes} classes, but `{kind}` has {shape[1]} columns. "
            "Make a new Accumulator for a different number of classes.",
            code="differs",
        )
    sample = to_numpy(values[:1], kind)
    if sample.dtype.kind not in "fiu":
        raise InputError(
            f"Expected numbers in `{kind}`, but got dtype {sample.dtype}. Convert to float32."
        )
    checked = _read_labels(labels, rows=shape[0], classes=shape[1], one=given != shape)
    half = sample.dtype.itemsize < 4 or "float16" in str(getattr(values, "dtype", ""))
    tolerance = -1.0 if kind == "logits" else 1e-2 if half else 1e-4
    predictions = Predictions(values, kind, checked, shape[1], tolerance)
    if kind == "logits" and _look_like_probabilities(predictions, one=given != shape):
        how = "" if given != shape else " and every row sums to 1"
        warnings.warn(
            f"The `logits` lie in [0, 1]{how}, as probabilities do. "
            "If they are probabilities, pass them as `probs=`.",
            CheckwiseWarning,
            stacklevel=4,
        )
    return predictions


def binary(values: Any, labels: Any, kind: str) -> tuple[Any, Any]:
    """One logit or probability of class 1, [n] or [n, 1], as two columns; others as they are.

    Beside one column, labels may be 0 and 1 of any type, [n] or [n, 1].

    Example:
        >>> binary(np.array([0.25, 1.0]), [[True], [False]], "probs")
        (array([[0.75, 0.25],
               [0.  , 1.  ]]), array([1, 0]))
    """
    columns = two_columns(values, kind)
    if columns is values:
        return values, labels
    y = to_numpy(labels, "labels")
    if y.shape == (len(columns), 1):
        y = y[:, 0]
    if y.dtype.kind in "bf" and np.isin(y, (0, 1)).all():
        y = y.astype(np.int64)
    return columns, y


def two_columns(values: Any, kind: str) -> Any:
    """Of one column for class 1, both: the logits 0 and z, or the probabilities 1 - p and p."""
    if tuple(values.shape[1:]) not in ((), (1,)) or not len(values.shape):
        return values
    one = to_numpy(values, kind).reshape(-1)
    if one.dtype.kind not in "fiu":
        return values
    if one.dtype.kind == "f" and one.dtype.itemsize < 4:
        one = one.astype(np.float32)
    return np.stack([np.zeros_like(one) if kind == "logits" else 1 - one, one], axis=1)


def _frozen(array: Array) -> Array:
    """A contiguous read-only view."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _read_labels(labels: Any, *, rows: int, classes: int, one: bool) -> Array:
    y = to_numpy(labels, "labels")
    if y.shape != (rows,):
        raise InputError(
            f"Expected {rows} labels, one per row, but got shape {list(y.shape)}. "
            "Give class indices, not one-hot rows."
        )
    if y.dtype.kind not in "iu":
        odd = np.flatnonzero(y != np.floor(y)) if y.dtype.kind == "f" else y[:0]
        row = int(odd[0]) if len(odd) else 0
        raise InputError(
            f"Expected integer labels, but got dtype {y.dtype} with {shown(y[row])} at row {row}. "
            "Convert with labels.astype(int)."
        )
    outside = np.flatnonzero((y < 0) | (y >= classes))
    if len(outside):
        row = int(outside[0])
        advice = (
            "Leave out examples without a label."
            if y[row] < 0
            else "One column is the score of class 1 of two; more classes need a column each."
            if one
            else "Check that labels and columns count the same classes."
        )
        raise InputError(
            f"Expected labels from 0 to {classes - 1}, but got {int(y[row])} at row {row}. {advice}"
        )
    return np.ascontiguousarray(y, dtype=np.int64)


def _look_like_probabilities(predictions: Predictions, *, one: bool) -> bool:
    def alike(rows: Array) -> bool:
        wide = rows.astype(np.float64)
        inside = bool(((wide >= 0) & (wide <= 1)).all())
        return inside and (one or bool((np.abs(wide.sum(1) - 1) <= 1e-3).all()))

    if one and len(predictions.labels) < _MANY:  # a small batch may lie there by chance
        return False
    # Real logits fail at the first row, so the rest is almost never read twice.
    return alike(to_numpy(predictions.values[:1])) and all(
        alike(rows) for _, rows, _ in predictions.blocks()
    )


def _logit_problem(row: int, z: Array, label: int, tolerance: float) -> str:
    bad = np.flatnonzero(np.isnan(z) | (z == np.inf))
    if len(bad):
        return (
            f"Expected finite logits, but got {z[bad[0]]} at row {row}, class {bad[0]}. "
            "Drop this checkpoint or mark it as diverged."
        )
    if np.isneginf(z).all():
        return f"Expected a finite logit, but all are -inf at row {row}. Unmask a class."
    return (
        f"Expected a finite negative log-likelihood, but the logit of the label, class {label}, "
        f"is {z[label]} at row {row}. Do not mask out the true class."
    )


def _probability_problem(row: int, p: Array, label: int, tolerance: float) -> str:
    bad = np.flatnonzero(~(p >= 0))
    if len(bad):
        return (
            f"Expected probabilities of at least 0, but got {p[bad[0]]} at row {row}, class "
            f"{bad[0]}. Pass raw scores as `logits=`."
        )
    if not abs(p.sum() - 1) <= tolerance:
        return (
            f"Expected probabilities that sum to 1 within {tolerance:g}, but got {p.sum():.6g} at "
            f"row {row}. Normalise the rows, or pass raw scores as `logits=`."
        )
    return (
        f"Expected a positive probability of the label, but class {label} has 0 at row {row}, an "
        "infinite negative log-likelihood. Pass `logits=`, which do not underflow."
    )
