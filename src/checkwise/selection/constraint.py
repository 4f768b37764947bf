"""The constraint of an AC rule: which score has to be near its best, and how near.

For accuracy the tolerance is ``delta_pp``, in points. For any score it can be ``delta``: a share of
the best value (``"0.5%"``) or an amount in the score's own units (``0.005``; an accuracy is a
fraction, so that is half a point).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import METRICS, Direction, error_level
from checkwise.records import words
from checkwise.words import shown

Points: TypeAlias = float | str | Decimal | Fraction  # percentage points

ACCURACY = "accuracy"
# Of accuracy; more is meant in points, or in percent.
LARGEST_FRACTION = Fraction(2, 5)
# Parameters that `params` lists only where they are set.
CONSTRAINT_PARAMS = ("constraint", "delta")
_LARGEST_EXPONENT = 30  # exact fractions of larger decimals would fill the memory


def decimal(value: object, what: str) -> Fraction:
    """The decimal a user wrote, exactly: 0.5 is 1/2 and 0.1 is 1/10, not the nearest float."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,40}/[1-9][0-9]{0,39}", value):
        return Fraction(value)  # as a journal writes what was given as a fraction
    try:
        number = None if isinstance(value, bool) else Decimal(str(value))
    except (ArithmeticError, ValueError):  # no number, or an integer of thousands of digits
        number = None
    if number is None or not number.is_finite():
        raise InputError(f"Expected {what} as a number, but got {shown(value)}.")
    too_fine = len(number.as_tuple().digits) > 2 * _LARGEST_EXPONENT
    if number and (abs(number.adjusted()) > _LARGEST_EXPONENT or too_fine):
        raise InputError(f"Expected {what} of a sensible size, but got {shown(value, 40)}.")
    return Fraction(number)


def tolerance(delta_pp: Points) -> Fraction:
    """The tolerance δ in points, exactly."""
    delta = decimal(delta_pp, "delta_pp")
    if delta < 0:
        raise InputError(f"Expected delta_pp of 0 or more points, but got {delta_pp}.")
    return delta


@dataclass(frozen=True)
class Tolerance:
    """How far from the best value a checkpoint may be: a share of it, or an amount."""

    amount: Fraction
    relative: bool

    def allowed(self, best: Fraction) -> Fraction:
        """The tolerance in the score's own units."""
        return self.amount * abs(best) if self.relative else self.amount


def read_delta(delta: object) -> Tolerance:
    """The tolerance that a user wrote.

    Example:
        >>> read_delta("0.5%")
        Tolerance(amount=Fraction(1, 200), relative=True)
        >>> read_delta(0.005)
        Tolerance(amount=Fraction(1, 200), relative=False)
    """
    text = delta.strip() if isinstance(delta, str) else delta
    relative = isinstance(text, str) and text.endswith("%")
    amount = decimal(str(text)[:-1].strip() if relative else text, "delta")
    if amount < 0:
        raise InputError(f"Expected delta of 0 or more, but got {shown(delta)}.")
    # Above 100% the edge would move back while the best improves.
    if relative and amount > 100:
        raise InputError(f"Expected delta between 0% and 100%, but got {shown(delta)}.")
    return Tolerance(amount / 100 if relative else amount, relative)


def tolerance_of(delta_pp: Points, delta: str | float | None) -> Tolerance:
    """``delta`` where it is set, else ``delta_pp`` of accuracy."""
    return Tolerance(tolerance(delta_pp) / 100, False) if delta is None else read_delta(delta)


def check_constraint(params: Mapping[str, Any]) -> None:
    """Refuse a tolerance that does not fit the constraint. ``params`` holds what was set."""
    constraint = params.get("constraint", ACCURACY)
    if not isinstance(constraint, str) or not constraint:
        raise InputError(
            f"Expected the constraint as the name of a score, but got {shown(constraint)}."
        )
    if "delta_pp" in params and constraint != ACCURACY:
        raise InputError(
            f"Expected a tolerance of {constraint}, but delta_pp is in points of accuracy: "
            f"{_use_delta(constraint)}."
        )
    if "delta_pp" in params and "delta" in params:
        raise InputError(
            f"Expected one tolerance, but got delta_pp {params['delta_pp']} and delta "
            f"{params['delta']}: leave out one of them.",
            code="ambiguous",
        )
    if "delta" not in params:
        if constraint != ACCURACY:
            raise InputError(
                f"Expected how far from the best {constraint} a checkpoint may be, but got no "
                f"tolerance: {_use_delta(constraint)}.",
                code="missing",
            )
        return
    asked = read_delta(params["delta"])
    if constraint == ACCURACY and not asked.relative and asked.amount > LARGEST_FRACTION:
        raise InputError(
            f"Expected delta of accuracy as a fraction up to {float(LARGEST_FRACTION)}, or in "
            f"percent of the best, but got {shown(params['delta'])}: half a point is 0.005, or "
            "delta_pp 0.5."
        )


def _use_delta(constraint: str) -> str:
    return (
        f"use --delta 0.5% (of the best {constraint}) or --delta 0.005 (in its own units), in "
        'Python delta="0.5%" or delta=0.005'
    )


