"""What predictions are added to: sums over examples from which every metric follows.

A block of rows is exponentiated and normalised, then added. What is single in a row (the top label,
the true class, the few probabilities above tau) is listed and added one by one to moments by class
and cell; all others are powers that are summed column by column (see `gaussians`).

Logits in single precision may be exponentiated in it, in blocks of fixed sizes: errors of 1e-7 in
each probability average out over the rows of a block, unless rows are alike, and sums are the same
however examples came.
A probability that might lie on the other side of a hard edge is computed again.
"""

from __future__ import annotations

import threading
from typing import Any, Literal, NamedTuple

import numpy as np

from checkwise.metrics.gaussians import CLAMP, TERMS, Grid, cells_of, density_of
from checkwise.metrics.logits import probabilities

Array = np.ndarray[Any, np.dtype[Any]]

ARITHMETIC = "2"  # as run.json names it: the last bits of sums depend on it
_BLOCK = 1 << 19  # bytes of a block: larger leave the cache, smaller wait for Python
_UNTHREADED = 9_000  # elements of a matrix whose product with a vector BLAS does on one thread
_FEW_CLASSES = 32  # columns of so few classes are contiguous in a block, else rows
_MANY_CLASSES = 4096  # sums over rows of more are left to double precision
_FARTHEST = 30.0  # from 0, of a largest logit that is exponentiated as it is
_NEAR = 2e-6  # a probability in single precision is nearer than this


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


class Batch:
    """Examples: what each is, and their probabilities, a block of rows at a time.

    ``bad`` is the first row that cannot be used, or -1. Of logits that is one with NaN or +inf,
    with -inf alone, or where -log p[y] is infinite; of probabilities one with NaN or a negative
    entry, whose sum differs from 1 by more than `tolerance`, or where the label has 0.

    Args:
        values: [n, C] logits, or probabilities if `tolerance` is not negative.
        labels: [n].
        tolerance: how far the sum of a row of probabilities may be from 1.
        kind: the type of number in which probabilities are computed.
    """

    @np.errstate(all="ignore")
    def __init__(
        self, values: Array, labels: Array, tolerance: float, kind: Any = np.float64
    ) -> None:
        self.values, self.labels, self.of_logits = values, labels, tolerance < 0
        rows = np.arange(len(values))
        self.predicted = values.argmax(axis=1)  # the first of the largest
        self.correct = self.predicted == labels
        self._largest = values[rows, self.predicted].astype(np.float64)
        of_label = values[rows, labels]
        if self.of_logits:
            self._distance = self._largest - of_label
            usable = np.isfinite(self._distance)
        else:
            total = np.einsum("ij->i", values, dtype=np.float64)
            usable = (np.abs(total - 1.0) <= tolerance) & (of_label > 0)
            usable &= values.min(axis=1) >= 0
        self.bad = -1 if usable.all() else int(usable.argmin())
        self._top, self._others, self._of_label = np.empty((3, len(values)), dtype=kind)

    @np.errstate(all="ignore")
    def fill(self, start: int, p: Array) -> None:
        """The probabilities of some rows, 0 in place of the largest.

        Logits z with z[top] = max z become p = exp(z - shift) / (top + others), where the shift is
        0 unless the largest logit is far from 0.
        """
        part, these = slice(start, start + len(p)), np.arange(len(p))
        z, predicted, largest = self.values[part], self.predicted[part], self._largest[part]
        far = self.of_logits and max(largest.max(), -largest.min()) > _FARTHEST
        if far:
            shift = np.where(np.abs(largest) > _FARTHEST, largest, 0.0)
            z = np.subtract(z, shift[:, None], dtype=np.float64)
        if z.dtype != p.dtype or not p.flags.c_contiguous or not self.of_logits:
            np.copyto(p, z, casting="same_kind")
            z = p
        if self.of_logits:
            np.exp(z, out=p)
        self._top[part] = top = p[these, predicted]
        p[these, predicted] = 0.0
        if self.of_logits:
            self._others[part] = others = np.einsum("ij->i", p)
            p *= (1 / (top + others))[:, None]
        self._of_label[part] = p[these, self.labels[part]]

    @property
    def confidence(self) -> Array:
        """[n] the largest probability, once all rows were filled."""
        return np.asarray(1.0 / (1.0 + self._rest) if self.of_logits else self._top)

    @property
    def of_label(self) -> Array:
        """[n] the probability of the label."""
        return np.where(self.correct, self.confidence, self._of_label)

    @property
    def nll(self) -> Array:
        """[n] -log of that; of logits (m - z[y]) + log1p(rest), relatively accurate near 0."""
        if self.of_logits:
            return np.asarray(self._distance + np.log1p(self._rest))
        return np.asarray(-np.log(self.of_label))

    def brier(self, p: Array) -> Array:
        """[n] sum_c (p_c - [y = c])^2, from all probabilities but the largest."""
        squares = np.einsum("ij,ij->i", p, p) + self.confidence**2
        return np.asarray(squares + (1.0 - 2.0 * self.of_label))

    @property
    def _rest(self) -> Array:
        """[n] of logits the sum of exp(z - m) without the maximum m."""
        return np.asarray(np.divide(self._others, self._top, dtype=np.float64))


