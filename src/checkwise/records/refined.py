"""Runs that keep logits, with what is left of each checkpoint's NLL after its own temperature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from checkwise.metrics import Groups, Logits
from checkwise.records.trajectory import Trajectory

REFINED, CALIBRATION = "refined_nll", "calibration_nll"
REFINED_METRICS: Final = (REFINED, CALIBRATION)


def with_refined(
    run: Trajectory,
    logits_at: Callable[[int], Logits],
    *,
    groups: Groups | None = None,
) -> Trajectory:
    """The run with ``refined_nll`` and ``calibration_nll`` of every checkpoint and domain.

    ``logits_at`` gives the source-validation logits of a step. The temperature is fitted whatever
    the number of errors: a saturated checkpoint has a small refined NLL. ``groups`` are the
    independent units of the examples, which stay together.
    """
    from checkwise.calibrators import nll_after

    refined = np.full(run.values["nll"].shape, np.nan)
    for t in np.flatnonzero(~run.diverged).tolist():
        after = nll_after(logits_at(int(run.steps[t])), groups=groups)
        refined[t] = [after[domain] for domain in run.domains]
    part = run.values["nll"] - refined
    return replace(run, values={**run.values, REFINED: refined, CALIBRATION: part})
