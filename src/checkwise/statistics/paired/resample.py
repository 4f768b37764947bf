"""A sample whose examples occur several times or not at all, without copies of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.statistics.paired.sample import FloatArray, IntArray, Stratified, Units


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
            rows = np.repeat(np.arange(units.count), times.astype(np.int64))
            found.append(units.among(rows))
        return tuple(found)

    @cached_property
    def mean(self) -> FloatArray:
        each = zip(self.values, self.times, self.counts, strict=True)
        return np.asarray(self.weights @ np.stack([v @ t / n for v, t, n in each]))

    def joint(self, e: int) -> FloatArray:
        values = self.values[e]
        return np.asarray((values * self.times[e]) @ values.T)
