"""``Selection``: a choice, and what can be asked about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, NoGuaranteeError
from checkwise.metrics import METRICS, Direction, Metric
from checkwise.records import RunKey, Trajectory
from checkwise.selection.choice import Choice, plain
from checkwise.selection.columns import Columns
from checkwise.selection.constraint import ACCURACY, decimal
from checkwise.selection.constraint import tolerance as points_of
from checkwise.selection.directions import direction_of, known_direction
from checkwise.selection.guard import WITHIN_PP, Guard, Saturation
from checkwise.selection.ranking import Ranking, positions
from checkwise.selection.rulebook import Rule
from checkwise.selection.standing import BoolArray

if TYPE_CHECKING:
    from checkwise.selection.calibrated import CalibratedChoice
    from checkwise.selection.guarantees import Guarantee
    from checkwise.sure import Corrected, Stability, Sureness

DRAWS: Final = 10_000  # of stability
FOLDS: Final = 10  # of optimism
REPEATS: Final = 10
LEVEL: Final = 0.95

NEAR: Final = 1e-9  # scores that no data can tell apart
# Parameters that a user may write as text, so that they mean the decimal that was written.
DECIMALS: Final = ("delta_pp", "threshold_pp", "delta")


@dataclass(frozen=True, eq=False)
class Selection:
    """The checkpoint a rule chose from a run; made by :func:`select`."""

    trajectory: Trajectory
    choice: Choice  # as it was asked for
    rule_used: Rule
    params: Mapping[str, Any]  # every one of them
    index: int
    ranking: Ranking
    reason: str = ""  # why not the default rule, where no rule was named
    guard: Guard | None = None  # what it did; None where it is off
    calibration: CalibratedChoice | None = None  # where live selection was asked for one

    def __repr__(self) -> str:
        by_accuracy = (
            ""
            if self.accuracy is None
            else f"accuracy {100 * self.accuracy:.2f}, gap {self.gap_pp:.2f} points, "
        )
        return (
            f"<Selection {self.rule}: step {self.step}, {by_accuracy}"
            f"{len(self.feasible_steps)} eligible of {len(self.trajectory)}>"
        )

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return self.rule_used.name

    @property
    def settings(self) -> dict[str, Any]:
        """The rule, its parameters and what else is not usual, side by side."""
        told = {**self.choice.told, **self.params, **self.choice.kind.as_dict()}
        return {"rule": self.rule, **told}

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

    @cached_property
    def columns(self) -> Columns:
        """What the rule saw of the run."""
        return Columns.of(self.trajectory, self.choice)

    @property
    def accuracy(self) -> float | None:
        """Mean source accuracy of the chosen checkpoint (a fraction); None where it has none."""
        return self._at_choice("accuracy")

    @property
    def gap_pp(self) -> float | None:
        """Points of source accuracy below the best checkpoint; None without accuracy."""
        return self._at_choice("gap_pp")

    def _at_choice(self, name: str) -> float | None:
        columns = self.columns
        return float(columns[name][self.index]) if name in columns else None

    @property
    def constraint(self) -> str:
        """The score that an ``ac`` rule keeps near its best; accuracy for the other rules."""
        return self.rule_used.constraint(self.params)

    @property
    def guard_acted(self) -> bool:
        """Whether the choice is the earliest near-best checkpoint, instead of the rule's own."""
        return self.guard is not None and self.guard.acted

    @property
    def keeps_accuracy(self) -> bool:
        """Whether the choice is within a tolerance of the best accuracy."""
        constrained = self.rule_used.constrained and self.constraint == ACCURACY
        return constrained or self.guard_acted

    @cached_property
    def judged_by(self) -> ScoreAtChoice | None:
        """The score that says how near the best the choice is.

        The constraint; for other rules accuracy, or without accuracy what the rule ranks by. None
        where a rule of your own names no score.
        """
        names = [self.constraint, *self.looked_at]
        there = (name for name in names if name in self.columns)
        name = next((n for n in there if known_direction(n, self.choice.directions)), None)
        if name is None:
            return None
        value, best = (
            float(self.columns[name][self.index]),
            float(self.columns.standings(name)[0].best),
        )
        direction = direction_of(name, self.choice.directions)
        gap = best - value if direction == "higher" else value - best
        return ScoreAtChoice(name, direction, value, best, max(gap, 0.0))

    @cached_property
    def feasible_steps(self) -> tuple[int, ...]:
        """Steps that the rule could have chosen: with a tolerance the feasible set.

        A rule without one (``pure-nll``) has every step that did not diverge. ``pareto=True``
        leaves out the dominated steps.
        """
        return tuple(self.trajectory.steps[self.ranking.eligible].tolist())

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
        if self.choice.kind.fixed or self.trajectory.examples is None:
            return self.trajectory.digest
        import hashlib  # slow to import

        both = self.trajectory.digest + self.trajectory.examples.evaluated.digest
        return hashlib.sha256(both.encode()).hexdigest()

    @cached_property
    def rank(self) -> Any:
        """Rank of every checkpoint, 1 for the chosen one."""
        order = self.columns.order_by(self.constraint)
        return positions(self.ranking, order, ties=self.rule_used.ties(self.params))

    @cached_property
    def table(self) -> Any:
        """Every checkpoint, best first, with all that the rule looked at.

        A ``pandas.DataFrame`` where pandas is installed, its columns in a ``dict`` where it is not.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            return self.ranked
        return pandas.DataFrame(self.ranked)

    @cached_property
    def ranked(self) -> dict[str, NDArray[Any]]:
        """The columns of ``table`` by name."""
        columns = {name: column for name, column in self.columns.items() if name != "order"}
        first = ("step", "accuracy", "gap_pp")
        leading = {name: columns.pop(name) for name in first if name in columns}
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

    @cached_property
    def saturation(self) -> Saturation | None:
        """How many errors validation has left; None where that is not known."""
        if ACCURACY not in self.columns or (errors := int(self.columns.errors_of_best)) < 0:
            return None
        run = self.trajectory
        if run.counts is None or run.correct is None:
            return Saturation(errors, None)
        return Saturation(errors, int(run.counts.sum()))

    def explain(self) -> str:
        """Why this checkpoint, in a few sentences, and how sure the choice is.

        How sure is said where the run carries the logits of its validation examples; that takes
        some seconds.
        """
        from checkwise.selection.wording import explain
        from checkwise.sure import how_sure  # only where it is asked for

        fitted = "" if self.calibration is None else f"Calibrated: {self.calibration}"
        return " ".join(part for part in (explain(self), how_sure(self), fitted) if part)

    @cached_property
    def sureness(self) -> Sureness:
        """How often the rule comes to the same choice on other examples, and what would help."""
        from checkwise.sure import sureness

        return sureness(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader noted about the run, and whether the tolerance is finer than the data."""
        from checkwise.selection.wording import coarse

        note = coarse(self)
        return (*self.trajectory.notes, note) if note else self.trajectory.notes

    def stability(
        self,
        draws: int = DRAWS,
        seed: int = 0,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Stability:
        """How often the rule would choose each checkpoint, had the validation examples been others.

        Examples are drawn again within their domains (whole groups where they are known), and the
        whole rule is run on every draw. ``progress`` is called with the number of draws done.
        """
        from checkwise.sure import stability

        return stability(self, draws, seed, progress)

    def optimism(
        self, *, folds: int = FOLDS, repeats: int = REPEATS, level: float = LEVEL, seed: int = 0
    ) -> dict[str, Corrected]:
        """Accuracy and NLL of the choice, corrected for having been chosen on the same examples.

        The rule is run without a part of the examples, and its choice measured on that part. The
        interval around the measured value holds after selection, asymptotically.

        Args:
            folds, repeats: the examples are split into so many parts, so many times.
            level: of the interval.
            seed: of splits and draws.
        """
        from checkwise.sure import optimism

        return optimism(self, folds=folds, repeats=repeats, level=level, seed=seed)

    def guarantee(self, alpha: float = 0.05, *, paired: bool = True) -> Guarantee:
        """The bounds on population source accuracy, with their conditions.

        ``paired`` also compares the checkpoints example by example, where the run tells what every
        example said; that may read its saved predictions. Where the rule does not constrain
        accuracy, or counts are not known, there is none (``NoGuaranteeError``).
        """
        from checkwise.selection.guarantees import guarantee

        return guarantee(self, alpha, paired)

    @property
    def tolerance_pp(self) -> Fraction:
        """δ in points; 0 for rules that take the best accuracy, or constrain another score.

        Where the guard acted it is the guard's.
        """
        if self.guard_acted:
            return points_of(WITHIN_PP)
        asked = self.rule_used.asked(self.params)
        if asked is None or "delta_pp" in self.params:
            return points_of(self.params.get("delta_pp", 0))
        if self.constraint != ACCURACY:
            return Fraction(0)
        return 100 * asked.allowed(self.columns.standings(ACCURACY)[0].best)

    @property
    def feasible(self) -> BoolArray:
        """Which checkpoints are within the tolerance of the best, dominated ones too.

        All that the rule could choose, where it has no tolerance and the run no accuracy.
        """
        asked = self.rule_used.asked(self.params)
        if self.guard_acted or (asked is None and ACCURACY not in self.columns):
            return self.ranking.eligible
        if asked is None:
            return self.columns.within(self.tolerance_pp)
        return self.columns.near_best(self.constraint, asked)

    def as_dict(self, alpha: float = 0.05, *, paired: bool = False) -> dict[str, Any]:
        """The choice as ``select --json`` has it, with the bound at level ``alpha``.

        ``paired`` adds the bound by shared examples, which may read saved predictions.
        """
        try:
            bound = self.guarantee(alpha, paired=paired).as_dict()
        except NoGuaranteeError as error:
            bound = {"alpha": alpha, "bound_pp": None, "reason": str(error)}
        domains = list(self.trajectory.domains)
        return {
            "step": self.step,
            "rule": self.rule,
            "rule_reason": self.reason or None,
            "params": {name: _logged(name, value) for name, value in self.params.items()},
            **self.choice.kind.as_dict(),
            "weights": plain(self.choice.weights),
            "worst_domain": self.choice.worst_domain,
            "score": None if self.guard_acted else self.score,  # the guard takes the earliest
            "accuracy": self.accuracy,
            "gap_pp": self.gap_pp,
            **self._constraint_as_dict(),
            "feasible_steps": list(self.feasible_steps),
            "ties": list(self.ties),
            "near_ties": list(self.near_ties),
            "path": self.path,
            "checkpoints": len(self.trajectory),
            "diverged": self.trajectory.n_diverged,
            "domains": domains,
            "validation": domains,
            **({"columns": dict(self.trajectory.columns)} if self.trajectory.columns else {}),
            "notes": list(self.notes),
            "digest": self.digest,
            "guard": self._guard_as_dict(),
            "guarantee": bound,
            **({} if self.calibration is None else {"calibration": self.calibration.as_dict()}),
            **self._offered_by(),
        }

    def _constraint_as_dict(self) -> dict[str, Any]:
        """The constraint, unless it is accuracy with a tolerance in points."""
        if not self.rule_used.optional or "delta" not in self.params or self.judged_by is None:
            return {}
        delta = _logged("delta", self.params["delta"])
        return {"constraint": {**asdict(self.judged_by), "delta": delta}}

    def _guard_as_dict(self) -> dict[str, Any] | None:
        """What the guard found and did; None where it is off."""
        if self.guard is None:
            return None
        state = self.saturation
        return {
            "acted": self.guard.acted,
            "errors": None if state is None else state.errors,
            "examples": None if state is None else state.examples,
            "without": self.guard.without,
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

    def to_json(self) -> str:
        """``as_dict`` as one line of strict JSON."""
        return json.dumps(self.as_dict(), allow_nan=False)


@dataclass(frozen=True)
class ScoreAtChoice:
    """A score at the chosen checkpoint, its best value in the run, and how much is between."""

    metric: str
    direction: Direction
    value: float
    best: float
    gap: float


def _logged(name: str, value: Any) -> Any:
    """A parameter in JSON: a decimal that was written as text is a number."""
    if name not in DECIMALS or not isinstance(value, str):
        return plain(value)
    try:
        exact = decimal(value, name)
    except InputError:  # a share, or a rule of the user's own that takes words
        return value
    return int(exact) if exact.denominator == 1 else float(exact)
