"""One value per checkpoint and validation example, by domain: what every comparison reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from checkwise.errors import InputError
from checkwise.words import shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units of one domain: its examples, or its groups of examples."""

    sums: FloatArray  # the sum of the values of every unit, [T, G]
    sizes: FloatArray  # examples per unit, [G]


@dataclass(frozen=True, eq=False, init=False)
class Stratified:
    """Values of T checkpoints on the same validation examples of E domains.

    Args:
        values: for each domain [T, n_e], higher is better: 1 for a correct answer and 0 for a wrong
            one, or any number from 0 to 1.
        weights: one per domain, of 0 or more, adding up to 1.
        groups: for each domain the group of every example, [n_e]; examples of one group (a site, a
            patient, a burst) may depend on each other. None: every example stands for itself.

    Example:
        >>> sample = Stratified(([[1, 1, 0], [1, 0, 0]],), [1.0])
        >>> sample.mean.round(3)
        array([0.667, 0.333])
    """

    values: tuple[FloatArray, ...]
    weights: FloatArray
    groups: tuple[IntArray, ...] | None

    def __init__(
        self,
        values: Sequence[ArrayLike],
        weights: ArrayLike,
        groups: Sequence[ArrayLike] | None = None,
    ) -> None:
        tables = tuple(np.asarray(domain, dtype=np.float64) for domain in values)
        shapes = [table.shape for table in tables]
        finite = all(len(s) == 2 and 0 not in s for s in shapes) and all(
            bool(np.isfinite(table).all()) for table in tables
        )
        if not finite or len({shape[0] for shape in shapes}) != 1:
            raise InputError(
                "Expected finite values of shape (checkpoints, examples) of the same checkpoints "
                f"in every domain, but got shapes {shapes}, "
                f"{'finite' if finite else 'or values that are not finite'}: leave diverged "
                "checkpoints out."
            )
        w = np.asarray(weights, dtype=np.float64)
        if w.shape != (len(tables),) or (w < 0).any() or not abs(w.sum() - 1) <= 1e-9:
            raise InputError(
                f"Expected {len(tables)} weights of 0 or more that add up to 1, but got "
                f"{shown(weights)}."
            )
        if groups is not None:
            arrays = [np.asarray(of) for of in groups]
            expected = [(table.shape[1],) for table in tables]
            if [of.shape for of in arrays] != expected:
                raise InputError(
                    f"Expected a group for every example, {expected} by domain, but got "
                    f"{[of.shape for of in arrays]}."
                )
            groups = tuple(np.unique(of, return_inverse=True)[1].astype(np.int64) for of in arrays)
        object.__setattr__(self, "values", tables)
        object.__setattr__(self, "weights", w)
        object.__setattr__(self, "groups", groups)

    def __len__(self) -> int:
        return len(self.values[0])

    @cached_property
    def units(self) -> tuple[Units, ...]:
        """The independent units of every domain."""
        if self.groups is None:
            return tuple(Units(table, np.ones(table.shape[1])) for table in self.values)
        found = []
        for table, of in zip(self.values, self.groups, strict=True):
            sums = np.array([np.bincount(of, weights=row) for row in table], dtype=np.float64)
            found.append(Units(sums, np.bincount(of).astype(np.float64)))
        return tuple(found)

    @property
    def unit_sizes(self) -> tuple[FloatArray, ...]:
        """Examples per independent unit, by domain [G]."""
        return tuple(units.sizes for units in self.units)

    def joint(self, e: int) -> FloatArray:
        """Sums of products of all pairs of checkpoints over the examples of a domain, [T, T].

        For right and wrong answers: how many examples both of them get right.
        """
        return np.asarray(self.values[e] @ self.values[e].T)

    @property
    def counts(self) -> IntArray:
        """Examples per domain, [E]."""
        return np.array([table.shape[1] for table in self.values], dtype=np.int64)

    @cached_property
    def mean(self) -> FloatArray:
        """The weighted mean over domains of every checkpoint, [T]."""
        means = np.stack([units.sums.sum(axis=1) / units.sizes.sum() for units in self.units])
        return np.asarray(self.weights @ means)

    @cached_property
    def binary(self) -> bool:
        """Whether every value is 0 or 1."""
        return all(bool(((table == 0) | (table == 1)).all()) for table in self.values)

    def check_range(self) -> None:
        """Refuse values outside 0 to 1: bounds at any sample size need a known range."""
        low = min(float(table.min()) for table in self.values)
        high = max(float(table.max()) for table in self.values)
        if low < 0 or high > 1:
            raise InputError(
                f"Expected values from 0 to 1, but got {low:g} to {high:g}: this statement needs "
                "bounded values; give right and wrong answers, or a score with such a range.",
                code="unsupported",
            )


class Resample(Stratified):
    """What copies of the examples of a sample would give, several times faster.

    Args:
        sample: where the values come from.
        times: for each domain how often every example occurs, [n_e]; the examples of a group occur
            equally often, and every copy of a group is a group of its own.
        weights: one per domain; those of the sample unless given.

    Example:
        >>> sample = Stratified(([[1, 1, 0], [1, 0, 0]],), [1.0])
        >>> Resample(sample, [np.array([2, 1, 0])]).mean.round(3)
        array([1.   , 0.667])
    """

    times: tuple[FloatArray, ...]
    _sample: Stratified

    def __init__(
        self,
        sample: Stratified,
        times: Sequence[NDArray[Any]],
        weights: FloatArray | None = None,
    ) -> None:
        object.__setattr__(self, "values", sample.values)
        object.__setattr__(self, "weights", sample.weights if weights is None else weights)
        object.__setattr__(self, "groups", sample.groups)
        object.__setattr__(self, "binary", sample.binary)
        object.__setattr__(self, "times", tuple(np.asarray(t, dtype=np.float64) for t in times))
        object.__setattr__(self, "_sample", sample)

    @cached_property
    def counts(self) -> IntArray:
        return np.array([times.sum() for times in self.times], dtype=np.int64)

    @property
    def unit_sizes(self) -> tuple[FloatArray, ...]:
        if self.groups is not None:
            return tuple(units.sizes for units in self.units)
        return tuple(np.ones(n) for n in self.counts.tolist())

    @cached_property
    def units(self) -> tuple[Units, ...]:
        found = []
        for e, (units, times) in enumerate(zip(self._sample.units, self.times, strict=True)):
            if self.groups is not None:
                first = np.unique(self.groups[e], return_index=True)[1]
                times = times[first]
            rows = np.repeat(np.arange(len(units.sizes)), times.astype(np.int64))
            found.append(Units(units.sums[:, rows], units.sizes[rows]))
        return tuple(found)

    @cached_property
    def mean(self) -> FloatArray:
        each = zip(self.values, self.times, self.counts, strict=True)
        return np.asarray(self.weights @ np.stack([v @ t / n for v, t, n in each]))

    def joint(self, e: int) -> FloatArray:
        values = self.values[e]
        return np.asarray((values * self.times[e]) @ values.T)
