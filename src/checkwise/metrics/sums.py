"""What predictions are added to: sums over examples from which every metric follows.

A block of rows is exponentiated and normalised, then added. What is single in a row (the top label,
the true class, the few probabilities above tau) is listed and added one by one to moments by class
and cell; all others are powers that are summed column by column (see `gaussians`).
"""

from __future__ import annotations

import threading
from typing import Any, Literal, NamedTuple

import numpy as np

from checkwise.metrics.gaussians import TERMS, Grid, cells_of, density_of

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK = 1 << 16  # elements of a block, which should stay in the second-level cache
_SMALL = 15_000  # numbers of an array that malloc need not fetch from the system every time
_FEW_CLASSES = 32  # columns of so few classes are contiguous in a block, else rows
_FARTHEST = 500.0  # between two rows' largest logits that share a shift: exp does not underflow


class Sums(NamedTuple):
    """Everything the metrics need; all arrays are sums over examples, so merging is adding.

    C classes, B bins, J cells, K moments.
    """

    brier: Array  # [1] squared errors, but for the squares of small p
    support: Array  # [C] examples of each class
    correct: Array  # [C] of them correctly predicted
    nll: Array  # [C] their summed negative log-likelihood
    small: Array  # [K, C] sum of p s^k over small p
    large: Array  # [K, 2, C, J] sum of p x^k over large p, and over p of the labels
    labels: Array  # [C, B] number of labels in each hard bin
    top: Array  # [3, B] sum of w, of w u and of w [correct] over the confidences u
    top_hard: Array  # [2, B] in each hard bin the sum of u, and the number predicted correctly


def new_sums(classes: int, bins: int, bandwidth: float) -> Sums:
    """Zeros."""
    cells = cells_of(density_of(bins, bandwidth))
    return Sums(
        brier=np.zeros(1),
        support=np.zeros(classes, dtype=np.int64),
        correct=np.zeros(classes, dtype=np.int64),
        nll=np.zeros(classes),
        small=np.zeros((TERMS, classes)),
        large=np.zeros((TERMS, 2, classes, cells)),
        labels=np.zeros((classes, bins), dtype=np.int64),
        top=np.zeros((3, bins)),
        top_hard=np.zeros((2, bins)),
    )


class Rows(NamedTuple):
    """R examples, measured. Where one cannot be used, ``bad`` is its row and the rest is void."""

    p: Array  # [R, C] probabilities, 0 in place of the largest
    predicted: Array  # [R] the first class with the largest probability
    confidence: Array  # [R] that probability
    of_label: Array  # [R] probability of the label
    nll: Array  # [R] -log of that
    correct: Array  # [R] whether the label is predicted
    bad: int = -1

    def brier(self) -> Array:
        """[R] sum_c (p_c - [y = c])^2."""
        squares = np.einsum("ij,ij->i", self.p, self.p) + self.confidence**2
        return np.asarray(squares - self.of_label**2 + (1.0 - self.of_label) ** 2)


def measured(values: Array, labels: Array, tolerance: float, room: Array | None = None) -> Rows:
    """Examples of which ``values`` are logits, or probabilities if `tolerance` is not negative.

    Args:
        values: [R, C].
        labels: [R].
        tolerance: how far the sum of a row of probabilities may be from 1.
        room: [R, C] float64 for the probabilities.
    """
    room = np.empty(values.shape) if room is None else room
    predicted, rows = values.argmax(axis=1), np.arange(len(values))
    with np.errstate(all="ignore"):
        measure = _of_logits if tolerance < 0 else _of_probabilities
        confidence, of_label, nll, usable = measure(
            values, labels, rows, predicted, tolerance, room
        )
    bad = -1 if usable.all() else int(usable.argmin())
    return Rows(room, predicted, confidence, of_label, nll, predicted == labels, bad)


def _of_logits(
    z: Array, labels: Array, rows: Array, predicted: Array, tolerance: float, p: Array
) -> tuple[Array, Array, Array, Array]:
    """p = softmax(z), of which the largest is left out.

    With m = max z and rest = the sum of exp(z - m) without that maximum, the confidence is
    1 / (1 + rest) and -log p[y] = (m - z[y]) + log1p(rest), which keeps its relative accuracy near
    0. A row cannot be used where a logit is NaN or +inf, where all are -inf, or where -log p[y] is
    infinite: in all of these m - z[y] is not finite.
    """
    largest = z[rows, predicted].astype(np.float64)
    distance = largest - z[rows, labels]
    usable = np.isfinite(distance)
    if not usable.all():
        return largest, largest, distance, usable
    shift: Any = largest.max()  # one for all rows is quicker
    if largest.min() < shift - _FARTHEST:
        shift = largest[:, None]
    np.subtract(z, shift, out=p, dtype=np.float64)  # NumPy 1 would subtract a number in float32
    np.exp(p, out=p)
    top = p[rows, predicted]
    p[rows, predicted] = 0.0
    rest = p @ np.ones(z.shape[1]) / top
    confidence = 1.0 / (1.0 + rest)
    p *= (confidence / top)[:, None]
    of_label = np.where(predicted == labels, confidence, p[rows, labels])
    return confidence, of_label, distance + np.log1p(rest), usable


