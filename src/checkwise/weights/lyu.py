"""After Lyu et al. (2023): low validation loss first, then risk plus discrepancy between domains.

1. Candidates are the checkpoints whose mean source-validation NLL is at most (1 + ratio) times the
   run's lowest, ratio = 0.1.
2. Of each candidate the risk (that NLL) and the discrepancy of the source domains' validation
   features (MMD or CORAL distance, see ``discrepancy``) are rescaled to 0–1 over the candidates.
3. The smallest sum wins, the earliest on ties.

The candidates' weights have to be kept. Rescaling before adding is this package's choice: the two
terms have no common scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from checkwise.errors import InputError
from checkwise.selection import Table
from checkwise.selection.constrained import distance, rescale
from checkwise.weights.checkpoints import read_checkpoint
from checkwise.weights.discrepancy import DISCREPANCIES, FloatArray
from checkwise.weights.evaluate import OpenRun
from checkwise.weights.recipe import Made, Plan, StoredRun

RATIO = 0.1


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The checkpoints of low validation loss, with their losses."""
    (run,) = runs
    if len(run.trajectory.domains) < 2:
        raise InputError(
            f"Expected at least 2 source domains to compare, but {run.key} has one: use a rule "
            "that needs only one."
        )
    table = Table.of(run.trajectory)
    usable = ~table["diverged"]
    loss = np.where(usable, table["nll"], np.inf)
    low = loss <= (1 + float(params["ratio"])) * loss.min()
    return Plan(
        {
            "candidates": run.trajectory.steps[low].tolist(),
            "risk": loss[low].tolist(),
            "source.jsonl": run.source_digest,
        }
    )


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Made]:
    """The candidate of smallest rescaled risk plus discrepancy, as it was saved."""
    (run,) = runs
    measure = DISCREPANCIES[str(params["discrepancy"])]
    apart = []
    for step in inputs["candidates"]:
        run.load(read_checkpoint(run.folder, step))
        apart.append(measure(list(source_features(run).values())))
    errors = np.array([inputs["risk"], apart])
    score = distance(rescale(errors, np.ones(len(apart), dtype=bool)), 1)
    return {run.key: chosen(run, inputs["candidates"], score)}


def chosen(run: OpenRun, steps: Sequence[int], score: FloatArray) -> Made:
    """The saved checkpoint of smallest score, the earliest on ties."""
    step = steps[int(np.argmin(score))]
    outputs = run.outputs(read_checkpoint(run.folder, step))
    return Made(outputs, None, (f"step {step} of {len(steps)} candidates",))


def source_features(run: OpenRun) -> dict[str, FloatArray]:
    """What the featurizer makes of every source domain's validation split."""
    algorithm = run.algorithm.eval()
    found = {}
    with torch.inference_mode():
        for part in run.source_parts:
            size = run.data.inputs.rows_at_once
            rows = [part.rows[at : at + size] for at in range(0, len(part.rows), size)]
            made = [algorithm.featurizer(run.data.inputs.rows(part.index, some)) for some in rows]
            found[part.domain] = torch.cat(made).double().cpu().numpy()
    return found