ALPHA: Final = 0.05
# What counts as near the best: name → what it keeps, as `checkwise rules` and help texts say it.
TOLERANCES: Final = {
    "fixed": "at most delta below the best measured accuracy",
    "paired": "not shown to be worse than the best by more than delta",
}
# Options of `select` that say which tolerance.
TOLERANCE_OPTIONS: Final = ("tolerance", "alpha")


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


Directions = Mapping[str, Direction]

HIGHER = frozenset((
    "accuracy", "accuracies", "acc", "precision", "prec", "recall", "sensitivity", "specificity",
    "tpr", "tnr",
    "f1", "f2", "f1score", "fscore", "fbeta", "fmeasure", "auc", "auroc", "rocauc", "roc",
    "auprc", "prauc", "ap", "map", "iou", "miou", "jaccard", "dice", "mcc", "matthews", "kappa",
    "qwk", "r2", "rsquared", "pearson", "pearsonr", "spearman", "spearmanr", "correlation",
    "ndcg", "mrr", "hit", "hits", "bleu", "sacrebleu", "rouge", "meteor", "chrf", "cider",
    "bertscore", "psnr", "ssim", "likelihood", "reward", "success", "throughput", "fps",
))  # fmt: skip
LOWER = frozenset((
    "loss", "nll", "ce", "xent", "crossentropy", "logloss", "error", "errors", "err",
    "misclassification", "perplexity", "ppl", "bpb", "bpc", "wer", "cer", "eer", "ter", "mer",
    "mae", "mse", "rmse", "mape", "smape", "ece", "cwece", "mce", "brier", "fid", "kid",
    "lpips", "kl", "divergence", "distance", "regret", "cost", "penalty", "fpr", "fnr", "latency",
    "time", "runtime", "seconds", "ms", "duration", "memory",
))  # fmt: skip
# They decide where no other word does: top5 is an accuracy, top5_error is not.
HIGHER_ALONE = frozenset(("top", "topk"))
# With one of these a name is no plain score: accuracy_std, loss_scale, neg_mean_squared_error.
UNCLEAR = frozenset((
    "drop", "gap", "decrease", "increase", "change", "delta", "diff", "difference", "degradation",
    "std", "stdev", "stderr", "sem", "var", "variance", "ci", "scale", "weight", "coef", "count",
    "neg", "negative", "minus", "inverse", "inv",
))  # fmt: skip
# Words that mean something else together than alone.
PHRASES: Mapping[str, Direction] = {
    "negative log likelihood": "lower",
    "cross entropy": "lower",
    "false positive rate": "lower",
    "false negative rate": "lower",
    "true positive rate": "higher",
    "true negative rate": "higher",
    "exact match": "higher",
    "per second": "higher",
    "per sec": "higher",
}
# As `records.held_out.words`, with the digits that belong to a word: evalF1, top5.
_WITH_DIGITS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")


def known_direction(name: str, directions: Directions | None = None) -> Direction | None:
    """The direction of a score as far as it is known.

    Args:
        name: of a metric or a column.
        directions: what the caller says of scores that are no registered metrics.

    Example:
        >>> [known_direction(name) for name in ("val/macro_f1", "eval_loss", "top5", "my_score")]
        ['higher', 'lower', 'higher', None]
        >>> known_direction("accuracy_loss") is None
        True
    """
    if name in METRICS:
        return METRICS[name].direction
    if directions and name in directions:
        return directions[name]
    return _by_words(name)


def direction_of(name: str, directions: Directions | None = None) -> Direction:
    """The direction of a score; one that is not known is asked for."""
    direction = known_direction(name, directions)
    if direction is None:
        raise InputError(
            f"Expected to know whether a higher or a lower {name} is better, but its name does not "
            f"say: add --direction {name}=higher or {name}=lower (in Python "
            f'directions={{"{name}": "higher"}}).',
            code="ambiguous",
        )
    return direction


def check_directions(directions: object) -> dict[str, Any]:
    """Directions as a caller gives them, refused where they are none or contradict a metric."""
    if directions is None:
        return {}
    if not isinstance(directions, Mapping):
        raise InputError(
            'Expected directions by the name of the score, as {"reward": "higher"}, but got '
            f"{shown(directions)}."
        )
    for name, direction in directions.items():
        if direction not in ("higher", "lower"):
            raise InputError(
                f"Expected the direction of {name} as higher or lower, but got {shown(direction)}."
            )
        if name in METRICS and METRICS[name].direction != direction:
            raise InputError(
                f"Expected {METRICS[name].direction} as the direction of {name}, which is a metric "
                f"of checkwise, but got {direction}: leave it out."
            )
    return dict(directions)


def _by_words(name: str) -> Direction | None:
    in_name = words(name)
    with_digits = {part.lower() for part in _WITH_DIGITS.findall(name)}
    run_together = set(re.findall(r"[a-z0-9]+", name.lower()))
    spellings = {*in_name, *with_digits, *run_together}
    spellings |= {part.rstrip("0123456789") for part in run_together}
    said: set[Direction] = set()
    for phrase, direction in PHRASES.items():
        if f" {phrase} " in f" {' '.join(in_name)} ":
            said.add(direction)
            spellings -= set(phrase.split())
    if spellings & UNCLEAR:
        return None
    if spellings & HIGHER:
        said.add("higher")
    if spellings & LOWER:
        said.add("lower")
    if not said and spellings & HIGHER_ALONE:
        said.add("higher")
    return said.pop() if len(said) == 1 else None
