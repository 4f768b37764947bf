"""All metrics of one set of predictions, and each on its own.

Every function takes raw scores as `logits=` or probabilities as `probs=`, [n, C] (of class 1 of
two, also [n] or [n, 1]), and `labels` [n] of class indices; NumPy arrays, lists, or tensors on any
device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from checkwise.metrics import inputs
from checkwise.metrics.accumulate import Accumulator
from checkwise.metrics.arrays import Array
from checkwise.metrics.logits import probabilities
from checkwise.metrics.registry import METRICS
from checkwise.metrics.report import Report
from checkwise.metrics.settings import BANDWIDTH, BINS


def evaluate(
    *,
    logits: Any = None,
    probs: Any = None,
    labels: Any,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> Report:
    """All metrics in one pass.

    Args:
        logits: [n, C] raw scores; -inf masks a class out. float16 to float64 and bfloat16.
        probs: [n, C] probabilities, instead of logits; taken as given, not renormalised.
            Of two classes, one column for class 1 is enough, [n] or [n, 1].
        labels: [n] integers from 0 to C - 1.
        bins: number of bins B, at least 2.
        bandwidth: bandwidth h of the soft bins.

    Raises:
        InputError: what was wrong, and at which row.

    Example:
        >>> report = evaluate(logits=[[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], labels=[0, 1, 1])
        >>> report.n, report.correct, round(report.nll, 4), round(report.hard_ece, 4)
        (3, 2, 0.5845, 0.1938)
    """
    predictions = inputs.read(logits=logits, probs=probs, labels=labels)
    accumulator = Accumulator(classes=predictions.classes, bins=bins, bandwidth=bandwidth)
    accumulator.add(predictions, last=True)
    return accumulator.result()


def accuracy(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Share of examples whose first largest entry is the label.

    Example:
        >>> accuracy(probs=[[0.5, 0.5], [0.2, 0.8]], labels=[1, 1])
        0.5
    """
    return evaluate(logits=logits, probs=probs, labels=labels).accuracy


def nll(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Mean of -log p[y], by a stable log-sum-exp.

    Example:
        >>> round(nll(probs=[[0.5, 0.5], [0.75, 0.25]], labels=[0, 1]), 6)
        1.039721
    """
    return evaluate(logits=logits, probs=probs, labels=labels).nll


def brier(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Mean over examples of sum_c (p_c - [y = c])^2, between 0 and 2.

    Example:
        >>> brier(probs=[[0.75, 0.25]], labels=[0])
        0.125
    """
    return evaluate(logits=logits, probs=probs, labels=labels).brier


def ece(
    *,
    logits: Any = None,
    probs: Any = None,
    labels: Any,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> float:
    """Soft expected calibration error: sum_b (W_b / n) (a_b - u_b)^2.

    W_b sums the weights w_ib = g_b(u_i) / sum_r g_r(u_i) of a Gaussian g of bandwidth h at
    the centres (b - 1) / (B - 1), u is the largest probability, and a_b and u_b are the weighted
    means of correctness and confidence. A squared gap: not comparable with `hard_ece`.

    Example:
        >>> round(ece(probs=[[0.75, 0.25]], labels=[0]), 6)
        0.0625
    """
    report = evaluate(logits=logits, probs=probs, labels=labels, bins=bins, bandwidth=bandwidth)
    return report.ece


def cwece(
    *,
    logits: Any = None,
    probs: Any = None,
    labels: Any,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
) -> float:
    """Soft class-wise calibration error: (1/C) sum_c sum_b (V_cb / sum_r V_cr) (y_cb - p_cb)^2.

    V_cb sums v_icb = p_ic g_b(p_ic) over all n examples, unnormalised over bins; y_cb and p_cb
    are the v-weighted means of [y = c] and of p.

    Example:
        >>> round(cwece(probs=[[0.75, 0.25]], labels=[0]), 6)
        0.0625
    """
    report = evaluate(logits=logits, probs=probs, labels=labels, bins=bins, bandwidth=bandwidth)
    return report.cwece


def hard_ece(*, logits: Any = None, probs: Any = None, labels: Any, bins: int = BINS) -> float:
    """Expected calibration error over bins ((b - 1)/B, b/B]: sum_b |B_b|/n |acc - conf|.

    Example:
        >>> hard_ece(probs=[[0.75, 0.25]], labels=[0])
        0.25
    """
    return evaluate(logits=logits, probs=probs, labels=labels, bins=bins).hard_ece


def hard_cwece(*, logits: Any = None, probs: Any = None, labels: Any, bins: int = BINS) -> float:
    """Class-weighted error: sum_c (n_c/n) sum_b |B_cb|/n |freq_c - conf_c|, one class vs rest.

    Example:
        >>> hard_cwece(probs=[[0.75, 0.25]], labels=[0])
        0.25
    """
    return evaluate(logits=logits, probs=probs, labels=labels, bins=bins).hard_cwece


def worst_class_accuracy(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Smallest recall among the classes that occur in the labels.

    Example:
        >>> worst_class_accuracy(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], labels=[0, 1, 1])
        0.5
    """
    return evaluate(logits=logits, probs=probs, labels=labels).worst_class_accuracy


class Reliability(NamedTuple):
    """Of cells that are not empty: examples, mean probability of a class, share that is of it."""

    n: Array
    probability: Array
    share: Array


def reliability(
    *, logits: Any = None, probs: Any = None, labels: Any, of: int = 1, cells: int = 10
) -> Reliability:
    """The probabilities of one class against how often it comes, over cells ((b - 1)/B, b/B].

    Example:
        >>> found = reliability(probs=[0.25, 0.25, 0.9, 0.9], labels=[0, 0, 1, 1], cells=2)
        >>> found.n.tolist(), found.probability.tolist(), found.share.tolist()
        ([2, 2], [0.25, 0.9], [0.0, 1.0])
    """
    predictions = inputs.read(logits=logits, probs=probs, labels=labels)
    blocks = [rows for _, rows, _ in predictions.blocks()]
    rows = [probabilities(block) if predictions.kind == "logits" else block for block in blocks]
    p = np.concatenate(rows)[:, of].astype(np.float64)
    cell_of = np.clip(np.ceil(p * cells).astype(np.int64) - 1, 0, cells - 1)
    n = np.bincount(cell_of, minlength=cells)
    sums = [np.bincount(cell_of, weight, cells) for weight in (p, predictions.labels == of)]
    return Reliability(n[n > 0], *(total[n > 0] / n[n > 0] for total in sums))


def smece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Smooth calibration error of the top label: an absolute gap, with no bins to choose.

    Błasiok and Nakkiran (2023), with the reflected Gaussian kernel; see `smooth_ece`.

    Example:
        >>> round(smece(probs=[[0.75, 0.25]], labels=[0]), 6)
        0.25
    """
    return METRICS["smece"](logits=logits, probs=probs, labels=labels)


def debiased_ece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """Squared gap of the top label in 15 hard bins, less what chance explains; at least 0.

    Kumar, Liang and Ma (2019). A bin with fewer than two examples gives 0.

    Example:
        >>> p = [[0.9, 0.1]] * 4
        >>> round(debiased_ece(probs=p, labels=[1, 1, 1, 0]), 6)
        0.36
    """
    return METRICS["debiased_ece"](logits=logits, probs=probs, labels=labels)


def debiased_cwece(*, logits: Any = None, probs: Any = None, labels: Any) -> float:
    """The same for every class against the rest, with equal weight for every class.

    Example:
        >>> p = [[0.9, 0.1]] * 4
        >>> round(debiased_cwece(probs=p, labels=[1, 1, 1, 0]), 6)
        0.36
    """
    return METRICS["debiased_cwece"](logits=logits, probs=probs, labels=labels)
