"""The tolerance "paired": which checkpoints are near the best, as the validation examples tell.

Checkpoints share their validation examples, so differences between them are far better known than
any accuracy alone. The best measured checkpoint always stays, so that the set is never empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.records import Trajectory
from checkwise.selection.constraint import ToleranceKind
from checkwise.selection.standing import BoolArray, FloatArray, IntArray, domain_weights
from checkwise.statistics import Resample, Stratified, not_shown_worse

_MASKS: WeakKeyDictionary[Trajectory, dict[Any, BoolArray]] = WeakKeyDictionary()


def near_best(
    run: Trajectory, kind: ToleranceKind, delta: Fraction, weights: Any, order: IntArray
) -> BoolArray:
    """Which checkpoints are near the best by what their examples say, [T].

    ``delta`` is a fraction of 1. Those with ``order`` 0, the best measured accuracy, always stay.
    """
    shares = domain_weights(run, weights)
    remembered = _MASKS.setdefault(run, {})
    known = (kind, delta, shares)
    if known not in remembered:
        comparison = Comparison.of(run, kind, np.array([float(share) for share in shares]))
        remembered[known] = (comparison.near(float(delta)) | (order == 0)) & ~run.diverged
        remembered[known].setflags(write=False)
    return remembered[known]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The checkpoints of a run on their examples, as ``paired`` compares them.

    Args:
        alpha: its level.
        sample: the answers of the checkpoints that did not diverge.
        there: their places among those that are compared.
        chosen_from: [.], which of those that are compared belong to the run.
        evaluated: how many were evaluated, where nobody kept the answers of some: these share α
            equally. None: the k-th record gets its share.
    """

    alpha: float
    sample: Stratified
    there: IntArray
    chosen_from: BoolArray
    evaluated: int | None

    @classmethod
    def of(cls, run: Trajectory, kind: ToleranceKind, weights: Any) -> Comparison:
        """The comparison of a run; ``weights`` [E] say how domains count."""
        # Evidence against a checkpoint stays evidence when the weights of the other are gone, and
        # which weights remain may depend on the examples.
        assert run.examples is not None  # `check_needs` refused runs without
        examples = run.examples.evaluated
        there = np.flatnonzero(~examples.diverged)
        answers = tuple(one[there].astype(np.float64) for one in examples.correct)
        return cls(
            kind.alpha,
            Stratified(answers, weights, examples.groups),
            there,
            np.isin(examples.steps, run.steps),
            run.evaluated if run.evaluated > len(examples.steps) else None,
        )

    def near(
        self,
        delta: float,
        times: Sequence[NDArray[Any]] | None = None,
        weights: FloatArray | None = None,
    ) -> BoolArray:
        """Which checkpoints of the run are near the best, [T].

        ``times`` is for a resample: how often each example of every domain occurs in it, and
        ``weights`` how domains count there if not as in the run.
        """
        sample = self.sample if times is None else Resample(self.sample, times, weights)
        near = np.zeros(len(self.chosen_from), dtype=bool)
        near[self.there] = not_shown_worse(
            sample,
            delta=delta,
            alpha=self.alpha,
            evaluated=self.evaluated,
            growing=self.evaluated is None,
        )
        return near[self.chosen_from]
