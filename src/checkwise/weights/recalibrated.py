"""Wald et al. (2021) with every candidate recalibrated before the choice.

Candidates are the checkpoints above an accuracy: ``threshold_pp``, or ``delta_pp`` points below
the best where no threshold is given. Each is scaled by the temperature that is best on its pooled
source validation logits (Wald et al. use isotonic regression), and the lowest mean source-domain
ECE wins. What is deployed is the chosen checkpoint with that temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from checkwise.records import Trajectory
from checkwise.selection import Rule, Table
from checkwise.selection.pure import wald
from checkwise.selection.ranking import Ranking
from checkwise.weights.calibration import calibrate
from checkwise.weights.logits import Logits


def wald_recalibrated(
    table: Table, *, threshold_pp: object = None, delta_pp: object = 0.5
) -> Ranking:
    """The lowest mean source ECE, after recalibration, among accurate checkpoints."""
    if threshold_pp is not None:
        return wald(table, threshold_pp=threshold_pp)
    return Ranking(table.error("ece"), table.within(delta_pp))


RULE = Rule(
    "wald-recalibrated",
    "smallest ece after temperature scaling each candidate above an accuracy",
    wald_recalibrated,
    needs=("ece",),
    stackable=False,
)


def with_recalibrated_ece(
    run: Trajectory,
    logits_at: Callable[[int], Logits],
    options: Mapping[str, Any] | None = None,
    *,
    threshold_pp: object = None,
    delta_pp: object = 0.5,
) -> Trajectory:
    """The run with the ECE of every candidate as it is after scaling; others keep theirs.

    ``options`` says how domains count when candidates are found: ``weights``, ``worst_domain``.
    """
    candidates = wald_recalibrated(
        Table.of(run, **(options or {})), threshold_pp=threshold_pp, delta_pp=delta_pp
    ).eligible
    ece = run.values["ece"].copy()
    bins, bandwidth = run.bins or 15, run.bandwidth or 0.1
    for t in candidates.nonzero()[0].tolist():
        logits = logits_at(int(run.steps[t]))
        found = calibrate(logits).metrics(logits, bins=bins, bandwidth=bandwidth)
        ece[t] = [found[domain]["ece"] for domain in run.domains]
    return replace(run, values={**run.values, "ece": ece})
