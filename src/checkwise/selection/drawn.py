"""A run's validation, reweighted: the metrics of every checkpoint on each of many samples.

A sample is a row of counts per domain: a bootstrap resample, or the examples of a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError, MissingMetricError
from checkwise.metrics import get_metric
from checkwise.metrics.resampled import RESAMPLED, resampled
from checkwise.records import Trajectory
from checkwise.records.examples import Examples
from checkwise.selection.constraint import ACCURACY
from checkwise.selection.standing import BoolArray, FloatArray, IntArray
from checkwise.statistics.resampled_counts import TOGETHER, resampled_counts, stream_seed

Counts = NDArray[Any]

_THREADS: Final = 2
_COUNTS_AT_ONCE: Final = 1 << 27  # bytes of counts that are held together
_ROWS_AT_ONCE: Final = 512


class Drawn:
    """Metrics of a run's checkpoints in D samples of its validation examples.

    Args:
        run: a run with examples.
        counts: per domain [D, n_e], how often each example is in each sample.
    """

    def __init__(self, run: Trajectory, counts: Sequence[Counts]):
        self.run, self.examples, self.counts = run, examples_of(run), tuple(counts)
        self.sizes: FloatArray = np.stack([c.sum(axis=1, dtype=np.float64) for c in counts], axis=1)
        self._values: dict[str, FloatArray] = {}
        self._known: dict[str, BoolArray] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def equal_sizes(self) -> bool:
        """Whether every sample has as many examples of each domain as the run."""
        return bool((self.sizes == [len(row[0]) for row in self.examples.correct]).all())

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
            for start in range(0, len(self), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                sums[rows, :, e] = counts[rows].astype(np.float64) @ columns
        return sums

    def _measure(self, names: Sequence[str], where: BoolArray) -> None:
        """Compute metrics from logits: a checkpoint at a time, two of them at once."""
        check_logits(self.run, names)
        where = where & ~self.run.diverged
        for name in names:
            if name not in self._values:
                shape = (*where.shape, len(self.run.domains))
                self._values[name] = np.full(shape, np.nan)
                self._known[name] = np.zeros(where.shape, dtype=bool)
        steps = np.flatnonzero(where.any(axis=0)).tolist()
        with two_threads() as pool:
            for _ in pool.map(lambda t: self._measure_step(names, t, where[:, t]), steps):
                pass
        for name in names:
            self._known[name] |= where | self.run.diverged

    def _measure_step(self, names: Sequence[str], t: int, where: BoolArray) -> None:
        rows = np.flatnonzero(where)
        saved = self.examples.logits(int(self.run.steps[t]))
        for e, domain in enumerate(self.run.domains):
            logits, labels = saved[domain]
            counts = self.counts[e] if len(rows) == len(self) else self.counts[e][rows]
            fast = [name for name in names if name in RESAMPLED]
            settings = self.run.metric_settings
            found = resampled(fast, counts, logits=logits, labels=labels, **settings)
            found |= {n: _one_by_one(n, counts, logits, labels) for n in names if n not in fast}
            for name, values in found.items():
                self._values[name][rows, t, e] = values


@contextmanager
def two_threads() -> Iterator[ThreadPoolExecutor]:
    """Two threads, each of which multiplies by itself: those of a product wait for each other."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ThreadPoolExecutor(_THREADS) as pool:
        yield pool


def _one_by_one(name: str, counts: Counts, logits: Any, labels: Any) -> FloatArray:
    """A metric that is no function of sums, computed afresh for every sample."""
    metric, each = get_metric(name), np.arange(counts.shape[1])
    chosen = (np.repeat(each, row) for row in counts)
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


def check_logits(run: Trajectory, names: Sequence[str]) -> None:
    """Refuse metrics that need logits where a run has none."""
    if not examples_of(run).has_logits:
        raise MissingMetricError(
            f"Expected logits for {', '.join(names)}, but this run keeps only which examples were "
            f"right: rules that look at {ACCURACY} alone work, or keep the logits too "
            '(logits = "source", or a predictions folder).'
        )
