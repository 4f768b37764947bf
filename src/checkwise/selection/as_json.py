"""A selection as stable, strict JSON: what ``--json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from checkwise.errors import InputError, NoGuaranteeError
from checkwise.metrics import METRICS, Metric
from checkwise.selection.choice import plain
from checkwise.selection.constraint import decimal
from checkwise.selection.rulebook import Rule

if TYPE_CHECKING:
    from checkwise.selection.result import Selection

# Parameters that a user may write as text, so that they mean the decimal that was written.
DECIMALS = ("delta_pp", "threshold_pp", "delta")


def record(s: Selection, alpha: float, paired: bool) -> dict[str, Any]:
    """Everything about a selection, with the bound at level ``alpha``."""
    return {
        "step": s.step,
        "rule": s.rule,
        "rule_reason": s.reason or None,
        "params": {name: _logged(name, value) for name, value in s.params.items()},
        **s.choice.kind.as_dict(),
        "weights": plain(s.choice.weights),
        "worst_domain": s.choice.worst_domain,
        "score": None if s.guard_acted else s.score,  # the guard takes the earliest
        "accuracy": s.accuracy,
        "gap_pp": s.gap_pp,
        **_constraint(s),
        "feasible_steps": list(s.feasible_steps),
        "ties": list(s.ties),
        "near_ties": list(s.near_ties),
        "path": s.path,
        "checkpoints": len(s.trajectory),
        "diverged": s.trajectory.n_diverged,
        "domains": list(s.trajectory.domains),
        "validation": list(s.trajectory.domains),
        **({"columns": dict(s.trajectory.columns)} if s.trajectory.columns else {}),
        "notes": list(s.notes),
        "digest": s.digest,
        "guard": _guard(s),
        "guarantee": _guarantee(s, alpha, paired),
        **({} if s.calibration is None else {"calibration": s.calibration.as_dict()}),
        **_offered_by(s),
    }


def _constraint(s: Selection) -> dict[str, Any]:
    """The constraint, unless it is accuracy with a tolerance in points."""
    if not s.rule_used.optional or "delta" not in s.params or s.judged_by is None:
        return {}
    return {"constraint": {**asdict(s.judged_by), "delta": _logged("delta", s.params["delta"])}}


def _guard(s: Selection) -> dict[str, Any] | None:
    """What the guard found and did; None where it is off."""
    if s.guard is None:
        return None
    state = s.saturation
    return {
        "acted": s.guard.acted,
        "errors": None if state is None else state.errors,
        "examples": None if state is None else state.examples,
        "without": s.guard.without,
    }


def _offered_by(s: Selection) -> dict[str, Any]:
    """Which installed packages the rule and its metrics came from, if any did."""
    used: list[tuple[str, Rule | Metric]] = [("rule", s.rule_used)]
    used += [("metric", METRICS[name]) for name in s.looked_at if name in METRICS]
    offered = [
        {"kind": kind, "name": thing.name, **asdict(thing.origin)}
        for kind, thing in used
        if thing.origin is not None
    ]
    return {"offered_by": offered} if offered else {}


def _guarantee(s: Selection, alpha: float, paired: bool) -> dict[str, Any]:
    try:
        return s.guarantee(alpha, paired=paired).as_dict()
    except NoGuaranteeError as error:
        return {"alpha": alpha, "bound_pp": None, "reason": str(error)}


def _logged(name: str, value: Any) -> Any:
    """A parameter in JSON: a decimal that was written as text is a number."""
    if name not in DECIMALS or not isinstance(value, str):
        return plain(value)
    try:
        exact = decimal(value, name)
    except InputError:  # a share, or a rule of the user's own that takes words
        return value
    return int(exact) if exact.denominator == 1 else float(exact)
