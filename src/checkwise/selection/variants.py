"""Rules that are made of other rules: a suffix behind the name of any rule.

- ``-stable``: the eligible checkpoint that the rule chooses most often when the validation
  examples are drawn again.
- ``-one-se``: the earliest eligible checkpoint whose score is within one standard error of the
  best.
- ``-crossfit``: one half of the examples decides what is near the best, the other ranks; the
  eligible checkpoint that is chosen most often over many halves.
- ``-smooth``: the rule's choice after every metric is averaged over neighbouring checkpoints.
- ``-abstain``: the rule's choice where it is shown to be better than a fallback in every objective;
  else the fallback's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.settings import number, whole
from checkwise.records import Trajectory
from checkwise.selection.columns import Columns
from checkwise.selection.constrained import Ranking, choose
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.drawn import Drawn, bootstrapped, examples_of, halves
from checkwise.selection.drawn_columns import DrawnColumns
from checkwise.selection.rules import Rule, Variant, add_variant, get_rule
from checkwise.selection.stability import MOST_DRAWS, choices
from checkwise.selection.standing import BoolArray, FloatArray, IntArray
from checkwise.text import counted, listed

DRAWS: Final = 1000
SPLITS: Final = 50
WINDOW: Final = 3
FALLBACK: Final = "source-acc"
LEVEL: Final = 0.95


@dataclass(frozen=True)
class Base:
    """A rule on one run, as asked for by a rule that is made of it."""

    rule: Rule
    params: Mapping[str, Any]
    table: Columns

    def ranking(self, table: Columns | None = None) -> Ranking:
        """What it says about every checkpoint, of its own table or of another one."""
        return self.rule.ranking(self.table if table is None else table, self.params)

    def index(self, ranking: Ranking) -> int:
        """The checkpoint that it chooses."""
        order = self.table.order_by(self.rule.constraint(self.params))
        return int(choose(ranking, order, ties=self.rule.ties(self.params)))

    @property
    def objectives(self) -> tuple[str, ...]:
        """The metrics besides accuracy that it ranks by."""
        looked_at = self.rule.looks_at(self.params)
        return tuple(name for name in looked_at if name != ACCURACY)

    def drawn(self, drawn: Drawn, **settings: Any) -> DrawnColumns:
        """What it sees of samples of the run."""
        together = self.rule.looks_at(self.params)
        return DrawnColumns(drawn, **self.table.options, together=together, **settings)


def most_often(base: Base, *, draws: int = DRAWS, seed: int = 0) -> Ranking:
    """The eligible checkpoint that the rule chooses most often on resampled examples."""
    whole(draws, "draws", least=1, most=MOST_DRAWS)
    parts = [
        choices(base.rule, base.params, base.drawn(drawn, only_feasible=base.rule.prunable))
        for drawn in bootstrapped(base.table.run, draws, seed)
    ]
    return _by_share(base, np.concatenate(parts), "resample")


def cross_fitted(base: Base, *, splits: int = SPLITS, seed: int = 0) -> Ranking:
    """Halves of the examples swap roles: one for the feasible set, the other for the ranking."""
    whole(splits, "splits", least=1, most=MOST_DRAWS // 2)
    first, second = halves(base.table.run, splits, seed)
    parts = [
        choices(
            base.rule,
            base.params,
            base.drawn(ranks, accuracy_of=filters, only_feasible=base.rule.prunable),
        )
        for filters, ranks in ((first, second), (second, first))
    ]
    return _by_share(base, np.concatenate(parts), "half")


def _by_share(base: Base, chosen: IntArray, of: str) -> Ranking:
    """Ranked by how often each eligible checkpoint was chosen."""
    ranking = base.ranking()
    share = np.bincount(chosen, minlength=len(ranking.score)) / len(chosen)
    most = share[ranking.eligible].max()
    several = "halves" if of == "half" else f"{of}s"
    return Ranking(
        np.where(ranking.eligible, 1 - share, np.nan),
        ranking.eligible,
        note=f"{base.rule.name} chooses it on {most:.0%} of {len(chosen)} {several} of the "
        "validation examples.",
    )


def one_standard_error(base: Base, *, draws: int = DRAWS, seed: int = 0) -> Ranking:
    """The earliest checkpoint whose score is at most one standard error above the best.

    The standard error is that of the best score over resampled examples, with the same eligible
    checkpoints in every draw. source-acc is scored by accuracy, among all checkpoints.
    """
    whole(draws, "draws", least=2, most=MOST_DRAWS)
    ranking = base.ranking()
    best = base.index(ranking)
    by_accuracy = base.rule.name == "source-acc"
    eligible = ~base.table["diverged"] if by_accuracy else ranking.eligible
    score = -base.table[ACCURACY] if by_accuracy else ranking.score
    parts: list[FloatArray] = []
    for drawn in bootstrapped(base.table.run, draws, seed):
        table = base.drawn(drawn, feasible=eligible, only_feasible=base.rule.prunable)
        parts.append(-table[ACCURACY] if by_accuracy else base.ranking(table).score)
    error = float(np.concatenate(parts)[:, best].std(ddof=1))
    near = eligible & (score <= score[best] + error)
    steps = base.table["step"].astype(np.float64)
    return Ranking(
        np.where(near, steps, np.nan),
        near,
        note=f"{counted(int(near.sum()), 'checkpoint')} within one standard error ({error:.3g}) of "
        f"the best score of {base.rule.name}; the earliest is taken.",
    )


def smoothed(base: Base, *, window: int = WINDOW) -> Ranking:
    """The rule after every metric became the mean over ``window`` checkpoints around each one."""
    whole(window, "window", least=1)
    if window % 2 == 0:
        raise InputError(f"Expected an odd `window`, the same on both sides, but got {window}.")
    options = base.table.options
    if not options["tolerance"].fixed:
        raise InputError(
            f"Expected a fixed tolerance with smoothing, but got {options['tolerance'].name!r}: "
            "means over checkpoints have no examples of their own.",
            code="unsupported",
        )
    return base.ranking(Columns.of(_smooth(base.table.run, window), **options))


def _smooth(run: Trajectory, window: int) -> Trajectory:
    """The run with moving averages that leave out diverged checkpoints."""
    reach = window // 2
    near = np.abs(np.subtract.outer(np.arange(len(run)), np.arange(len(run)))) <= reach
    weight = (near & ~run.diverged).astype(np.float64)
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1)

    def mean(values: FloatArray) -> FloatArray:
        lost = run.diverged.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.where(lost, np.nan, weight @ np.where(lost, 0.0, values)))

    return Trajectory(
        steps=run.steps,
        domains=run.domains,
        values={name: mean(values) for name, values in run.values.items()},
        pooled={name: mean(values) for name, values in run.pooled.items()},
        diverged=run.diverged,
        key=run.key,
        seeded_by=run.identity,
    )


def abstaining(
    base: Base,
    *,
    fallback: str = FALLBACK,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Ranking:
    """The rule's choice where every objective is shown to be better than the fallback's.

    Shown: the max-t interval of the difference excludes 0. It holds for all eligible checkpoints
    and objectives at once, because the choice among them was made on the same examples. It is a
    bootstrap interval, so its level is approximate.
    """
    number(level, "level", above=0, below=1)
    whole(draws, "draws", least=2, most=MOST_DRAWS)
    if not base.objectives:
        raise InputError(
            f"Expected a rule with objectives before -abstain, but {base.rule.name} looks at "
            "accuracy alone: name a rule such as ac-nc.",
            code="unsupported",
        )
    examples_of(base.table.run)
    ranking = base.ranking()
    chosen, usual = base.index(ranking), _fallback(base, fallback)
    step = base.table["step"]
    if chosen == usual:
        return replace(ranking, note=f"{fallback} chooses the same step.")
    upper = _upper_ends(base, ranking.eligible, chosen, usual, level, draws, seed)
    shown = f"{level:.0%} intervals of the differences to step {step[usual]} of {fallback}"
    not_better = [name for name, end in upper.items() if not end < 0]
    if not not_better:
        verb = "are" if len(upper) > 1 else "is"
        return replace(ranking, note=f"{shown} show that {listed(list(upper))} {verb} better.")
    at = np.arange(len(step)) == usual
    return Ranking(
        np.where(at, 0.0, 1.0),
        ranking.eligible | at,
        note=f"Abstained: {base.rule.name} would choose step {step[chosen]}, but the {shown} do "
        f"not show that {listed(not_better)} would be better.",
    )


def _fallback(base: Base, name: str) -> int:
    """The checkpoint of the fallback, with those of the base's parameters that it takes."""
    rule = get_rule(name)
    if base.rule.constrained and not rule.constrained:
        raise InputError(
            f"Expected a fallback that keeps accuracy near its best, as {base.rule.name} does, but "
            f"got {name}: name source-acc or an ac- rule.",
            code="unsupported",
        )
    shared = {key: value for key, value in base.params.items() if rule.accepts(key)}
    usual = Base(rule, rule.complete(shared), base.table)
    return usual.index(usual.ranking())


