"""What a choice costs and gains, and why it was made, in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.metrics import METRICS
from checkwise.records import ONLY_DOMAIN, Trajectory, words
from checkwise.selection.constraint import ACCURACY, direction_of
from checkwise.selection.defaults import NO_ACCURACY, OBJECTIVES_NAMED, PREFERRED, REFERENCE
from checkwise.selection.guard import WITHIN_PP
from checkwise.words import counted, listed, points, shortened

if TYPE_CHECKING:
    from checkwise.selection.result import Selection

AS_SET: Final = "as the callback was set"
NAMED: Final = 12  # validation sets in a sentence
DIGITS: Final = 3
# The usual calibration error is that of hard bins.
CALLED: Final = {"ece": "soft ECE", "cwece": "soft CwECE", "hard_ece": "ECE", "hard_cwece": "CwECE"}
_OF_NLL: Final = frozenset(
    ("nll", "ce", "xent", "entropy", "crossentropy", "log", "logloss", "likelihood")
)


def in_brackets(*parts: str) -> str:
    """What is said behind something; nothing where there is nothing to say."""
    said = "; ".join(filter(None, parts))
    return f" ({said})" if said else ""


def instead(s: Selection) -> str:
    """Why this step, where a score stands in for accuracy; else nothing.

    ``best.pt is step 41; within 1% of its mAP50-95, step 35 has the lowest loss``
    """
    if s.reason != NO_ACCURACY:
        return ""
    if not s.rule_used.optional:
        return "" if s.looked_at[0] in ("nll", "loss") else _extremes(s, s.looked_at)
    score, loss = called(s.trajectory, s.constraint), called(s.trajectory, s.looked_at[0])
    order, near = s.columns.order_by(s.constraint), f"within {as_written(s)} of"
    own = s.trajectory.own_best
    if own is not None and own[1] != s.step:
        name, step = own
        places = np.flatnonzero(s.trajectory.steps == step)
        whose = "its" if len(places) and order[places[0]] == order.min() else "the best"
        return f"{name} is step {step}; {near} {whose} {score}, step {s.step} has the lowest {loss}"
    if order[s.index] == order.min():
        which = f"the best {score}" if own is None else f"{own[0]}, the best by {score}"
        return f"{which}; no other {near} it has a lower {loss}"
    best = s.trajectory.steps[best_index(s)]
    which = "" if own is None else f"{own[0]}; "
    return f"{which}{near} the best {score}, of step {best}, it has the lowest {loss}"


def called(run: Trajectory, metric: str) -> str:
    """A score as people know it: a logged loss is called so, unless its name says that it is NLL.

    Example:
        >>> run = Trajectory(steps=[1], domains=["val"], values={"nll": [[0.5]]},
        ...                  columns={"nll": "eval_loss"})
        >>> called(run, "nll"), called(run, "cwece"), called(run, "macro_f1")
        ('loss', 'soft CwECE', 'macro_f1')
    """
    if metric == "nll" and is_loss(run):
        return "loss"
    known = METRICS.get(metric)
    return CALLED.get(metric) or (known.title if known else "") or metric


def is_loss(run: Trajectory) -> bool:
    """Whether what was read as NLL is a column that only says loss."""
    columns = [column for name, column in run.columns.items() if name.partition("[")[0] == "nll"]
    said = {word for column in columns for word in words(column)}
    return bool(said & {"loss", "losses"}) and not said & _OF_NLL


def rule_in_words(s: Selection) -> str:
    """``accuracy, then NLL and class calibration (ac-nc)``."""
    if not s.rule_used.optional:
        return f"{s.rule_used.summary} ({s.rule})"
    then = [
        "class calibration" if name == "cwece" else called(s.trajectory, name)
        for name in s.looked_at
    ]
    return f"{called(s.trajectory, s.constraint)}, then {listed(then)} ({s.rule})"


def validated_on(s: Selection) -> str:
    """The validation sets by name; nothing where the table names none."""
    domains = s.trajectory.domains
    if domains == (ONLY_DOMAIN,):
        return ""
    if len(domains) == 1:
        return f"Validated on {domains[0]}."
    return f"Validated on {names_of(domains)}: {called(s.trajectory, _judging(s))} is {_which(s)}."


def _judging(s: Selection) -> str:
    return ACCURACY if s.judged_by is None else s.judged_by.metric


def _which(s: Selection) -> str:
    if s.choice.worst_domain:
        return "that of the worst"
    return "their mean" if s.choice.weights == "equal" else "their weighted mean"


def names_of(domains: Sequence[str]) -> str:
    return listed(domains) if len(domains) <= NAMED else shortened(domains, NAMED)


def scores(s: Selection) -> list[tuple[str, str, str]]:
    """What the choice costs and gains: name, value, and how it compares with the best."""
    judged = s.judged_by
    if judged is None:
        return []
    best, values = best_index(s), s.columns[judged.metric]
    rows = [(judged.metric, _shown(judged.metric, judged.value, float(values[best])), _distance(s))]
    names = [] if s.guard_acted else [n for n in s.looked_at if n in s.columns]
    if judged.metric != ACCURACY and s.accuracy is not None:
        names = [ACCURACY, *names]
    for name in dict.fromkeys(name for name in names if name != judged.metric):
        here, there = float(s.columns[name][s.index]), float(s.columns[name][best])
        beside = "" if s.index == best else _against(name, here, there)
        rows.append((name, _shown(name, here, there), beside))
    return [(called(s.trajectory, name), value, beside) for name, value, beside in rows]


def best_index(s: Selection) -> int:
    """Where the score that the choice is judged by is best, first."""
    return int(np.argmin(s.columns.order_by(_judging(s))))


def _distance(s: Selection) -> str:
    """``the best of 18 checkpoints``, or how far from it and where that is."""
    judged = s.judged_by
    assert judged is not None
    best, order = best_index(s), s.columns.order_by(judged.metric)
    if order[s.index] == order[best]:
        also = "" if s.index == best else f", as at step {s.trajectory.steps[best]}"
        return f"the best of {checkpoints(s)}{also}"
    there = f"{_shown(judged.metric, judged.best, judged.value)} at step {s.trajectory.steps[best]}"
    if judged.metric == ACCURACY:
        gap = f"{s.gap_pp:.2f}"
        far = "less than 0.01 points" if gap == "0.00" else points(gap)
        return f"{far} below the best ({there})"
    side = "below" if judged.direction == "higher" else "above"
    return f"{judged.gap:.{DIGITS}g} {side} the best ({there})"


def _against(name: str, here: float, there: float) -> str:
    """``12% less than there (0.866)``."""
    shown = _shown(name, there, here)
    if name == ACCURACY and here != there:
        far = f"{100 * abs(here - there):.2f} points {'less' if here < there else 'more'}"
        return f"{far} than there ({shown})"
    share = relative(here, there)
    if here == there or not isfinite(share):
        return f"there {shown}"
    percent = f"{100 * abs(share):.0f}"
    amount = "less than 1" if percent == "0" else percent
    return f"{amount}% {'less' if share < 0 else 'more'} than there ({shown})"


def relative(here: float, there: float) -> float:
    """The change as a share of ``there``; NaN where that is no positive number."""
    return here / there - 1 if there > 0 and isfinite(here) else float("nan")


def _shown(name: str, value: float, beside: float) -> str:
    """A score with as many digits as tell it from another."""
    if name == ACCURACY:
        return f"{100 * value:.2f}%"
    digits = DIGITS
    while digits < 12 and value != beside and f"{value:.{digits}g}" == f"{beside:.{digits}g}":
        digits += 2
    return f"{value:.{digits}g}"


def checkpoints(s: Selection) -> str:
    """How many there are, and were."""
    run = s.trajectory
    kept = f" kept of {run.evaluated}" * (run.evaluated > len(run))
    return f"{counted(len(run), 'checkpoint')}{kept}"


def because(s: Selection) -> str:
    """Why this checkpoint, in one sentence."""
    near, total = len(s.eligible_steps), checkpoints(s)
    if len(s.trajectory) == 1:
        return "There is no other checkpoint."
    if not s.choice.kind.fixed:
        return _by_examples(s)
    if "delta_pp" in s.params or (s.rule_used.optional and "delta" in s.params):
        return _near_best(s, near, total)
    if "threshold_pp" in s.params:
        reach = "reaches" if near == 1 else "reach"
        return f"{near} of {total} {reach} {points(s.params['threshold_pp'])}; {_taken_for(s)}."
    if s.rule == REFERENCE:
        taken = "latest" if s.ties_broken_by == "latest" else "earliest"
        return "" if near == 1 else f"{near} checkpoints share that accuracy; this is the {taken}."
    if s.rule.startswith("pure-"):
        lowest = f"the lowest {called(s.trajectory, s.looked_at[0])}"
        if s.accuracy is None:
            return f"There is no accuracy to go by, so {_extremes(s, s.looked_at)} decides."
        return f"It has {lowest} of {total}, whatever its accuracy."
    if s.rule_used.constrained or s.accuracy is None:
        return ""
    return f"{s.rule} does not keep accuracy near its best."


def _near_best(s: Selection, near: int, total: str) -> str:
    within, feasible = f"within {as_written(s)} of the best", int(s.feasible.sum())
    if feasible == 1:
        best = "the most accurate" if s.constraint == ACCURACY else f"the best by {s.constraint}"
        return f"No other checkpoint is {within}, so this is simply {best}."
    if feasible > near:
        return (
            f"{feasible} of {total} are {within}, {feasible - near} of them worse than another in "
            f"every objective; of the rest {_taken_for(s)}."
        )
    return f"{near} of {total} are {within}; {_taken_for(s)}."


def _by_examples(s: Selection) -> str:
    """What the tolerance that follows from the examples kept."""
    level = f"{100 * (1 - s.choice.kind.alpha):g}%"
    near = int(s.feasible.sum())
    are = "is" if near == 1 else "are"
    return (
        f"{near} of {checkpoints(s)} {are} not shown to be worse than the best by more than "
        f"{as_written(s)} (paired by validation example, {level}), which proves nothing about "
        f"them; {_taken_for(s)}."
    )


def _taken_for(s: Selection) -> str:
    names = [name for name in s.looked_at if name in s.columns]
    if not names:
        alone = {"ac-early": "this is the earliest", "ac-random": "this one was drawn at random"}
        return alone.get(s.rule, f"{s.rule} takes this one")
    eligible = s.ranking.eligible
    errors = [s.columns.error(name) for name in names]
    leads = all(error[s.index] == error[eligible].min() for error in errors)
    if leads or (len(names) == 1 and s.rule_used.optional):
        return f"this one has {_extremes(s, names)}"
    if s.rule_used.optional:
        return f"this one balances {listed([called(s.trajectory, n) for n in names])} best"
    return f"{s.rule} takes this one"


def _extremes(s: Selection, names: Sequence[str]) -> str:
    """``the lowest NLL and soft CwECE``."""
    parts: list[str] = []
    last = ""
    for name in names:
        extreme = "highest" if direction_of(name, s.choice.directions) == "higher" else "lowest"
        parts.append(f"{f'the {extreme} ' * (extreme != last)}{called(s.trajectory, name)}")
        last = extreme
    return listed(parts)


def not_compared(s: Selection) -> str:
    """What another rule than the usual one leaves out, where the user named none."""
    reason = "" if s.guard_acted else s.reason
    if not reason or s.rule.startswith("pure-") or reason in (OBJECTIVES_NAMED, NO_ACCURACY):
        return ""
    absent = [name for name in ("nll", "cwece") if name not in s.trajectory.metrics]
    if s.rule not in PREFERRED or not absent or reason.startswith(AS_SET):
        return f"{reason[0].upper()}{reason[1:]}."
    what = {"ac-nll": "Calibration was", "ac-cwece": "NLL was", "ac-ece": "NLL and CwECE were"}
    there = f"there is no {' and no '.join(absent)}"
    if s.trajectory.metrics == (ACCURACY,):
        there = "there is accuracy alone"
    elif s.trajectory.columns:
        there = "the log has no predictions"
    return f"{what.get(s.rule, 'Probabilities were')} not compared: {there}."


def runner_up(s: Selection) -> str:
    """What the second choice lost by."""
    silent = s.guard_acted or s.rule_used.names_one or len(s.eligible_steps) < 2
    names = [name for name in s.looked_at if name in s.columns]
    if silent or not names:
        return ""
    other = int(np.flatnonzero(s.rank == 2)[0])
    parts = []
    for name in names:
        one, this = float(s.columns[name][other]), float(s.columns[name][s.index])
        against = f"{_shown(name, one, this)} against {_shown(name, this, one)}"
        parts.append(f"{called(s.trajectory, name)} {against}")
    return f"The runner-up, step {s.trajectory.steps[other]}, has {listed(parts)}."


def tolerance_in_words(s: Selection) -> str:
    """The tolerance of a rule, with the score where it is no accuracy."""
    if s.guard_acted:
        return points(WITHIN_PP)
    if not s.choice.kind.fixed:
        return f"the tolerance {s.choice.kind.name}"
    if "delta_pp" in s.params or not (s.rule_used.optional and "delta" in s.params):
        return points(s.params.get("delta_pp", 0))
    return as_written(s) if s.constraint == ACCURACY else f"{as_written(s)} of {s.constraint}"


def as_written(s: Selection) -> str:
    """The tolerance as it was written; of accuracies also in points."""
    if "delta_pp" in s.params:
        return points(s.params["delta_pp"])
    in_points = f" ({float(s.tolerance_pp):.2f} points)" if s.constraint == ACCURACY else ""
    return f"{s.params['delta']}{in_points}"
