"""The answer: which checkpoint, and everything needed to see why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import NoGuaranteeError
from checkwise.metrics import METRICS, Metric
from checkwise.records import RunKey, Trajectory
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import Ranking, positions
from checkwise.selection.explain import coarse, explain
from checkwise.selection.guarantees import (
    Guarantee,
    source_accuracy_radius,
    worst_domain_radius,
)
from checkwise.selection.rules import Rule
from checkwise.selection.standing import Weights, domain_weights, tolerance

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
NEAR = 1e-9


@dataclass(frozen=True, eq=False)
class Selection:
    """The checkpoint a rule chose from a run; made by :func:`select`."""

    trajectory: Trajectory
    rule_used: Rule
    params: Mapping[str, Any]
    weights: Weights
    worst_domain: bool
    index: int
    ranking: Ranking
    reason: str = ""  # why not the default rule, where no rule was named

    def __repr__(self) -> str:
        return (
            f"<Selection {self.rule}: step {self.step}, accuracy {100 * self.accuracy:.2f}, "
            f"gap {self.gap_pp:.2f} points, {len(self.eligible_steps)} eligible of "
            f"{len(self.trajectory)}>"
        )

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return self.rule_used.name

    @property
    def run(self) -> RunKey | None:
        """Which run of a study, if known."""
        return self.trajectory.key

    @property
    def step(self) -> int:
        """The chosen training step."""
        return int(self.trajectory.steps[self.index])

    @property
    def path(self) -> str | None:
        """Where the chosen weights are, if the run says."""
        return None if self.trajectory.paths is None else self.trajectory.paths[self.index]

    @property
    def score(self) -> float:
        """What the rule minimised, at the chosen checkpoint."""
        return float(self.ranking.score[self.index])

    @property
    def columns(self) -> Columns:
        """What the rule saw of the run."""
        return Columns.of(self.trajectory, weights=self.weights, worst_domain=self.worst_domain)

    @property
    def accuracy(self) -> float:
        """Mean source accuracy of the chosen checkpoint (a fraction)."""
        return float(self.columns["accuracy"][self.index])

    @property
    def gap_pp(self) -> float:
        """Points of source accuracy below the best checkpoint."""
        return float(self.columns["gap_pp"][self.index])

    @cached_property
    def eligible_steps(self) -> tuple[int, ...]:
        """Steps that the rule could have chosen."""
        return tuple(self.trajectory.steps[self.ranking.eligible].tolist())

    @property
    def feasible_steps(self) -> tuple[int, ...]:
        """The eligible steps under their name in JSON; with a tolerance, the feasible set.

        A rule without a tolerance (``pure-nll``) has no feasible set: this then lists every step
        that it could have chosen. ``pareto=True`` leaves out the dominated steps.
        """
        return self.eligible_steps

    @cached_property
    def ties(self) -> tuple[int, ...]:
        """Other steps with exactly the chosen score."""
        return self._steps_with(self.ranking.score == self.score)

    @cached_property
    def near_ties(self) -> tuple[int, ...]:
        """Other steps whose score differs by no more than rounding and η can make.

        η takes η/range off the largest normalised value of each objective, so it matters most
        where the range is small.
        """
        largest = [v[self.ranking.eligible].max() for v in self.ranking.normalised.values()]
        offset = sum(1.0 - float(value) for value in largest if value > 0)
        close = np.abs(self.ranking.score - self.score) < NEAR + offset
        return self._steps_with(close & (self.ranking.score != self.score))

    def _steps_with(self, marked: Any) -> tuple[int, ...]:
        marked = marked & self.ranking.eligible
        marked[self.index] = False
        return tuple(self.trajectory.steps[marked].tolist())

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The metrics besides accuracy by which the rule ranked."""
        return tuple(self.params.get("objectives", self.rule_used.needs))

    @property
    def digest(self) -> str:
        """SHA-256 of everything that could have influenced the choice."""
        return self.trajectory.digest

    @cached_property
    def rank(self) -> Any:
        """Rank of every checkpoint, 1 for the chosen one."""
        return positions(
            self.ranking,
            self.columns["order"],
            ties_by_accuracy=self.rule_used.ties_by_accuracy,
        )

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Every checkpoint, best first, with all that the rule looked at."""
        import pandas

        return pandas.DataFrame(self.ranked)

    @cached_property
    def ranked(self) -> dict[str, NDArray[Any]]:
        """The columns of ``table`` by name."""
        columns = {name: column for name, column in self.columns.items() if name != "order"}
        leading = {name: columns.pop(name) for name in ("step", "accuracy", "gap_pp")}
        every = {
            "rank": self.rank,
            **leading,
            "feasible": self.ranking.eligible,
            "score": self.ranking.score,
            **columns,
            **{f"{name}_normalised": values for name, values in self.ranking.normalised.items()},
        }
        order = np.argsort(self.rank)
        return {name: np.asarray(column)[order] for name, column in every.items()}

    def explain(self) -> str:
        """Why this checkpoint, in a few sentences."""
        return explain(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader noted about the run, and whether the tolerance is finer than the data."""
        note = coarse(self)
        return (*self.trajectory.notes, note) if note else self.trajectory.notes

    def guarantee(self, alpha: float = 0.05) -> Guarantee:
        """The bound on population source accuracy, with its conditions.

        Raises:
            NoGuaranteeError: the rule does not constrain accuracy, or counts are not known.
        """
        if not self.rule_used.constrained:
            raise NoGuaranteeError(
                f"Rule {self.rule} does not keep accuracy within a tolerance of the best, so no "
                "bound holds; source-acc and the ac- rules have one."
            )
        if self.trajectory.counts is None:
            raise NoGuaranteeError(
                "The bound needs the number of validation examples per domain, which this run "
                "does not carry: add a column `n`."
            )
        delta = self.tolerance_pp
        counts = self.trajectory.counts.tolist()
        if self.worst_domain:
            radius = worst_domain_radius(len(self.trajectory), counts, alpha)
            quantity = "worst-domain source accuracy"
        else:
            shares = [float(w) for w in domain_weights(self.trajectory, self.weights)]
            radius = source_accuracy_radius(len(self.trajectory), counts, alpha, shares)
            quantity = "mean source accuracy"
        return Guarantee(alpha, radius, float(delta) + 2 * radius, quantity)

    @property
    def tolerance_pp(self) -> Fraction:
        """δ in points; 0 for rules that take the best accuracy."""
        return tolerance(self.params.get("delta_pp", 0))

    def as_dict(self, alpha: float = 0.05) -> dict[str, Any]:
        """The stable record behind ``--json``, with the bound at level ``alpha``."""
        return {
            "schema": SCHEMA,
            "step": self.step,
            "rule": self.rule,
            "rule_reason": self.reason or None,
            "params": {name: plain(value) for name, value in self.params.items()},
            "weights": self.weights if isinstance(self.weights, str) else dict(self.weights),
            "worst_domain": self.worst_domain,
            "score": self.score,
            "accuracy": self.accuracy,
            "gap_pp": self.gap_pp,
            "feasible_steps": list(self.feasible_steps),
            "ties": list(self.ties),
            "near_ties": list(self.near_ties),
            "path": self.path,
            "checkpoints": len(self.trajectory),
            "diverged": self.trajectory.n_diverged,
            "domains": list(self.trajectory.domains),
            "validation": list(self.trajectory.domains),
            "notes": list(self.notes),
            "digest": self.digest,
            "guarantee": self._guarantee_record(alpha),
            **self._offered_by(),
        }

    def _offered_by(self) -> dict[str, Any]:
        """Which installed packages the rule and its metrics came from, if any did."""
        used: list[tuple[str, Rule | Metric]] = [("rule", self.rule_used)]
        used += [("metric", METRICS[name]) for name in self.looked_at if name in METRICS]
        offered = [
            {"kind": kind, "name": thing.name, **asdict(thing.origin)}
            for kind, thing in used
            if thing.origin is not None
        ]
        return {"offered_by": offered} if offered else {}

    def _guarantee_record(self, alpha: float) -> dict[str, Any]:
        try:
            return self.guarantee(alpha).as_dict()
        except NoGuaranteeError as error:
            return {"alpha": alpha, "bound_pp": None, "reason": str(error)}

    def to_json(self) -> str:
        """``as_dict`` as one line of strict JSON."""
        return json.dumps(self.as_dict(), allow_nan=False)


def plain(value: Any) -> Any:
    """A parameter as strict JSON can hold it."""
    if isinstance(value, float) and value == np.inf:
        return "inf"
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
