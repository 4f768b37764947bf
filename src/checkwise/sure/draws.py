"""A run's validation, reweighted: the metrics of every checkpoint on each of many samples.

A sample is a row of counts per domain: a bootstrap resample, or the examples of a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import RESAMPLED, Metric, get_metric, resampled, summable
from checkwise.records import Examples, Outcomes, Trajectory
from checkwise.selection import (
    ACCURACY,
    BoolArray,
    Choice,
    Columns,
    Comparison,
    FloatArray,
    IntArray,
    Points,
    Tolerance,
    decimal,
    direction_of,
    domain_weights,
    in_whole_numbers,
)
from checkwise.selection import tolerance as points_of
from checkwise.statistics import TOGETHER, resampled_counts, stream_seed

Counts = NDArray[Any]

_COUNTS_AT_ONCE: Final = 1 << 27  # bytes of counts that are held together
_ROWS_AT_ONCE: Final = 512


class Drawn:
    """Metrics of a run's checkpoints in D samples of its validation examples.

    ``counts`` [D, n_e] of every domain say how often each example is in each sample.
    """

    def __init__(self, run: Trajectory, counts: Sequence[Counts]):
        self.run, self.examples, self.counts = run, examples_of(run), tuple(counts)
        self.sizes: FloatArray = np.stack([c.sum(axis=1, dtype=np.float64) for c in counts], axis=1)
        self._values: dict[str, FloatArray] = {}
        self._known: dict[str, BoolArray] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def correct(self) -> IntArray:
        """Correct predictions in every sample, [D, T, E]."""
        return np.rint(self._sums(self.examples.correct)).astype(np.int64)

    def values(self, names: Sequence[str], where: BoolArray) -> dict[str, FloatArray]:
        """Metrics by name, [D, T, E]; at least those of the marked samples and checkpoints [D, T].

        The others are nan, unless they were asked for earlier.
        """
        missing = [n for n in names if not (self._known.get(n, False) | ~where).all()]
        if "nll" in missing and self.examples.nll is not None:
            self._values["nll"] = self._sums(self.examples.nll) / self.sizes[:, None, :]
            self._known["nll"] = np.ones(where.shape, dtype=bool)
            missing.remove("nll")
        if missing:
            self._measure(missing, where)
        return {name: self._values[name] for name in names}

    def _sums(self, per_example: Sequence[NDArray[Any]]) -> FloatArray:
        """Sums over the samples of what every example has at every checkpoint, [D, T, E]."""
        sums = np.empty((len(self), len(self.run), len(per_example)))
        for e, (counts, values) in enumerate(zip(self.counts, per_example, strict=True)):
            columns = np.where(self.run.diverged[:, None], 0.0, values).T.astype(np.float64)
            columns = summable(columns, self.sizes[:, e].max(initial=1.0))
            for start in range(0, len(self), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                sums[rows, :, e] = counts[rows].astype(np.float64) @ columns
        return sums

    def _measure(self, names: Sequence[str], where: BoolArray) -> None:
        """Compute metrics from logits, a checkpoint at a time."""
        if not self.examples.has_logits:
            raise MissingMetricError(
                f"Expected logits for {', '.join(names)}, but this run keeps only which examples "
                f"were right: rules that look at {ACCURACY} alone work, or keep the logits too "
                '(logits = "source", or a predictions folder).'
            )
        where = where & ~self.run.diverged
        for name in names:
            if name not in self._values:
                shape = (*where.shape, len(self.run.domains))
                self._values[name] = np.full(shape, np.nan)
                self._known[name] = np.zeros(where.shape, dtype=bool)
        fast = [name for name in names if name in RESAMPLED]
        for t in np.flatnonzero(where.any(axis=0)).tolist():
            rows = np.flatnonzero(where[:, t])
            saved = self.examples.logits(int(self.run.steps[t]))
            for e, domain in enumerate(self.run.domains):
                logits, labels = saved[domain]
                counts = self.counts[e] if len(rows) == len(self) else self.counts[e][rows]
                settings = self.run.metric_settings
                found = resampled(fast, counts, logits=logits, labels=labels, **settings)
                for name in set(names).difference(fast):  # no function of sums
                    found[name] = _afresh(get_metric(name), counts, logits, labels)
                for name, values in found.items():
                    self._values[name][rows, t, e] = values
        for name in names:
            self._known[name] |= where | self.run.diverged


def _afresh(metric: Metric, counts: Counts, logits: Any, labels: Any) -> FloatArray:
    """A metric of every sample, each written out."""
    chosen = (np.repeat(np.arange(len(row)), row) for row in counts)
    return np.array([metric(logits=logits[rows], labels=labels[rows]) for rows in chosen])


def bootstrapped(
    run: Trajectory, draws: int, seed: int, progress: Callable[[int], None] | None = None
) -> Iterator[Drawn]:
    """Resamples of a run's examples within domains (of whole groups where they are known).

    They come in parts that fit the memory; together they are ``draws``, and always the same ones.
    """
    examples = examples_of(run)
    sizes = [of_domain.shape[1] for of_domain in examples.correct]
    at_once = max(1, _COUNTS_AT_ONCE // (TOGETHER * sum(sizes))) * TOGETHER
    groups = examples.groups or (None,) * len(sizes)
    for first in range(0, draws, at_once):
        size = min(at_once, draws - first)
        yield Drawn(
            run,
            [
                resampled_counts(n, size, seed=seed, name=name, groups=units, first=first)
                for n, name, units in zip(sizes, run.domains, groups, strict=True)
            ],
        )
        if progress is not None:
            progress(first + size)


def folds_of(run: Trajectory, folds: int, repeats: int, seed: int) -> tuple[Drawn, Drawn]:
    """All examples but those of a fold, and those of the fold, for every fold of every repeat.

    Whole groups are in one fold. There are no more folds than the smallest domain has groups.
    """
    places = list(_places(run, repeats, seed))
    fewest = min(units for _, units in places)
    if fewest < 2:
        raise InputError(
            "Expected at least two independent validation examples or groups in every domain, but "
            "got a domain with one: without the one there is nothing to choose by.",
            code="unsupported",
        )
    parts = min(folds, fewest)
    inside = [
        np.concatenate([place * parts // units == fold for fold in range(parts)])
        for place, units in places
    ]
    rest, left_out = ([(mask == is_in).astype(np.uint8) for mask in inside] for is_in in (0, 1))
    return Drawn(run, rest), Drawn(run, left_out)


def _places(run: Trajectory, times: int, seed: int) -> Iterator[tuple[IntArray, int]]:
    """Per domain the place of every example's unit in random orders, [times, n], and the units."""
    examples = examples_of(run)
    for e, name in enumerate(run.domains):
        member = np.arange(examples.correct[e].shape[1])
        if examples.groups is not None:
            member = np.unique(examples.groups[e], return_inverse=True)[1].reshape(-1)
        units = int(member.max()) + 1
        random = np.random.default_rng(stream_seed(seed, name))
        order = random.permuted(np.tile(np.arange(units), (times, 1)), axis=1)
        yield order[:, member], units


