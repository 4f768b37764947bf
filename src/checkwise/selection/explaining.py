"""A choice in a few sentences: the answer, what it costs, why, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from checkwise.records import ONLY_DOMAIN
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.defaults import REFERENCE
from checkwise.selection.guard import WITHIN_PP
from checkwise.selection.standing import domain_weights
from checkwise.selection.wording import (
    as_written,
    because,
    called,
    in_brackets,
    instead,
    names_of,
    not_compared,
    scores,
)
from checkwise.words import counted, listed, points

if TYPE_CHECKING:
    from checkwise.selection.result import Selection


def explain(s: Selection) -> str:
    """The answer, what it costs and gains, why, and what to be careful about."""
    first = (
        [guarded_answer(s)] if s.guard_acted else [f"Use step {s.step}{in_brackets(instead(s))}."]
    )
    why = [] if s.guard_acted else [because(s), not_compared(s)]
    return _together([*first, _standing(s), *why, *cautions(s)])


def _standing(s: Selection) -> str:
    if s.judged_by is None:
        return ""
    (name, value, beside), *others = scores(s)
    parts = [f"{_kind(s, name)} {value}, {beside}"]
    parts += [f"{name} {value}{f', {beside}' * bool(beside)}" for name, value, beside in others]
    return f"{'; '.join(parts)}."


def _kind(s: Selection, name: str) -> str:
    domains = s.trajectory.domains
    if domains == (ONLY_DOMAIN,):
        return f"Validation {name}"
    if len(domains) == 1:
        return f"{name[0].upper()}{name[1:]} on {domains[0]}"
    which = (
        "Worst"
        if s.choice.worst_domain
        else "Mean"
        if s.choice.weights == "equal"
        else "Weighted mean"
    )
    return f"{which} {name} of {names_of(domains)}"


def _together(sentences: Sequence[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def cautions(s: Selection) -> list[str]:
    """What to be careful about, a sentence each."""
    coarseness = coarse(s)
    found = [f"{coarseness}." if coarseness else "", _ties(s), _edge(s), _diverged(s)]
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
    shares = [Fraction(1)] * len(sizes)
    if not s.choice.worst_domain:
        shares = [Fraction(w) for w in domain_weights(s.trajectory, s.choice.weights)]
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
    return str(s.params["delta_pp"]) if "delta_pp" in s.params else as_written(s)


def _spacing(steps: list[Fraction]) -> Fraction:
    """The least difference that mean accuracies can have: the greatest common divisor."""
    return Fraction(gcd(*(x.numerator for x in steps)), lcm(*(x.denominator for x in steps)))


def _ties(s: Selection) -> str:
    if s.rule in (REFERENCE, "ac-early", "ac-random"):
        return ""
    sentences = []
    if s.ties:
        sentences.append(f"Exactly tied with {_steps(s.ties)}; broken by {_breaking(s)}.")
    if s.near_ties:
        sentences.append(
            f"It cannot be told from {_steps(s.near_ties)}: rounding decides among them, not the "
            "data."
        )
    return _together(sentences)


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
    better = f"a {judged.direction} {called(s.trajectory, judged.metric)}"
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


def guarded_answer(s: Selection, *, offer: bool = True) -> str:
    """The one answer where the guard acted, with the reason; else nothing.

    ``offer`` names the option that switches the guard off.
    """
    said = _reason_and_place(s, offer=offer)
    return f"{said[0]} Use step {s.step}, {said[1]}." if said else ""


def guarded_because(s: Selection) -> str:
    """Why the guard acted, after the answer was given."""
    said = _reason_and_place(s, offer=True)
    return f"{said[0]} This is {said[1]}." if said else ""


def _reason_and_place(s: Selection, *, offer: bool) -> tuple[str, str] | None:
    """Why validation cannot choose, and which checkpoint was taken instead."""
    if s.guard is None or not s.guard.acted or s.saturation is None:
        return None
    rules = "an average" if s.guard.without is None else f"step {s.guard.without}"
    other = f" (--no-guard: {rules})" if offer and s.guard.without != s.step else ""
    near = int(s.feasible.sum())
    errors, examples = s.saturation.errors, s.saturation.examples
    if errors == 0 and near > 1 and not s.columns["gap_pp"][s.feasible].any():
        reason = f"{near} checkpoints make no error on validation, so it cannot tell them apart."
        return reason, f"the earliest{other}"
    made = counted(errors, "error") if errors else "no error"
    made += "" if examples is None else f" in {examples} examples"
    which = "the only checkpoint" if near == 1 else f"the earliest of {near} checkpoints"
    return (
        f"The best checkpoint makes {made} on validation, too few to rank checkpoints by their "
        "probabilities.",
        f"{which} within {points(WITHIN_PP)} of the best{other}",
    )
