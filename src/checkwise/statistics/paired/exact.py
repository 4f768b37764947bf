"""Exact tests that two checkpoints are equally accurate in every domain (McNemar), with Holm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.settings import error_level, whole
from checkwise.statistics.multiplicity import holm
from checkwise.statistics.paired.conditions import conditions_of
from checkwise.statistics.paired.sample import BoolArray, FloatArray, IntArray, Stratified

# Domains count in whole steps: the one with the heaviest examples in this many. Any choice gives an
# exact test.
_STEPS = 16


@dataclass(frozen=True, eq=False)
class McNemar:
    """Exact tests of every checkpoint against a reference.

    Args:
        reference: index of the checkpoint that the others are compared with.
        p: [T] two-sided p-values; nan for the reference.
        corrected: [T] p-values after Holm's correction.
        different: [T] where the corrected p-value is at most α.
        alpha: probability that any checkpoint is wrongly called different.
        conditions: what has to hold.
    """

    reference: int
    p: FloatArray
    corrected: FloatArray
    different: BoolArray
    alpha: float
    conditions: tuple[str, ...]


def mcnemar(
    sample: Stratified, *, reference: int, alpha: float, fixed_reference: bool = False
) -> McNemar:
    """Test every checkpoint against ``reference``: equally accurate in every domain.

    Where only one of two checkpoints is right, either is equally likely to be the one. Given how
    many such examples each domain has, the weighted difference has a known distribution. With
    groups, the signs of whole groups are exchanged, which tests that swapping the two checkpoints
    in any group changes nothing.

    Args:
        sample: values 0 and 1.
        reference: index of the checkpoint to compare with.
        alpha: probability that any checkpoint is wrongly called different.
        fixed_reference: the reference was named before looking at these examples. If not, Holm's
            correction counts all pairs, so that it may be the best measured one.

    Example:
        >>> sample = Stratified(([[1] * 30, [1] * 20 + [0] * 10],), [1.0])
        >>> mcnemar(sample, reference=0, alpha=0.05).p.round(4)
        array([  nan, 0.002])
    """
    alpha = error_level(alpha)
    T = len(sample)
    whole(reference, "reference", least=0, most=T - 1)
    if not sample.binary:
        raise InputError(
            "Expected values 0 and 1 (wrong and right), but got others: use max_t.",
            code="unsupported",
        )
    steps = _steps(sample)
    if fixed_reference:
        p = _against(sample, steps, reference, range(T))
        corrected = holm(p)
    else:
        table = np.full((T, T), np.nan)
        for s in range(T):
            table[s, s + 1 :] = _against(sample, steps, s, range(s + 1, T))
        adjusted = holm(table.ravel()).reshape(T, T)
        p = np.where(np.isnan(table[reference]), table[:, reference], table[reference])
        corrected = np.where(
            np.isnan(adjusted[reference]), adjusted[:, reference], adjusted[reference]
        )
    return McNemar(
        reference=reference,
        p=p,
        corrected=corrected,
        different=np.nan_to_num(corrected, nan=1.0) <= alpha,
        alpha=alpha,
        conditions=conditions_of("mcnemar", groups=sample.groups is not None),
    )


def _steps(sample: Stratified) -> IntArray:
    """What one example counts in every domain, in whole steps, [E]."""
    share = sample.weights / sample.counts
    if np.ptp(share[share > 0]) <= 1e-12 * share.max():
        return (share > 0).astype(np.int64)
    return np.where(share > 0, np.maximum(1, np.rint(_STEPS * share / share.max())), 0).astype(
        np.int64
    )


def _against(sample: Stratified, steps: IntArray, s: int, others: range) -> FloatArray:
    """p-values of s against others; nan against itself."""
    return np.array([np.nan if t == s else _p_value(sample, steps, s, t) for t in others])


def _p_value(sample: Stratified, steps: IntArray, s: int, t: int) -> float:
    sizes: Counter[int] = Counter()
    observed = 0
    for step, units in zip(steps.tolist(), sample.units, strict=True):
        moved = step * (units.sums[s] - units.sums[t]).astype(np.int64)
        observed += int(moved.sum())
        found, times = np.unique(np.abs(moved[moved != 0]), return_counts=True)
        sizes.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
    return _two_sided(tuple(sorted(sizes.items())), abs(observed))


@lru_cache(maxsize=4096)
def _two_sided(sizes: tuple[tuple[int, int], ...], observed: int) -> float:
    """P(|Σ ±size| ≥ observed) with independent fair signs."""
    upper = _signed_sum(sizes)
    middle = len(upper) // 2
    return float(min(1.0, 2 * upper[middle + observed :].sum())) if observed else 1.0


def _signed_sum(sizes: tuple[tuple[int, int], ...]) -> FloatArray:
    """The distribution of Σ ±size, from minus to plus the sum of all sizes."""
    pmf = np.ones(1)
    for size, times in sizes:
        wide = np.zeros(2 * size * times + 1)
        wide[:: 2 * size] = _fair(times)
        pmf = np.convolve(pmf, wide) if len(pmf) > 1 else wide
    return pmf


def _fair(n: int) -> FloatArray:
    """The distribution of the number of heads of n fair coins."""
    return np.array(
        [exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2)) for k in range(n + 1)]
    )