def examples_of(run: Trajectory) -> Examples:
    """What every validation example said at every checkpoint, or why that is not known."""
    if run.examples is None:
        raise MissingMetricError(
            "Expected what every validation example said at every checkpoint, but this run carries "
            'only means: choose from a predictions folder, or train with logits = "source".'
        )
    return run.examples


_SLACK = 1e-13  # of accuracies that are not whole numbers over a common denominator
_LARGEST = 2**52


class DrawnColumns(Columns):
    """The columns of every sample of a run's validation, computed where a rule asks for them.

    Another tolerance than a fixed δ is decided anew for every sample, one after the other.

    Args:
        only_feasible: compute metrics only of checkpoints inside the tolerances that were asked
            for; right for rules that look at no others.
        always: a checkpoint whose metrics are wanted in every sample.
        together: metrics that are computed together as soon as one of them is asked for.
    """

    def __init__(
        self,
        drawn: Drawn,
        choice: Choice,
        *,
        only_feasible: bool = False,
        always: int | None = None,
        together: Sequence[str] = (),
    ):
        self._drawn = drawn
        self._runs, self._stacked = [drawn.run], True
        self._choice = choice
        self._only_feasible, self._always = only_feasible, always
        self._together = tuple(name for name in together if name != ACCURACY)
        self._wanted: BoolArray | None = None
        self._units, self._denominator, self._slack = self._accuracy_units(drawn)
        lost = np.broadcast_to(drawn.run.diverged, self._units.shape)
        usable = np.where(lost, -1, self._units)
        best = usable.max(axis=1, keepdims=True)
        accuracy = np.where(lost, np.nan, self._units / self._denominator)
        self._gap = np.where(lost, np.iinfo(np.int64).max, best - self._units)
        self._arrays: dict[str, NDArray[Any]] = {
            "step": np.broadcast_to(drawn.run.steps, self._units.shape),
            ACCURACY: accuracy,
            "gap_pp": np.where(lost, np.nan, 100 * (best - self._units) / self._denominator),
            "diverged": lost,
        }

    def _accuracy_units(self, drawn: Drawn) -> tuple[NDArray[Any], int, float]:
        """Accuracies [D, T] over a denominator: whole numbers where samples are equally large."""
        correct, run = drawn.correct(), drawn.run
        self._counted = correct, drawn.sizes
        counts = [n.shape[1] for n in drawn.counts]
        if (drawn.sizes == counts).all():
            weights, worst = self._choice.weights, self._choice.worst_domain
            denominator, factors = in_whole_numbers(run, counts, weights, worst)
            if denominator < _LARGEST:
                scaled = correct * np.array(factors, dtype=np.int64)
                return scaled.min(axis=2) if worst else scaled.sum(axis=2), denominator, 0.0
        return self._mean(correct / drawn.sizes[:, None, :], drawn, "higher"), 1, _SLACK

    def _mean(self, values: FloatArray, drawn: Drawn, direction: str) -> FloatArray:
        """Over domains, [D, T, E] to [D, T], or the worst one."""
        if self._choice.worst_domain:
            return np.asarray(values.min(axis=2) if direction == "higher" else values.max(axis=2))
        if self._choice.weights == "sample":
            shares = drawn.sizes / drawn.sizes.sum(axis=1, keepdims=True)
            return np.asarray((values * shares[:, None, :]).sum(axis=2))
        shares = np.array([float(w) for w in domain_weights(drawn.run, self._choice.weights)])
        return np.asarray((values * shares).sum(axis=2))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name == "order" and name not in self._arrays:
            self._arrays["order"] = _dense(self._gap, self._slack)
        if name in self._arrays:
            return self._arrays[name]
        where = np.ones(self._units.shape, dtype=bool)
        if self._only_feasible and self._wanted is not None:
            where = self._wanted.copy()
        if self._always is not None:
            where[:, self._always] = True
        names = self._together if name in self._together else (name,)
        values = self._drawn.values(names, where)[name]
        worst, directions = self._choice.worst_domain, self._choice.directions
        direction = direction_of(name, directions) if worst else "lower"
        return self._mean(values, self._drawn, direction)

    def __iter__(self) -> Iterator[str]:
        return iter(("step", ACCURACY, "gap_pp", "order", "diverged", *self._others()))

    def __len__(self) -> int:
        return 5 + len(self._others())

    def _others(self) -> list[str]:
        return [name for name in self._drawn.run.metrics if name != ACCURACY]

    def within_points(self, delta_pp: Points) -> BoolArray:
        return self._near(points_of(delta_pp) * self._denominator / 100)

    def _by_kind(self, deltas: Sequence[Fraction]) -> BoolArray:
        """The tolerance of every sample, from the examples that are in it."""
        drawn, choice = self._drawn, self._choice
        shares = [float(share) for share in domain_weights(drawn.run, choice.weights)]
        comparison = Comparison.of(drawn.run, choice.kind, np.array(shares))
        masks = []
        for d, delta in enumerate(deltas):
            own = drawn.sizes[d] / drawn.sizes[d].sum() if choice.weights == "sample" else None
            times = [of_domain[d] for of_domain in drawn.counts]
            masks.append(comparison.near(float(delta), times, own))
        return self._remember((np.stack(masks) | (self["order"] == 0)) & ~self["diverged"])

    def at_least(self, threshold_pp: Points) -> BoolArray:
        edge = decimal(threshold_pp, "threshold_pp") * self._denominator / 100
        least = float(edge) - self._slack if self._slack else ceil(edge)
        return self._remember((self._units >= least) & ~self["diverged"])

    def near_best(self, constraint: str, asked: Tolerance) -> BoolArray:
        if constraint != ACCURACY:
            return self._remember(np.stack([s.near(asked) for s in self.standings(constraint)]))
        if not self._choice.kind.fixed:
            best = np.nanmax(self[ACCURACY], axis=1)
            return self._by_kind([asked.allowed(Fraction(float(one))) for one in best])
        if not asked.relative:
            return self._near(asked.amount * self._denominator)
        most = np.where(self["diverged"], 0, self._units).max(axis=1, keepdims=True)
        part, whole = asked.amount.as_integer_ratio()
        if not self._slack:  # whole numbers beyond 64 bits
            near = self._gap.astype(object) * whole <= most.astype(object) * part
        else:
            near = self._gap * whole <= most * part + whole * self._slack
        return self._remember(near.astype(bool) & ~self["diverged"])

    def _near(self, allowed: Fraction) -> BoolArray:
        """At most so many units below the best."""
        edge = float(allowed) + self._slack if self._slack else floor(allowed)
        return self._remember((self._gap <= edge) & ~self["diverged"])

    def _remember(self, mask: BoolArray) -> BoolArray:
        self._wanted = mask if self._wanted is None else self._wanted | mask
        return mask

    def sample(self, d: int, metrics: Sequence[str]) -> Trajectory:
        """One sample as a run of its own, with the metrics named and which examples were right.

        Copies of a group are groups of their own, as they are in other examples of the same kind.
        """
        drawn, run = self._drawn, self._drawn.run
        everywhere = np.ones(self._units.shape, dtype=bool)
        values = drawn.values([name for name in metrics if name != ACCURACY], everywhere)
        correct, sizes = self._counted
        said, times = drawn.examples, [row[d] for row in self._drawn.counts]
        rows = [np.repeat(np.arange(len(row)), row) for row in times]
        units = said.groups
        outcomes = Outcomes(
            correct=tuple(one[:, r] for one, r in zip(said.correct, rows, strict=True)),
            groups=units and tuple(_copies(*one) for one in zip(units, times, rows, strict=True)),
        )
        return Trajectory(
            steps=run.steps,
            domains=run.domains,
            values={ACCURACY: correct[d] / sizes[d], **{n: v[d] for n, v in values.items()}},
            counts=sizes[d].astype(np.int64),
            correct=correct[d],
            diverged=run.diverged,
            seeded_by=run.identity,
            examples=Examples(domains=run.domains, steps=run.steps, outcomes=outcomes),
        )

    @property
    def errors_of_best(self) -> IntArray:
        """How many examples the earliest most accurate checkpoint of every sample gets wrong."""
        correct, sizes = self._counted
        best = np.argmin(self["order"], axis=1)
        right = np.take_along_axis(correct, best[:, None, None], axis=1).sum(axis=(1, 2))
        return np.asarray(sizes.sum(axis=1) - right)

    @property
    def identities(self) -> list[str]:
        return [self._drawn.run.identity] * len(self._drawn)


def _copies(groups: IntArray, times: NDArray[Any], rows: IntArray) -> IntArray:
    """A number for every copy of every group, by the examples that were taken."""
    first = np.repeat(np.cumsum(times, dtype=np.int64) - times, times)
    copy = np.arange(len(rows)) - first
    return np.asarray(groups[rows] * (int(times.max()) + 1) + copy)


def _dense(gap: NDArray[Any], slack: float) -> IntArray:
    """Dense ranks along rows, 0 for the smallest; those within the slack are equal."""
    sequence = np.argsort(gap, axis=1, kind="stable")
    ordered = np.take_along_axis(gap, sequence, axis=1)
    ranks = np.zeros(gap.shape, dtype=np.int64)
    ranks[:, 1:] = (ordered[:, 1:] - ordered[:, :-1] > slack).cumsum(axis=1)
    order = np.empty_like(ranks)
    np.put_along_axis(order, sequence, ranks, axis=1)
    return order