_kept = threading.local()


def _room(shape: tuple[int, int], kind: Any, order: Literal["C", "F"] = "C") -> list[Array]:
    """Three arrays that a thread keeps: new memory costs as much as adding a row."""
    size = shape[0] * shape[1] * np.dtype(kind).itemsize
    room: Array | None = getattr(_kept, "room", None)
    if room is None or room.shape[1] < size:
        _kept.room = room = np.empty((3, size), dtype=np.uint8)
    return [one[:size].view(kind).reshape(shape, order=order) for one in room]


def _rows_at_once(classes: int) -> int:
    """Rows of which BLAS makes a product on one thread; it gets no others.

    Its threads would change bits, and cost more than they do.
    """
    return 1 if classes < _FEW_CLASSES else max(1, _UNTHREADED // classes)


def _rows_of_block(classes: int, kind: Any) -> int:
    """How many rows are added at a time."""
    elements, unit = _BLOCK // int(np.dtype(kind).itemsize), _rows_at_once(classes)
    return max(1, elements // classes // unit) * unit


def single_block(classes: int) -> int:
    """Rows of a block in single precision; 0 where double is as fast, or needed for its sums."""
    return _rows_of_block(classes, np.float32) if _FEW_CLASSES <= classes <= _MANY_CLASSES else 0


def add(
    values: Array,
    labels: Array,
    tolerance: float,
    grid: Grid,
    sums: Sums,
    out: tuple[Array, Array],
    kind: Any = np.float64,
) -> int:
    """Add rows [n, C] to the sums unless one is unusable: that row, or -1.

    ``out`` takes correctness and NLL of every row, unless it is empty. What is computed in single
    precision, if that is the ``kind``, comes in whole blocks.
    """
    n, classes = values.shape
    batch = Batch(values, labels, tolerance, kind)
    if batch.bad >= 0 or not n:
        return batch.bad
    unit, size = _rows_at_once(classes), _rows_of_block(classes, kind)
    small, tau = np.zeros_like(sums.small), np.dtype(kind).type(grid.tau)
    order: Literal["C", "F"] = "F" if classes < _FEW_CLASSES else "C"
    found, rows_of = [], []
    for start in range(0, n, size):
        rows = min(size, n - start)
        p, power, x = _room((-(-rows // unit) * unit, classes), kind, order)
        batch.fill(start, p[:rows])
        p[rows:] = 0.0
        flat = p.ravel(order="K")
        large = np.flatnonzero(flat > tau)
        if p.flags.c_contiguous:
            i = large // classes
            c = large - i * classes
            rows_of.append(start + i)
        else:
            c = large // rows
        found.append((c, flat[large]))
        flat[large] = 0.0
        small += _moments(p, power, x, grid.tau)
    sums.small[:] += small / grid.tau ** np.arange(TERMS)[:, None]
    nll = batch.nll
    if len(out[0]):
        out[0][:], out[1][:] = batch.correct, nll
    found += [(batch.predicted, batch.confidence), (labels, batch.of_label)]
    c, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if kind != np.float64:
        _sharpen(values, np.concatenate([*rows_of, np.arange(n), np.arange(n)]), c, p, grid)
    _add_large(c, p, n, grid, sums)
    _add_tops(p[-2 * n : -n], batch.correct, grid, sums)
    sums.support[:] += np.bincount(labels, minlength=classes)
    sums.correct[:] += np.bincount(labels[batch.correct], minlength=classes)
    sums.nll[:] += np.bincount(labels, nll, classes)
    return -1


def _moments(p: Array, power: Array, x: Array, tau: float) -> Array:
    """Of what is left in the block, column by column: sums of p (p - tau / 2)^k, [K, C]."""
    rows, classes = p.shape
    if p.flags.f_contiguous:
        found = np.empty((TERMS, 1, classes))
    else:
        few = _rows_at_once(classes)
        ones, found = np.ones((1, few), p.dtype), np.empty((TERMS, rows // few, classes), p.dtype)
    np.subtract(p, p.dtype.type(tau / 2), out=x)
    for k in range(TERMS):
        if k:
            p = np.multiply(p, x, out=power)
        if p.flags.f_contiguous:
            np.einsum("ij->j", p, out=found[k, 0])
        else:
            np.matmul(ones, p.reshape(-1, few, classes), out=found[k, :, None])
    return np.asarray(found.sum(axis=1))


def _sharpen(values: Array, rows: Array, columns: Array, p: Array, grid: Grid) -> None:
    """Compute again, in double precision, what might lie on the other side of a hard edge."""
    place = p * grid.bins
    near = np.flatnonzero(np.abs(place - np.rint(place)) < _NEAR * grid.bins)
    near = near[(p[near] > _NEAR) & (p[near] < 1 - _NEAR)]
    again = probabilities(values[rows[near]])
    p[near] = again[np.arange(len(near)), columns[near]]


def _add_large(columns: Array, p: Array, n: int, grid: Grid, sums: Sums) -> None:
    """The probabilities above tau and last those of the n labels, one by one.

    (1 - p)^2 - p^2 of the label completes the Brier score: the squares of all p are summed anyway.
    """
    alone, of_label = p[:-n], p[-n:]
    sums.brier[0] += np.einsum("i,i->", alone, alone) + (1.0 - 2.0 * of_label).sum()
    cell = grid.cell_of(p)
    in_bin = columns[-n:] * grid.bins + grid.bin_of(cell[-n:])
    sums.labels[:] += np.bincount(in_bin, minlength=sums.labels.size).reshape(sums.labels.shape)
    where = columns * sums.large.shape[3] + cell
    where[-n:] += sums.large[0, 0].size
    x, power = grid.place_in(cell, p), p.copy()
    for moments in sums.large.reshape(TERMS, -1):
        np.add.at(moments, where, power)
        power *= x


def _add_tops(confidence: Array, correct: Array, grid: Grid, sums: Sums) -> None:
    """The confidences, soft and hard."""
    size = max(1, _BLOCK // 8 // grid.bins)
    for start in range(0, len(confidence), size):
        u, right = confidence[start : start + size], correct[start : start + size]
        weights = grid.gaussians(u, out=_room((grid.bins, len(u)), np.float64)[0])
        one = 1.0 / np.maximum(weights.sum(axis=0), CLAMP)
        sums.top[:] += [weights @ share for share in (one, one * u, one * right)]
    hard = grid.bin_of(grid.cell_of(confidence))
    sums.top_hard[0] += np.bincount(hard, confidence, grid.bins)
    sums.top_hard[1] += np.bincount(hard[correct], minlength=grid.bins)