def _upper_ends(
    base: Base, eligible: BoolArray, chosen: int, usual: int, level: float, draws: int, seed: int
) -> dict[str, float]:
    """Upper ends of the max-t intervals of (chosen − usual) by objective."""
    candidates = eligible.copy()
    candidates[usual] = True
    others = np.flatnonzero(candidates & (np.arange(len(eligible)) != usual))
    moved: dict[str, list[FloatArray]] = {name: [] for name in base.objectives}
    for drawn in bootstrapped(base.table.run, draws, seed):
        table = base.drawn(drawn, feasible=candidates, only_feasible=True)
        table.within(0)  # metrics of the candidates alone
        for name, parts in moved.items():
            errors = table.error(name)
            parts.append(errors[:, others] - errors[:, [usual]])
    largest: FloatArray = np.zeros(draws)
    ends: dict[str, tuple[float, float]] = {}
    for name, parts in moved.items():
        differences = np.concatenate(parts)
        spread = differences.std(axis=0, ddof=1)
        centred = np.abs(differences - differences.mean(axis=0))
        largest = np.maximum(largest, (centred / np.where(spread > 0, spread, 1)).max(axis=1))
        errors = base.table.error(name)
        at = int(np.flatnonzero(others == chosen)[0])
        ends[name] = float(errors[chosen] - errors[usual]), float(spread[at])
    width = float(np.quantile(largest, level))
    return {name: difference + width * spread for name, (difference, spread) in ends.items()}


