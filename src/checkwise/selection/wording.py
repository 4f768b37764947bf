"""A choice in words: what to use, what it costs and gains, why, and what to be careful about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import gcd, isfinite, lcm
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.metrics import METRICS
from checkwise.records import ONLY_DOMAIN, Trajectory, words
from checkwise.selection.choosing import AS_SET, select
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.defaults import NO_ACCURACY, OBJECTIVES_NAMED, PREFERRED, REFERENCE
from checkwise.selection.directions import direction_of
from checkwise.selection.guard import WITHIN_PP
from checkwise.selection.standing import domain_weights
from checkwise.words import counted, listed, points, shortened

if TYPE_CHECKING:
    from checkwise.selection.result import Selection

NAMED: Final = 12  # validation sets in a sentence
DIGITS: Final = 3
# The usual calibration error is that of hard bins.
CALLED: Final = {"ece": "soft ECE", "cwece": "soft CwECE", "hard_ece": "ECE", "hard_cwece": "CwECE"}
_OF_NLL: Final = frozenset(
    ("nll", "ce", "xent", "entropy", "crossentropy", "log", "logloss", "likelihood")
)
# A near miss: a fifth more tolerance makes an objective a tenth better.
WIDER: Final = Fraction(6, 5)
NOTABLE: Final = 0.1


def explain(s: Selection) -> str:
    """The answer, what it costs and gains, why, and what to be careful about."""
    answer, why = guarded_answer(s), ""
    if not s.guard_acted:
        answer = f"Use step {s.step}{in_brackets(instead(s))}."
        why = _together([because(s), not_compared(s)])
    cost = ""
    if s.judged_by is not None:
        (name, value, beside), *others = scores(s)
        parts = [f"{_kind(s, name)} {value}, {beside}"]
        parts += [f"{name} {value}{f', {beside}' * bool(beside)}" for name, value, beside in others]
        cost = f"{'; '.join(parts)}."
    return _together([answer, cost, why, *cautions(s)])


def _kind(s: Selection, name: str) -> str:
    domains = s.trajectory.domains
    if domains == (ONLY_DOMAIN,):
        return f"Validation {name}"
    if len(domains) == 1:
        return f"{name[0].upper()}{name[1:]} on {domains[0]}"
    mean = "Mean" if s.choice.weights == "equal" else "Weighted mean"
    return f"{'Worst' if s.choice.worst_domain else mean} {name} of {names_of(domains)}"


def _together(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))


def in_brackets(*parts: str) -> str:
    """What is said behind something; nothing where there is nothing to say."""
    said = "; ".join(filter(None, parts))
    return f" ({said})" if said else ""


# How things are called.


def called(run: Trajectory, metric: str) -> str:
    """A score as people know it: a logged loss is called so, unless its name says that it is NLL.

    Example:
        >>> run = Trajectory(steps=[1], domains=["val"], values={"nll": [[0.5]]},
        ...                  columns={"nll": "eval_loss"})
        >>> called(run, "nll"), called(run, "cwece"), called(run, "macro_f1")
        ('loss', 'soft CwECE', 'macro_f1')
    """
    if metric == "nll":
        columns = [column for name, column in run.columns.items() if name.split("[")[0] == "nll"]
        said = {word for column in columns for word in words(column)}
        if said & {"loss", "losses"} and not said & _OF_NLL:
            return "loss"
    known = METRICS.get(metric)
    return CALLED.get(metric) or (known.title if known else "") or metric


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
    mean = "their mean" if s.choice.weights == "equal" else "their weighted mean"
    which = "that of the worst" if s.choice.worst_domain else mean
    return f"Validated on {names_of(domains)}: {called(s.trajectory, _judging(s))} is {which}."


def names_of(domains: Sequence[str]) -> str:
    return listed(domains) if len(domains) <= NAMED else shortened(domains, NAMED)


def tolerance_in_words(s: Selection) -> str:
    """The tolerance of a rule, with the score where it is no accuracy."""
    if s.guard_acted:
        return points(WITHIN_PP)
    if not s.choice.kind.fixed:
        return f"the tolerance {s.choice.kind.name}"
    if not _has_delta(s):
        return points(s.params.get("delta_pp", 0))
    return as_written(s) if s.constraint == ACCURACY else f"{as_written(s)} of {s.constraint}"


def as_written(s: Selection) -> str:
    """The tolerance as it was written; of accuracies also in points."""
    if "delta_pp" in s.params:
        return points(s.params["delta_pp"])
    in_points = f" ({float(s.tolerance_pp):.2f} points)" if s.constraint == ACCURACY else ""
    return f"{s.params['delta']}{in_points}"


def _has_delta(s: Selection) -> bool:
    return bool(s.rule_used.optional) and "delta" in s.params


def checkpoints(s: Selection) -> str:
    """How many there are, and were."""
    run = s.trajectory
    kept = f" kept of {run.evaluated}" * (run.evaluated > len(run))
    return f"{counted(len(run), 'checkpoint')}{kept}"


def _steps(steps: tuple[int, ...]) -> str:
    return f"{'step' if len(steps) == 1 else 'steps'} {listed([str(step) for step in steps])}"


# What the choice costs and gains.


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
    best = s.trajectory.steps[_best_index(s)]
    which = "" if own is None else f"{own[0]}; "
    return f"{which}{near} the best {score}, of step {best}, it has the lowest {loss}"


def scores(s: Selection) -> list[tuple[str, str, str]]:
    """What the choice costs and gains: name, value, and how it compares with the best."""
    judged = s.judged_by
    if judged is None:
        return []
    best, values = _best_index(s), s.columns[judged.metric]
    rows = [(judged.metric, _shown(judged.metric, judged.value, float(values[best])), _distance(s))]
    names = [] if s.guard_acted else [n for n in s.looked_at if n in s.columns]
    if judged.metric != ACCURACY and s.accuracy is not None:
        names = [ACCURACY, *names]
    for name in dict.fromkeys(name for name in names if name != judged.metric):
        here, there = float(s.columns[name][s.index]), float(s.columns[name][best])
        beside = "" if s.index == best else _against(name, here, there)
        rows.append((name, _shown(name, here, there), beside))
    return [(called(s.trajectory, name), value, beside) for name, value, beside in rows]


def _judging(s: Selection) -> str:
    return ACCURACY if s.judged_by is None else s.judged_by.metric


def _best_index(s: Selection) -> int:
    """Where the score that the choice is judged by is best, first."""
    return int(np.argmin(s.columns.order_by(_judging(s))))


def _distance(s: Selection) -> str:
    """``the best of 18 checkpoints``, or how far from it and where that is."""
    judged = s.judged_by
    assert judged is not None
    best, order = _best_index(s), s.columns.order_by(judged.metric)
    if order[s.index] == order[best]:
        also = "" if s.index == best else f", as at step {s.trajectory.steps[best]}"
        lost = s.trajectory.n_diverged
        return f"the best of {checkpoints(s)}{also}" + f", {lost} of them left out" * (lost > 0)
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
    share = _relative(here, there)
    if here == there or not isfinite(share):
        return f"there {shown}"
    percent = f"{100 * abs(share):.0f}"
    amount = "less than 1" if percent == "0" else percent
    return f"{amount}% {'less' if share < 0 else 'more'} than there ({shown})"


def _relative(here: float, there: float) -> float:
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


def near_miss(s: Selection) -> str:
    """What a fifth more tolerance would choose, if it lies outside the tolerance as it is.

    It has to be a tenth better in one objective at least, and worse in none.
    """
    by_points = "delta_pp" in s.params and s.constraint == ACCURACY and s.choice.kind.fixed
    if s.guard_acted or not by_points or not s.tolerance_pp or not s.looked_at:
        return ""
    delta_pp = f"{float(WIDER * s.tolerance_pp):g}"
    params = {**s.params, "delta_pp": delta_pp}
    other = select(s.trajectory, replace(s.choice, rule=s.rule_used, params=params, guard=False))
    if s.feasible[other.index] or other.gap_pp is None:
        return ""
    gains = []
    for name in s.looked_at:
        here, there = (float(s.columns[name][at]) for at in (s.index, other.index))
        higher = direction_of(name, s.choice.directions) == "higher"
        gain = _relative(there, here) if higher else -_relative(there, here)
        if not gain >= 0:
            return ""
        if gain >= NOTABLE:
            less = "more" if higher else "less"
            gains.append(f"{100 * gain:.0f}% {less} {called(s.trajectory, name)}")
    if not gains:
        return ""
    return (
        f"Step {other.step} is {other.gap_pp:.2f} points below the best, just outside, with "
        f"{listed(gains)}: --delta-pp {delta_pp} takes it."
    )


# Why this checkpoint.


def because(s: Selection) -> str:
    """Why this checkpoint, in one sentence."""
    near, total = len(s.feasible_steps), checkpoints(s)
    if len(s.trajectory) == 1:
        return "There is no other checkpoint."
    if not s.choice.kind.fixed:
        near = int(s.feasible.sum())
        return (
            f"{near} of {total} {'is' if near == 1 else 'are'} not shown to be worse than the best "
            f"by more than {as_written(s)} (paired by validation example, "
            f"{100 * (1 - s.choice.kind.alpha):g}%), which proves nothing about them; "
            f"{_taken_for(s)}."
        )
    if "delta_pp" in s.params or _has_delta(s):
        within, feasible = f"within {as_written(s)} of the best", int(s.feasible.sum())
        if feasible == 1:
            accurate = s.constraint == ACCURACY
            best = "the most accurate" if accurate else f"the best by {s.constraint}"
            return f"No other checkpoint is {within}, so this is simply {best}."
        if feasible > near:
            return (
                f"{feasible} of {total} are {within}, {feasible - near} of them worse than another "
                f"in every objective; of the rest {_taken_for(s)}."
            )
        return f"{near} of {total} are {within}; {_taken_for(s)}."
    if "threshold_pp" in s.params:
        reach = "reaches" if near == 1 else "reach"
        return f"{near} of {total} {reach} {points(s.params['threshold_pp'])}; {_taken_for(s)}."
    if s.rule == REFERENCE:
        taken = "latest" if s.params.get("ties") == "latest" else "earliest"
        return "" if near == 1 else f"{near} checkpoints share that accuracy; this is the {taken}."
    if s.rule.startswith("pure-"):
        if s.accuracy is None:
            return f"There is no accuracy to go by, so {_extremes(s, s.looked_at)} decides."
        lowest = f"the lowest {called(s.trajectory, s.looked_at[0])}"
        return f"It has {lowest} of {total}, whatever its accuracy."
    if s.rule_used.constrained or s.accuracy is None:
        return ""
    return f"{s.rule} does not keep accuracy near its best."


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


def guarded_answer(s: Selection, *, offer: bool = True) -> str:
    """The one answer where the guard acted, with the reason; else nothing.

    ``offer`` names the option that switches the guard off.
    """
    return _guarded(s, f"Use step {s.step},", offer=offer)


def guarded_because(s: Selection) -> str:
    """Why the guard acted, after the answer was given."""
    return _guarded(s, "This is", offer=True)


def _guarded(s: Selection, answer: str, *, offer: bool) -> str:
    """Why validation cannot choose, and which checkpoint was taken instead."""
    if s.guard is None or not s.guard.acted or s.saturation is None:
        return ""
    rules = "an average" if s.guard.without is None else f"step {s.guard.without}"
    other = f" (--no-guard: {rules})" if offer and s.guard.without != s.step else ""
    near = int(s.feasible.sum())
    errors, examples = s.saturation.errors, s.saturation.examples
    if errors == 0 and near > 1 and not s.columns["gap_pp"][s.feasible].any():
        return (
            f"{near} checkpoints make no error on validation, so it cannot tell them apart. "
            f"{answer} the earliest{other}."
        )
    made = counted(errors, "error") if errors else "no error"
    made += "" if examples is None else f" in {examples} examples"
    which = "the only checkpoint" if near == 1 else f"the earliest of {near} checkpoints"
    return (
        f"The best checkpoint makes {made} on validation, too few to rank checkpoints by their "
        f"probabilities. {answer} {which} within {points(WITHIN_PP)} of the best{other}."
    )


# What to be careful about.


def cautions(s: Selection) -> list[str]:
    """What to be careful about, a sentence each."""
    coarseness, lost = coarse(s), s.trajectory.n_diverged
    were, run = "was" if lost == 1 else "were", s.trajectory
    gone = shortened([str(step) for step in run.steps[run.diverged]])
    found = [
        f"{checkpoints(s)} have an accuracy of 0: look at how validation is made."
        if s.accuracy == 0 and s.gap_pp == 0
        else "",
        f"{coarseness}." if coarseness else "",
        _ties(s),
        _edge(s),
        f"{counted(lost, 'diverged checkpoint')} {were} left out: step {gone}." if lost else "",
    ]
    return [sentence for sentence in found if sentence]


def in_examples(s: Selection) -> str:
    """The tolerance in validation examples, where there is one set of a known number."""
    counts = s.trajectory.counts
    fixed = s.keeps_accuracy and (s.choice.kind.fixed or s.guard_acted) and s.tolerance_pp > 0
    if counts is None or len(counts) > 1 or not fixed or coarse(s):
        return ""
    examples = s.tolerance_pp * int(counts[0]) / 100
    exact = examples.denominator == 1
    number = str(examples) if exact else f"about {float(examples):.1f}"
    said = points(f"{float(s.tolerance_pp):g}")
    are = "is" if said == "1 point" else "are"
    return f"{said} {are} {number} of {counts[0]} validation examples."


def coarse(s: Selection) -> str:
    """A sentence where one validation example weighs more than the tolerance; else nothing."""
    counts = s.trajectory.counts
    delta = s.tolerance_pp
    if counts is None or delta == 0 or not (s.choice.kind.fixed or s.guard_acted):
        return ""
    sizes = [int(n) for n in counts]
    shares = (Fraction(1),) * len(sizes)
    if not s.choice.worst_domain:
        shares = domain_weights(s.trajectory, s.choice.weights)
    steps = [100 * share / n for share, n in zip(shares, sizes, strict=True) if share]
    if delta >= min(steps):
        return ""
    asked = WITHIN_PP if s.guard_acted else s.params.get("delta_pp") or as_written(s)
    sentence = (
        f"{listed([str(n) for n in sizes])} validation examples: one is "
        f"{'' if len(set(steps)) == 1 else 'at least '}{float(min(steps)):.2f} points, more than "
        f"the tolerance of {asked}"
    )
    # Mean accuracies differ by multiples of the greatest common divisor.
    spacing = Fraction(gcd(*(x.numerator for x in steps)), lcm(*(x.denominator for x in steps)))
    if s.trajectory.correct is not None and delta < spacing:
        sentence += ", which keeps only ties with the best"
    return sentence


def _ties(s: Selection) -> str:
    if s.rule in (REFERENCE, "ac-early", "ac-random"):
        return ""
    sentences = []
    if s.ties:
        better = "higher" if s.judged_by is None else s.judged_by.direction
        broken_by = {
            "latest": "the later step",
            "earliest": "the earlier step",
            "accuracy": f"{better} {s.constraint}, then the earlier step",
        }[s.rule_used.ties(s.params)]
        sentences.append(f"Exactly tied with {_steps(s.ties)}; broken by {broken_by}.")
    if s.near_ties:
        sentences.append(
            f"It cannot be told from {_steps(s.near_ties)}: rounding decides among them, not the "
            "data."
        )
    return _together(sentences)


def _edge(s: Selection) -> str:
    usable = np.flatnonzero(~s.trajectory.diverged)
    if len(usable) < 2:
        return ""
    if s.index == usable[-1]:
        if s.trajectory.ends_early:
            return "It is the last checkpoint that was kept; the training went on after it."
        return "It is the last checkpoint: training longer might give a better one."
    if s.index != usable[0] or s.trajectory.begins_late:
        return ""
    judged = s.judged_by
    if judged is None or (s.gap_pp if judged.metric == ACCURACY else judged.gap):
        return "It is the first checkpoint: one that was not recorded might do as well."
    better = f"a {judged.direction} {called(s.trajectory, judged.metric)}"
    if s.step == 0:
        return f"It is step 0, and no later checkpoint has {better}."
    return (
        f"It is the first checkpoint, and no later one has {better}: record earlier ones "
        "too, they might do as well."
    )
