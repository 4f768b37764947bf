"""Metrics that a run does not carry but whose logits it has: computed when a rule asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from checkwise.metrics import get_metric, is_metric
from checkwise.records import Trajectory


def with_measured(run: Trajectory, names: Iterable[str]) -> Trajectory:
    """The run with those of the metrics that it lacks, where it has logits; else the run itself."""
    absent = [name for name in names if name not in run.metrics and is_metric(name)]
    if not absent or run.examples is None or not run.examples.has_logits:
        return run
    found = {name: np.full((len(run), len(run.domains)), np.nan) for name in absent}
    for t in np.flatnonzero(~run.diverged).tolist():
        saved = run.examples.logits(int(run.steps[t]))
        for e, domain in enumerate(run.domains):
            logits, labels = saved[domain]
            for name in absent:
                found[name][t, e] = get_metric(name)(logits=logits, labels=labels)
    return replace(run, values={**run.values, **found})
