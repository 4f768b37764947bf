"""Metrics of one model on source validation, with intervals over its examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

import numpy as np

from checkwise import metrics
from checkwise.metrics.examples import per_example
from checkwise.selection import Selection
from checkwise.statistics.bootstrap import LEVEL, SEED, resampled_means

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
    logits: Mapping[str, tuple[Any, Any]], *, bins: int, bandwidth: float
) -> dict[str, Measured]:
    """Accuracy, NLL, Brier score and calibration errors of some logits.

    Examples are resampled within their domain. Calibration errors are no means over examples and
    have no interval here.
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
    low, high = _interval([np.stack([r.correct, r.nll, r.brier], axis=1) for r in rows])
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
    if run.correct is not None and run.counts is not None and not selection.worst_domain:
        right = run.correct[row]
        answers = [
            (np.arange(n) < c)[:, None].astype(np.float64)
            for c, n in zip(right.tolist(), run.counts.tolist(), strict=True)
        ]
        low, high = _interval(answers)
        mean = fsum(part.mean() for part in answers) / len(answers)
        values["accuracy"] = Measured(mean, low[0], high[0])
    return values


def _interval(domains: list[Any]) -> tuple[list[float], list[float]]:
    """Ends of the interval of the equal mean over domains, for every column."""
    drawn = [
        resampled_means(np.asarray(rows, dtype=np.float64), resamples=RESAMPLES, seed=SEED + number)
        for number, rows in enumerate(domains)
    ]
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.mean(drawn, axis=0), [tail, 100 - tail], axis=0)
    return low.tolist(), high.tolist()
