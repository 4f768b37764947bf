"""What the tolerance promises about accuracy on the source population, and what it does not.

With probability at least 1 − α over the validation samples, every checkpoint within δ points of the
best *measured* accuracy has a *population* accuracy within δ + 2r of the best one, where

    r = 100·√( log(2T/α)/2 · Σ_e w_e²/n_e )

by Hoeffding's inequality and a union bound over the T checkpoints. Where a run tells what every
example said, a bound on differences between checkpoints stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.errors import InputError, NoGuaranteeError
from checkwise.metrics import error_level, to_floats, whole
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.standing import domain_weights
from checkwise.words import shown

if TYPE_CHECKING:
    from checkwise.selection.result import Selection
    from checkwise.sure import PairedBound

LARGEST = 2**53

CONDITIONS = (
    "validation examples are independent draws from their domain, and domains are independent",
    "domain weights were fixed before looking at the validation results",
    "the checkpoints do not depend on the validation examples (early stopping or tuning on them "
    "voids the bound)",
)
NOT_PROMISED = (
    "accuracy on an unseen target: no rule that reads source data alone is best for every target",
    "anything about NLL or calibration, on source or target",
)


@dataclass(frozen=True)
class Guarantee:
    """A bound on population accuracy, with its conditions.

    Args:
        alpha: probability that the bound fails.
        radius_pp: r, how far any measured accuracy may be from its population value, in points.
        bound_pp: δ + 2r: how far the chosen checkpoint may be below the best one, in points. With a
            tolerance that follows from the data, its measured gap stands for δ where it is larger.
        quantity: the accuracy that is bounded.
        conditions, not_promised: what has to hold, and what the bound does not say.
        paired: the bound by the examples that all checkpoints share, several times narrower; None
            where the run does not tell what every example said.
    """

    alpha: float
    radius_pp: float
    bound_pp: float
    quantity: str
    conditions: tuple[str, ...] = CONDITIONS
    not_promised: tuple[str, ...] = NOT_PROMISED
    paired: PairedBound | None = None

    def __str__(self) -> str:
        claim = (
            f"With probability at least {1 - self.alpha:g}, the population {self.quantity} of the "
            f"chosen checkpoint is at most {self.tightest_pp:.2f} points below the best of this run"
        )
        if self.paired is None:
            return f"{claim} (radius {self.radius_pp:.2f}).\n{self.terms}"
        stricter = [one for one in self.conditions if one not in self.paired.conditions]
        return "\n".join(
            [
                f"{claim}, by the validation examples that all checkpoints share.",
                self.terms,
                f"By the counts of correct answers alone the bound is {self.bound_pp:.2f} points "
                f"(radius {self.radius_pp:.2f}), if moreover:",
                *(f"  - {condition}" for condition in stricter),
            ]
        )

    @property
    def tightest_pp(self) -> float:
        """The bound to quote: the paired one where there is one, even if the other is smaller.

        To take the smaller one would be to look at both, and both fail with probability α each.
        """
        return self.bound_pp if self.paired is None else self.paired.bound_pp

    @property
    def terms(self) -> str:
        """What the bound to quote needs and does not promise: it is never printed without."""
        conditions = self.conditions if self.paired is None else self.paired.conditions
        lines = [
            "This holds if:",
            *(f"  - {condition}" for condition in conditions),
            "It does not promise:",
            *(f"  - {claim}" for claim in self.not_promised),
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}
        del plain["paired"]
        if self.paired is not None:
            conditions = list(self.paired.conditions)
            plain["paired"] = {"bound_pp": self.paired.bound_pp, "conditions": conditions}
        return plain


def source_accuracy_radius(
    n_checkpoints: int,
    counts: Sequence[int],
    alpha: float = 0.05,
    weights: Sequence[float] | None = None,
) -> float:
    """r_α in percentage points for the weighted mean accuracy over domains.

    Args:
        n_checkpoints: T, how many checkpoints were compared.
        counts: validation examples per domain.
        alpha: allowed probability of failure, in (0, 1).
        weights: one per domain, adding up to 1; equal if not given.

    Example:
        >>> round(source_accuracy_radius(51, [400, 400, 400]), 3)
        5.635
    """
    n = _counts(n_checkpoints, counts, alpha)
    w = np.full(len(n), 1 / len(n)) if weights is None else to_floats(weights, "weights")
    if w.shape != n.shape or not np.isfinite(w).all() or (w < 0).any() or abs(w.sum() - 1) > 1e-9:
        raise InputError(
            f"Expected {len(n)} weights of 0 or more that add up to 1, but got {shown(weights)}."
        )
    return 100 * sqrt(log(2 * n_checkpoints / alpha) / 2 * float((w**2 / n).sum()))


def worst_domain_radius(n_checkpoints: int, counts: Sequence[int], alpha: float = 0.05) -> float:
    """The radius in points for the accuracy of the worst domain: a union over domains as well.

    Example:
        >>> round(worst_domain_radius(51, [400, 400, 400]), 3)
        10.44
    """
    n = _counts(n_checkpoints, counts, alpha)
    return 100 * sqrt(log(2 * n_checkpoints * len(n) / alpha) / (2 * float(n.min())))


def _counts(n_checkpoints: int, counts: Sequence[int], alpha: float) -> Any:
    whole(n_checkpoints, "n_checkpoints", least=1, most=LARGEST)
    error_level(alpha)
    n = to_floats(counts, "counts")
    if n.ndim != 1 or n.size == 0 or not np.isfinite(n).all() or (n < 1).any():
        raise InputError(f"Expected one count of at least 1 per domain, but got {shown(counts)}.")
    return n


def guarantee(s: Selection, alpha: float, paired: bool) -> Guarantee:
    """What :meth:`Selection.guarantee` returns."""
    if s.constraint != ACCURACY:
        raise NoGuaranteeError(
            f"The bound is on accuracy, but this choice keeps {s.constraint} within a "
            "tolerance of its best, so no bound holds."
        )
    if not s.keeps_accuracy:
        raise NoGuaranteeError(
            f"Rule {s.rule} does not keep accuracy within a tolerance of the best, so no "
            "bound holds; source-acc and the ac- rules have one."
        )
    run, counts = s.trajectory, s.trajectory.counts
    if counts is None:
        raise NoGuaranteeError(
            "The bound needs the number of validation examples per domain, which this run "
            "does not carry: add a column `n`, or --n to a log."
        )
    if s.choice.worst_domain:
        radius = worst_domain_radius(run.evaluated, counts.tolist(), alpha)
        quantity = "worst-domain validation accuracy"
    else:
        shares = [float(w) for w in domain_weights(run, s.choice.weights)]
        radius = source_accuracy_radius(run.evaluated, counts.tolist(), alpha, shares)
        quantity = "mean " * (len(counts) > 1) + "validation accuracy"
    from checkwise.sure import paired_bound

    shared = paired_bound(run, s.index, s.choice, alpha) if paired else None
    delta = float(s.tolerance_pp)
    if not (s.choice.kind.fixed or s.guard_acted):
        delta = max(delta, s.gap_pp or 0.0)
    return Guarantee(alpha, radius, delta + 2 * radius, quantity, paired=shared)