def _of_probabilities(
    given: Array, labels: Array, rows: Array, predicted: Array, tolerance: float, p: Array
) -> tuple[Array, Array, Array, Array]:
    """Rows are taken as given, not renormalised.

    A row cannot be used where an entry is negative or NaN, where the sum differs from 1 by more
    than `tolerance`, or where the label has probability 0.
    """
    np.copyto(p, given)
    confidence, of_label = p[rows, predicted], p[rows, labels]
    total = p @ np.ones(p.shape[1])
    usable = (np.abs(total - 1.0) <= tolerance) & (p.min(axis=1) >= 0) & (of_label > 0)
    p[rows, predicted] = 0.0
    return confidence, of_label, -np.log(of_label), usable


_kept = threading.local()


def _room(elements: int) -> Array:
    """[2, elements] of scratch, which a thread keeps: new memory costs as much as adding a row."""
    room: Array | None = getattr(_kept, "room", None)
    if room is None or room.shape[1] < elements:
        _kept.room = room = np.empty((2, elements))
    return room[:, :elements]


def add(
    values: Array, labels: Array, tolerance: float, grid: Grid, sums: Sums, out: tuple[Array, Array]
) -> int:
    """Add rows [n, C] to the sums unless one is unusable: that row, or -1.

    ``out`` takes correctness and NLL of every row, unless it is empty.
    """
    n, classes = values.shape
    size = max(16, _BLOCK // classes)
    room = _room(min(size, n) * classes)
    small = np.zeros_like(sums.small)
    found = []
    for start in range(0, n, size):
        part = values[start : start + size]
        shape, order = part.shape, _order(classes)
        p, power = (one[: part.size].reshape(shape, order=order) for one in room)
        rows = measured(part, labels[start : start + size], tolerance, p)
        if rows.bad >= 0:
            return start + rows.bad
        flat = p.ravel(order="K")
        large = np.flatnonzero(flat > grid.tau)
        columns, above = np.unravel_index(large, shape, order)[1], flat[large]
        flat[large] = 0.0
        _add_small(p, power, grid.tau, small)
        found.append((*rows[1:6], columns, above))
    predicted, confidence, of_label, nll, correct, columns, above = (
        np.concatenate(parts) for parts in zip(*found, strict=True)
    )
    if len(out[0]):
        out[0][:], out[1][:] = correct, nll
    sums.small[:] += small
    _add_large(
        np.concatenate([columns, predicted]),
        np.concatenate([above, confidence]),
        labels,
        of_label,
        grid,
        sums,
    )
    _add_tops(confidence, correct, grid, sums)
    sums.support[:] += np.bincount(labels, minlength=classes)
    sums.correct[:] += np.bincount(labels[correct], minlength=classes)
    sums.nll[:] += np.bincount(labels, nll, classes)
    return -1


def _order(classes: int) -> Literal["C", "F"]:
    return "F" if classes < _FEW_CLASSES else "C"


def _add_small(p: Array, power: Array, tau: float, small: Array) -> None:
    """What is left in the block, column by column: sums of p s^k."""
    ones = np.ones(len(p))
    small[0] += ones @ p
    np.multiply(p, p, out=power)
    for k in range(1, TERMS):
        small[k] += ones @ power / tau**k
        if k < TERMS - 1:
            power *= p


def _add_large(
    classes: Array, p: Array, labels: Array, of_label: Array, grid: Grid, sums: Sums
) -> None:
    """The probabilities above tau and those of the labels, one by one.

    (1 - p)^2 - p^2 of the label completes the Brier score: the squares of all p are summed anyway.
    """
    sums.brier[0] += np.einsum("i,i->", p, p) + (1.0 - 2.0 * of_label).sum()
    where = np.concatenate([classes, labels + len(sums.support)])
    p = np.concatenate([p, of_label])
    cell = grid.cell_of(p)
    in_bin = labels * grid.bins + grid.bin_of(cell[len(classes) :])
    sums.labels[:] += np.bincount(in_bin, minlength=sums.labels.size).reshape(sums.labels.shape)
    where, x = where * sums.large.shape[3] + cell, grid.place_in(cell, p)
    for moments in sums.large.reshape(TERMS, -1):
        np.add.at(moments, where, p)
        p *= x


def _add_tops(confidence: Array, correct: Array, grid: Grid, sums: Sums) -> None:
    """The confidences, soft and hard."""
    size = max(1, _SMALL // grid.bins)
    for start in range(0, len(confidence), size):
        u, right = confidence[start : start + size], correct[start : start + size] + 0.0
        weights = grid.shares(u)
        sums.top[0] += weights.sum(axis=1)
        sums.top[1] += np.einsum("bi,i->b", weights, u)
        sums.top[2] += np.einsum("bi,i->b", weights, right)
    hard = grid.bin_of(grid.cell_of(confidence))
    sums.top_hard[0] += np.bincount(hard, confidence, grid.bins)
    sums.top_hard[1] += np.bincount(hard[correct], minlength=grid.bins)