def _variant(
    suffix: str, summary: str, rank: Callable[..., Ranking], *, examples: bool = True
) -> Variant:
    """A suffix whose rule takes the parameters of the base and those of ``rank``."""
    own = [p for p in inspect.signature(rank).parameters.values() if p.kind is p.KEYWORD_ONLY]

    def make(base: Rule) -> Rule:
        theirs = inspect.signature(base.rank).parameters.values()
        shared = {p.name for p in own} & {p.name for p in theirs}
        if shared:
            raise InputError(
                f"Expected a rule without a parameter {min(shared)!r} of its own before "
                f"-{suffix}, but got {base.name}: name another rule.",
                code="unsupported",
            )

        def ranked(table: Columns, **params: Any) -> Ranking:
            mine = {p.name: params.pop(p.name) for p in own if p.name in params}
            return rank(Base(base, params, table), **mine)

        ranked.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("table", inspect.Parameter.POSITIONAL_ONLY),
                *(p for p in theirs if p.kind is p.KEYWORD_ONLY),
                *own,
            ]
        )
        return replace(
            base,
            name=f"{base.name}-{suffix}",
            summary=f"{base.name}: {summary}",
            rank=ranked,
            constrained=base.constrained and not _leaves_tolerance(base, suffix),
            prunable=False,
            stackable=False,
            names_one=base.names_one,
            reads_examples=base.reads_examples or examples,
        )

    return Variant(suffix, summary, make)


def _leaves_tolerance(base: Rule, suffix: str) -> bool:
    """Whether a variant may choose outside the tolerance of its base."""
    return suffix == "smooth" or (suffix == "one-se" and base.name == "source-acc")


for _one in (
    _variant("stable", "what it chooses most often on resampled examples", most_often),
    _variant(
        "one-se", "the earliest within one standard error of its best score", one_standard_error
    ),
    _variant("crossfit", "one half of the examples filters, the other ranks", cross_fitted),
    _variant("smooth", "after averaging over neighbouring checkpoints", smoothed, examples=False),
    _variant("abstain", "its choice where shown to be better, else source-acc's", abstaining),
):
    add_variant(_one)
