"""Metrics of one model on source validation, with intervals over its examples or groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

import numpy as np

from checkwise import metrics
from checkwise.metrics import Groups, per_example
from checkwise.selection import Selection
from checkwise.statistics import LEVEL, SEED, resampled_group_means, resampled_means

RESAMPLES: Final = 2_000
PER_EXAMPLE: Final = ("accuracy", "nll", "brier")
BINNED: Final = ("ece", "cwece")


@dataclass(frozen=True)
class Measured:
    """An equal mean over source domains, and its percentile interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Plain values for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


def measure(
    logits: Mapping[str, tuple[Any, Any]],
    *,
    bins: int,
    bandwidth: float,
    groups: Groups | None = None,
) -> dict[str, Measured]:
    """Accuracy, NLL, Brier score and calibration errors of some logits.

    Examples are resampled within their domain, or whole groups of them where these are known.
    Calibration errors are no means over examples and have no interval here.
    """
    reports = [
        metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth).values()
        for z, y in logits.values()
    ]
    means = {
        name: fsum(report[name] for report in reports) / len(reports)
        for name in (*PER_EXAMPLE, *BINNED)
    }
    rows = [per_example(logits=z, labels=y) for z, y in logits.values()]
    low, high = _interval(
        [np.stack([r.correct, r.nll, r.brier], axis=1) for r in rows],
        None if groups is None else [groups[domain] for domain in logits],
    )
    ends = dict(zip(PER_EXAMPLE, zip(low, high, strict=True), strict=True))
    return {name: Measured(value, *ends.get(name, ())) for name, value in means.items()}


def recorded(selection: Selection, step: int) -> dict[str, Measured]:
    """What the log says of a checkpoint; accuracy has an interval where counts are known.

    Used where no logits are.
    """
    run = selection.trajectory
    columns = selection.columns
    row = int(np.flatnonzero(run.steps == step)[0])
    names = [name for name in (*PER_EXAMPLE, *BINNED) if name in columns]
    values = {name: Measured(float(columns[name][row])) for name in names}
    if run.correct is not None and run.counts is not None and not selection.choice.worst_domain:
        right, groups = run.correct[row], run.examples.groups if run.examples else None
        answers = [
            (np.arange(n) < c)[:, None].astype(np.float64)
            for c, n in zip(right.tolist(), run.counts.tolist(), strict=True)
        ]
        if run.examples is not None and groups is not None:
            answers = [one[row][:, None].astype(np.float64) for one in run.examples.correct]
        low, high = _interval(answers, groups)
        mean = fsum(part.mean() for part in answers) / len(answers)
        values["accuracy"] = Measured(mean, low[0], high[0])
    return values


def _interval(domains: list[Any], groups: Sequence[Any] | None) -> tuple[list[float], list[float]]:
    """Ends of the interval of the equal mean over domains, for every column."""
    drawn = []
    for number, rows in enumerate(domains):
        values = np.asarray(rows, dtype=np.float64)
        how = {"resamples": RESAMPLES, "seed": SEED + number}
        drawn.append(
            resampled_means(values, **how)
            if groups is None
            else resampled_group_means(values, groups[number], **how)
        )
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.mean(drawn, axis=0), [tail, 100 - tail], axis=0)
    return low.tolist(), high.tolist()
