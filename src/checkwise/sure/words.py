"""How sure a choice is, in plain sentences, and how many more validation examples it would take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from checkwise.errors import CheckwiseError
from checkwise.selection import CALLED
from checkwise.statistics import resampled_counts
from checkwise.sure.draws import Drawn, examples_of
from checkwise.sure.shares import Stability, choices, table_of
from checkwise.words import counted

if TYPE_CHECKING:
    from checkwise.selection import Selection

HEAD: Final = "How sure:"
DRAWS: Final = 1000  # a share of a half is then known to 3 points
ENOUGH: Final = 0.9
TIMES: Final = (2, 4, 8, 16)
_DRAWS_OF_MORE: Final = 200
_TOGETHER: Final = 1 << 24  # counts that are held at a time


@dataclass(frozen=True)
class Sureness:
    """How sure a choice is."""

    stability: Stability  # how often each checkpoint is chosen on other examples of the same kind
    examples: int  # validation examples that there are
    # How many times as many there would have to be, with the share of the reported checkpoint
    # then; each was tried by drawing so many, up to the first that is enough.
    more: tuple[tuple[int, float], ...]
    narrows: bool = False  # the tolerance keeps fewer checkpoints where there are more examples
    alone: str = ""  # a domain with a single independent example, if there is one
    # How many checkpoints the draws choose among, of how many that were evaluated, where the
    # weights of the others are gone.
    kept: tuple[int, int] | None = None
    guarded: bool = False  # the guard chose, because there are too few errors to rank by

    def __str__(self) -> str:
        among = ""
        if self.kept is not None:
            among = (
                f"The draws choose among the {counted(self.kept[0], 'checkpoint')} kept of "
                f"{self.kept[1]}: on other examples a deleted one might have been chosen."
            )
        return " ".join(part for part in (HEAD, self.said, self.advice, among) if part)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; shares by step are those above 0."""
        now = self.stability
        return {
            "draws": now.draws,
            "seed": now.seed,
            "share": {str(step): share for step, share in now.share.items() if share},
            "smallest_set": list(now.smallest_set()),
            "expected_loss": dict(now.expected_loss),
            "examples": self.examples,
            "with_more": [{"times": times, "share": share} for times, share in self.more],
        }

    @property
    def said(self) -> str:
        """How often the rule comes to the same choice, and what it costs where it does not."""
        words = {"nll": "NLL", **CALLED}
        losses = [
            f"{100 * loss:.2f} points of accuracy"
            if name == "accuracy"
            else f"{loss:.2g} of {words.get(name, name)}"
            for name, loss in self.stability.expected_loss.items()
            if loss > 0
        ]
        if not losses:
            return str(self.stability)
        given_up = " and ".join(losses)
        return f"{self.stability} Against the choice of each resample it gives up {given_up}."

    @property
    def advice(self) -> str:
        """What would make it surer."""
        step, share = self.stability.reported, self.stability.reported_share
        if self.alone:
            return (
                f"That says little: {self.alone} has one independent example, which every resample "
                "draws again; more of them are needed."
            )
        if self.guarded:
            return "There are too few errors to rank by: with more examples another may be chosen."
        if share >= ENOUGH:
            return "More validation examples would change little."
        times, then = self.more[-1]
        total = f"{times} times as many validation examples ({times * self.examples:,})"
        if then >= ENOUGH:
            return f"With {total} step {step} would be chosen in {then:.0%}."
        if self.narrows and then < share:
            return (
                f"With {total} the tolerance would be narrower, and step {step} chosen in "
                f"{then:.0%} only: more examples may well lead to another one."
            )
        return f"Even with {total} step {step} would be chosen in {then:.0%} only."


def sureness(s: Selection, draws: int = DRAWS) -> Sureness:
    """Draw the validation examples again and again, as many as there are, and more of them."""
    now = s.stability(draws)
    examples = sum(one.shape[1] for one in examples_of(s.trajectory).correct)
    run = s.trajectory
    kept = (len(run), run.evaluated) if run.evaluated > len(run) else None
    if (alone := _alone(s)) or s.guard_acted:
        return Sureness(now, examples, (), alone=alone, kept=kept, guarded=s.guard_acted)
    more: list[tuple[int, float]] = []
    for times in TIMES:
        if max([now.reported_share, *(share for _, share in more)]) >= ENOUGH:
            break
        more.append((times, share_with(s, times)))
    return Sureness(now, examples, tuple(more), narrows=not s.choice.kind.fixed, kept=kept)


def _alone(s: Selection) -> str:
    """The name of a domain that has one example, or one group of them."""
    known = examples_of(s.trajectory)
    groups = known.groups or (None,) * len(known.domains)
    for name, correct, group in zip(known.domains, known.correct, groups, strict=True):
        if (correct.shape[1] if group is None else len(np.unique(group))) < 2:
            return name
    return ""


def share_with(s: Selection, times: int) -> float:
    """How often the same checkpoint is chosen with so many times as many examples like these."""
    examples = examples_of(s.trajectory)
    groups = examples.groups or (None,) * len(examples.domains)
    sizes = [one.shape[1] for one in examples.correct]
    at_once = max(1, _TOGETHER // (times * sum(sizes)))
    same = []
    for first in range(0, _DRAWS_OF_MORE, at_once):
        size = min(at_once, _DRAWS_OF_MORE - first)
        counts = []  # a sample that is `times` as large is so many resamples put together
        for n, name, units in zip(sizes, examples.domains, groups, strict=True):
            stream = f"{name} {times} {first}"
            each = resampled_counts(n, size * times, seed=0, name=stream, groups=units)
            counts.append(each.reshape(size, times, n).sum(axis=1, dtype=np.int64))
        same.append(choices(s, table_of(s, Drawn(s.trajectory, counts))) == s.index)
    return float(np.concatenate(same).mean())


def how_sure(s: Selection) -> str:
    """The sentences about a choice; nothing where the run does not carry what they need."""
    if s.trajectory.examples is None:
        return ""
    try:
        return str(s.sureness)
    except CheckwiseError:  # single examples without logits, or a metric that needs more
        return ""
