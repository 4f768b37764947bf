"""How often a rule would have chosen each checkpoint, had the validation examples been others.

The examples of every domain are drawn again with replacement, thousands of times, and the whole
rule is run on each draw: the accuracies, the feasible set, the objectives, the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import number, whole
from checkwise.selection import ACCURACY, DRAWS, Columns, FloatArray, IntArray
from checkwise.selection import choices as chosen_in
from checkwise.sure.draws import Drawn, DrawnColumns, bootstrapped
from checkwise.words import counted, listed

if TYPE_CHECKING:
    from checkwise.selection import Selection

MOST_DRAWS: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class Stability:
    """How often each checkpoint is chosen over resamples of the validation examples.

    Args:
        steps: the steps of the run, [T].
        chosen: the index of the checkpoint that the rule chooses in each draw, [D].
        reported: the step that was chosen on the examples as they are.
        expected_loss: metric → how much worse the reported checkpoint is than the one that the rule
            chooses in a draw, both measured on that draw, on average over the draws: the loss to
            expect from deploying it, in the metric's own units (accuracy is a fraction).
        seed: of the draws.
    """

    steps: IntArray
    chosen: IntArray
    reported: int
    expected_loss: Mapping[str, float]
    seed: int

    @property
    def draws(self) -> int:
        """How many times the examples were drawn."""
        return len(self.chosen)

    @cached_property
    def share(self) -> dict[int, float]:
        """Step → share of the draws in which it was chosen, in the order of the steps."""
        counts = np.bincount(self.chosen, minlength=len(self.steps))
        return dict(zip(self.steps.tolist(), (counts / self.draws).tolist(), strict=True))

    @property
    def reported_share(self) -> float:
        """Share of the draws in which the reported checkpoint was chosen."""
        return self.share[self.reported]

    def smallest_set(self, level: float = 0.9) -> tuple[int, ...]:
        """The fewest steps that together are chosen in at least that share of the draws.

        The most often chosen come first; of equal shares the earlier step.
        """
        if not 0 < number(level, "level") <= 1:
            raise InputError(f"Expected a `level` above 0 and up to 1, but got {level}.")
        counts = np.bincount(self.chosen, minlength=len(self.steps))
        order = np.argsort(-counts, kind="stable")
        enough = int(np.searchsorted(counts[order].cumsum(), level * self.draws - 1e-9)) + 1
        return tuple(self.steps[order[:enough]].tolist())

    def __str__(self) -> str:
        few = sorted(self.smallest_set())
        others = f"; 90% of the choices are steps {listed([str(step) for step in few])}"
        if few == [self.reported]:
            others = ""
        elif len(few) == 1:
            others = f"; step {few[0]} in {self.share[few[0]]:.0%}"
        elif len(few) > 5:
            between = f"between steps {few[0]} and {few[-1]}"
            others = f"; 90% of the choices are {len(few)} checkpoints {between}"
        return (
            f"Step {self.reported} is chosen in {self.reported_share:.0%} of "
            f"{counted(self.draws, 'resample')} of the validation examples{others}."
        )


def stability(
    s: Selection,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Stability:
    """Run the rule of a selection on resamples of its run's validation examples."""
    whole(draws, "draws", least=1, most=MOST_DRAWS)
    whole(seed, "seed")
    chosen: list[IntArray] = []
    losses: dict[str, list[FloatArray]] = {}
    by_accuracy = (ACCURACY,) if ACCURACY in s.trajectory.metrics else ()
    for drawn in bootstrapped(s.trajectory, draws, seed, progress):
        table = table_of(s, drawn)
        index = choices(s, table)
        chosen.append(index)
        for name in dict.fromkeys((*by_accuracy, *s.looked_at)):
            errors = table.error(name)
            here = np.take_along_axis(errors, index[:, None], axis=1)[:, 0]
            losses.setdefault(name, []).append(errors[:, s.index] - here)
    expected = {name: float(np.concatenate(parts).mean()) for name, parts in losses.items()}
    return Stability(s.trajectory.steps, np.concatenate(chosen), s.step, expected, seed)


def table_of(s: Selection, drawn: Drawn) -> DrawnColumns:
    """What the rule of a selection sees of samples of its run."""
    return DrawnColumns(
        drawn,
        s.choice,
        only_feasible=s.rule_used.prunable,
        always=s.index,
        together=s.rule_used.looks_at(s.params),
    )


def choices(s: Selection, table: DrawnColumns) -> IntArray:
    """The index that the rule of a selection chooses in every sample, [D], with its guard."""
    rule, params, guard = s.rule_used, s.params, s.guard is not None
    if rule.stackable:
        return chosen_in(rule, params, table, guard=guard)
    metrics = rule.looks_at(params)
    samples = (table.sample(d, metrics) for d in range(len(table.identities)))
    alone = (Columns.of(sample, s.choice) for sample in samples)
    return np.array([int(chosen_in(rule, params, one, guard=guard)) for one in alone])
