"""A selection in words."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from checkwise.records.source_rows import ONLY_DOMAIN
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.default_rule import DEFAULT_RULE, PREFERRED, REMEDY
from checkwise.selection.saturation import WITHIN_PP, guarded_answer
from checkwise.selection.set_as import AS_SET
from checkwise.selection.standing import domain_weights
from checkwise.text import counted, listed, points, shortened

if TYPE_CHECKING:
    from checkwise.selection.result import Selection

NAMED = 12  # validation sets in a sentence


def explain(selection: Selection) -> str:
    """The account of the choice, after the reason for the rule where the user named none."""
    return f"{headline(selection)} {account(selection)}" if selection.reason else account(selection)


def headline(selection: Selection) -> str:
    """The rule, and why it is not the default one where the user named none."""
    if not selection.reason:
        return f"Rule: {selection.rule}."
    because = "" if selection.reason.startswith(AS_SET) else "because "
    return f"Rule: {selection.rule}, {because}{selection.reason}."


def account(selection: Selection) -> str:
    """Why this checkpoint, what to be careful about, and what a better rule would need."""
    return " ".join(sentence for sentence in (why(selection), remedy(selection)) if sentence)


def why(selection: Selection) -> str:
    """What to know first, why this checkpoint, and what to be careful about."""
    return " ".join(part for part in (guarded_answer(selection), reasons(selection)) if part)


def reasons(selection: Selection) -> str:
    """Why this checkpoint, what the runner-up lost by, and what to be careful about."""
    coarseness = coarse(selection)
    sentences = [
        _choice(selection),
        "" if selection.guard_acted else _eligible(selection),
        f"{coarseness}." if coarseness else "",
        "" if selection.guard_acted else _runner_up(selection),
        _ties(selection),
        _edge(selection),
        _diverged(selection),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def remedy(selection: Selection) -> str:
    """How to get the metrics of the default rule, where another one stands in for it."""
    stands_in = selection.rule in PREFERRED[1:] and not selection.trajectory.chosen_by
    helps = stands_in and selection.reason and not selection.guard_acted
    return f"For {DEFAULT_RULE}, {REMEDY}." if helps else ""


def validation(domains: Sequence[str]) -> str:
    """The validation sets by name; nothing where the table names none."""
    if tuple(domains) == (ONLY_DOMAIN,):
        return ""
    return f"validation: {shortened(domains, NAMED)}"


def _choice(s: Selection) -> str:
    sets = validation(s.trajectory.domains)
    in_brackets = f" ({sets})" if sets else ""
    checkpoints = counted(len(s.trajectory), "checkpoint")
    if s.trajectory.evaluated > len(s.trajectory):
        checkpoints += f" kept of {s.trajectory.evaluated}"
    by_accuracy = "" if s.accuracy is None else f"{_kind(s, ACCURACY)} {100 * s.accuracy:.2f}%"
    judged = s.judged_by
    if judged is None:
        return f"{s.rule} chose step {s.step} of {checkpoints}{in_brackets}."
    if judged.metric == ACCURACY:
        whose = f"Step {s.step}" if s.guard_acted else f"{s.rule} chose step {s.step}"
        return f"{whose}: {by_accuracy}{in_brackets}, {_below(s.gap_pp)} of {checkpoints}."
    worse = "below" if judged.direction == "higher" else "above"
    distance = f"{judged.gap:.4g} {worse} the best" if judged.gap else "the best"
    return (
        f"{s.rule} chose step {s.step}: {_kind(s, judged.metric)} {judged.value:.4g}{in_brackets}, "
        f"{distance} of {checkpoints}{f'; {by_accuracy}' if by_accuracy else ''}."
    )


def _below(gap_pp: float | None) -> str:
    gap = f"{gap_pp:.2f}"
    return "the best" if gap == "0.00" else f"{gap} points below the best"


def _kind(s: Selection, score: str) -> str:
    if s.worst_domain:
        return f"worst-domain source {score}"
    return f"validation {score}" if len(s.trajectory.domains) == 1 else f"mean source {score}"


def _eligible(s: Selection) -> str:
    eligible = len(s.eligible_steps)
    if not s.tolerance.fixed:
        return _by_examples(s, int(s.feasible.sum()))
    if s.params.get("pareto"):
        feasible = int(s.feasible.sum())
        if feasible > eligible:
            return (
                f"{feasible} are within {_tolerance(s)} of the best; "
                f"{feasible - eligible} of them dominated by another."
            )
    if "delta_pp" in s.params or (s.rule_used.optional and "delta" in s.params):
        if eligible == 1:
            return (
                f"It is the only one within {_tolerance(s)} of the best, "
                f"so {s.constraint} alone decided."
            )
        return f"{eligible} are within {_tolerance(s)} of the best."
    if "threshold_pp" in s.params:
        reach = "reaches" if eligible == 1 else "reach"
        return f"{eligible} {reach} {points(s.params['threshold_pp'])}."
    if s.rule == "source-acc":
        taken = "latest" if s.ties_broken_by == "latest" else "earliest"
        return "" if eligible == 1 else f"{eligible} share that accuracy; the {taken} was taken."
    if s.rule_used.constrained or s.accuracy is None:
        return ""
    return "Accuracy was not constrained."


def _by_examples(s: Selection, feasible: int) -> str:
    """What the tolerance that follows from the examples kept."""
    level = f"{100 * (1 - s.tolerance.alpha):g}%"
    are = "1 is" if feasible == 1 else f"{feasible} are"
    return (
        f"{are} not shown to be worse than the best by more than {_tolerance(s)} (paired by "
        f"validation example, {level}); that proves nothing about them."
    )


def tolerance_in_words(s: Selection) -> str:
    """The tolerance of a rule, with the score where it is no accuracy."""
    if s.guard_acted:
        return points(WITHIN_PP)
    if not s.tolerance.fixed:
        return f"the tolerance {s.tolerance.name}"
    if "delta_pp" in s.params or not (s.rule_used.optional and "delta" in s.params):
        return points(s.params.get("delta_pp", 0))
    return _tolerance(s) if s.constraint == ACCURACY else f"{_tolerance(s)} of {s.constraint}"


def _tolerance(s: Selection) -> str:
    """The tolerance as it was written; of accuracies also in points."""
    if "delta_pp" in s.params:
        return points(s.params["delta_pp"])
    in_points = f" ({float(s.tolerance_pp):.2f} points)" if s.constraint == ACCURACY else ""
    return f"{s.params['delta']}{in_points}"


def coarse(s: Selection) -> str:
    """A sentence where one validation example weighs more than the tolerance; else nothing."""
    counts = s.trajectory.counts
    delta = s.tolerance_pp
    if counts is None or delta == 0 or not (s.tolerance.fixed or s.guard_acted):
        return ""
    sizes = [int(n) for n in counts]
    shares = [Fraction(1)] * len(sizes)
    if not s.worst_domain:
        shares = [Fraction(w) for w in domain_weights(s.trajectory, s.weights)]
    steps = [100 * share / n for share, n in zip(shares, sizes, strict=True) if share]
    smallest = min(steps)
    if delta >= smallest:
        return ""
    numbers = listed([str(n) for n in sizes])
    sentence = (
        f"{numbers} validation examples: one is {'' if len(set(steps)) == 1 else 'at least '}"
        f"{float(smallest):.2f} points, more than the tolerance of {_plain_tolerance(s)}"
    )
    if s.trajectory.correct is not None and delta < _spacing(steps):
        sentence += ", which keeps only ties with the best"
    return sentence


def _plain_tolerance(s: Selection) -> str:
    if s.guard_acted:
        return WITHIN_PP
    return str(s.params["delta_pp"]) if "delta_pp" in s.params else _tolerance(s)


def _spacing(steps: list[Fraction]) -> Fraction:
    """The least difference that mean accuracies can have: the greatest common divisor."""
    return Fraction(gcd(*(x.numerator for x in steps)), lcm(*(x.denominator for x in steps)))


def _runner_up(s: Selection) -> str:
    if s.rule_used.names_one:
        return ""
    if len(s.eligible_steps) < 2 or (not s.rule_used.needs and "objectives" not in s.params):
        return ""
    other = int(np.flatnonzero(s.rank == 2)[0])
    parts = [
        f"{name} {_apart(s.columns[name][other], s.columns[name][s.index])}" for name in s.looked_at
    ]
    return (
        f"The runner-up, step {s.trajectory.steps[other]}, has {listed(parts)} "
        f"(score {s.ranking.score[other]:.4g} against {s.score:.4g})."
    )


def _apart(one: float, other: float) -> str:
    """Two numbers with as many digits as tell them apart."""
    digits = 4
    while digits < 12 and one != other and f"{one:.{digits}g}" == f"{other:.{digits}g}":
        digits += 2
    return f"{one:.{digits}g} against {other:.{digits}g}"


def _ties(s: Selection) -> str:
    if s.rule in ("source-acc", "ac-early", "ac-random"):
        return ""
    sentences = []
    if s.ties:
        sentences.append(f"Exactly tied with {_steps(s.ties)}; broken by {_breaking(s)}.")
    if s.near_ties:
        sentences.append(
            f"By score it cannot be told from {_steps(s.near_ties)}: the choice among them is "
            "decided by rounding and the offset eta, not by the data."
        )
    return " ".join(sentences)


def _breaking(s: Selection) -> str:
    if s.ties_broken_by == "latest":
        return "the later step"
    if s.ties_broken_by == "earliest":
        return "the earlier step"
    better = "higher" if s.judged_by is None else s.judged_by.direction
    return f"{better} {s.constraint}, then the earlier step"


def _edge(s: Selection) -> str:
    usable = np.flatnonzero(~s.trajectory.diverged)
    if len(usable) < 2:
        return ""
    if s.index == usable[-1] and s.trajectory.ends_early:
        return "It is the last checkpoint that was kept; the training went on after it."
    if s.index == usable[-1]:
        return "It is the last checkpoint: training longer might give a better one."
    if s.index == usable[0] and not s.trajectory.begins_late:
        return _first(s)
    return ""


def _first(s: Selection) -> str:
    judged = s.judged_by
    if judged is None or (s.gap_pp if judged.metric == ACCURACY else judged.gap):
        return "It is the first checkpoint: one that was not recorded might do as well."
    better = f"a {judged.direction} {judged.metric}"
    if s.step == 0:
        return f"It is step 0, and no later checkpoint has {better}."
    return (
        f"It is the first checkpoint, and no later one has {better}: record earlier ones "
        "too, they might do as well."
    )


def _diverged(s: Selection) -> str:
    lost = s.trajectory.n_diverged
    were = "was" if lost == 1 else "were"
    return f"{counted(lost, 'diverged checkpoint')} {were} left out." if lost else ""


def _steps(steps: tuple[int, ...]) -> str:
    word = "step" if len(steps) == 1 else "steps"
    return f"{word} {listed([str(step) for step in steps])}"
