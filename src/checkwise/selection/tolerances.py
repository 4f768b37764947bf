"""Which checkpoints count as near the best: within a fixed δ, or as the validation examples tell.

Checkpoints share their validation examples, so differences between them are far better known than
any accuracy alone. Both tolerances keep the best measured checkpoint, so none is ever empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import error_level
from checkwise.records import Examples, Trajectory
from checkwise.selection.standing import BoolArray, FloatArray, IntArray, domain_weights
from checkwise.statistics import Resample, Stratified, not_shown_worse
from checkwise.words import shown

ALPHA: Final = 0.05
# Name → what it keeps, as `checkwise rules` and help texts say it.
TOLERANCES: Final = {
    "fixed": "at most delta below the best measured accuracy",
    "paired": "not shown to be worse than the best by more than delta",
}
# Options of `select` that say which tolerance.
TOLERANCE_OPTIONS: Final = ("tolerance", "alpha")
NEEDS_EXAMPLES: Final = (
    "select from saved predictions (`checkwise predict` makes them), train with "
    '`logits = "source"` in the study, or use tolerance "fixed"'
)
# For the log of a run that was selected live with such a tolerance.


@dataclass(frozen=True)
class ToleranceKind:
    """How it is decided which checkpoints are near the best.

    Args:
        name: one of ``TOLERANCES``.
        alpha: level of ``paired``; ``fixed`` has none.

    A checkpoint that was left out stays out, whatever is recorded later. ``fixed``: the best only
    rises. ``paired``: evidence against a checkpoint is a sum with one part per other checkpoint. A
    later record adds a part of 0 or more and changes none, so the sum never falls below the edge
    again. The k-th record gets 6α/(π²k²) of α, so that their number need not be known.
    """

    name: str = "fixed"
    alpha: float = ALPHA

    @property
    def fixed(self) -> bool:
        """Whether accuracies alone decide."""
        return self.name == "fixed"

    def as_dict(self) -> dict[str, Any]:
        """As ``select`` takes it and as JSON and journals hold it; nothing where it is fixed."""
        return {} if self.fixed else {"tolerance": self.name, "alpha": self.alpha}


FIXED: Final = ToleranceKind()


def check_tolerance(name: object = "fixed", alpha: float | None = None) -> ToleranceKind:
    """A way to decide what is near the best, if it is one.

    Example:
        >>> check_tolerance("paired", 0.1)
        ToleranceKind(name='paired', alpha=0.1)
    """
    if not isinstance(name, str) or name not in TOLERANCES:
        raise InputError(
            f"Expected the tolerance to be one of {', '.join(TOLERANCES)}, but got {shown(name)}.",
            code="unknown",
        )
    if alpha is not None and name == FIXED.name:
        raise InputError(
            f"Expected no alpha with tolerance {name!r}, which has no level, but got "
            f"{shown(alpha)}: leave it out.",
            code="unsupported",
        )
    return ToleranceKind(name, ALPHA if alpha is None else error_level(alpha))


_MASKS: WeakKeyDictionary[Trajectory, dict[Any, BoolArray]] = WeakKeyDictionary()


def near_best(
    run: Trajectory, kind: ToleranceKind, delta: Fraction, weights: Any, best: BoolArray
) -> BoolArray:
    """Which checkpoints are near the best by what their examples say, [T].

    Args:
        run: has to carry examples.
        kind: any but ``fixed``.
        delta: the tolerance as a fraction of 1.
        weights: how domains count.
        best: the checkpoints with the best measured accuracy, compared exactly; they always stay.
    """
    shares = domain_weights(run, weights)
    remembered = _MASKS.setdefault(run, {})
    known = (kind, delta, shares)
    if known not in remembered:
        comparison = Comparison.of(run, kind, np.array([float(share) for share in shares]))
        remembered[known] = (comparison.near(float(delta)) | best) & ~run.diverged
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
        examples = examples_for(run, kind).evaluated
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


def examples_for(run: Trajectory, kind: ToleranceKind) -> Examples:
    """The examples of a run, refused where it has none."""
    if run.examples is None:
        raise InputError(
            f"Expected what every validation example said for tolerance {kind.name!r}, but this "
            f"run carries metrics alone: {NEEDS_EXAMPLES}.",
            code="missing",
        )
    return run.examples
