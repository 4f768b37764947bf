"""Outputs that runs saved while they trained, so that averages of them need no network.

Held-out logits are read, which opens a cohort: only for scripts that do so anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from checkwise.store import finished, read_run
from checkwise.study import Targets
from checkwise.study.baselines import KEPT_BYTES, KeptOutputs, OpenRun, OpenRuns
from checkwise.study.folder import open_cohort
from checkwise.study.train import Outputs

BYTES = 4  # of a logit


def opening(cohort: Path, roots: Mapping[str, str]) -> OpenRuns:
    """Opens the runs of a cohort; what they saved is not computed again, if memory holds it."""
    kept = KeptOutputs()
    opened, record = OpenRuns(roots, kept), open_cohort(cohort)
    runs = [opened(record, key) for key, folder in record.runs.items() if finished(folder)]
    runs = [run for run in runs if run.config.logits == "all" and not _has_groups(run)]
    if sum(map(_size, runs)) <= KEPT_BYTES:
        for run in runs:
            for step in _steps(run.folder):
                kept.keep(run.config.digest, step, saved(run, step))
    return opened


def saved(run: OpenRun, step: int) -> Outputs:
    """What a run saved at one step, in the order of its parts."""
    targets = Targets(run.folder, run.key.held_out)
    logits = {
        ("source", name): z
        for name, (z, _) in read_run(run.folder).predictions().logits(step).items()
    }
    for name in run.key.held_out:
        logits["heldout", name] = targets.logits(name, step)[name][0]
    return Outputs(run.parts, tuple(logits[part.role, part.domain] for part in run.parts))


def _steps(folder: Path) -> Iterator[int]:
    run = read_run(folder).trajectory()
    yield from run.steps[~run.diverged].tolist()


def _has_groups(run: OpenRun) -> bool:
    return any(part.role not in ("source", "heldout") for part in run.parts)


def _size(run: OpenRun) -> int:
    rows = sum(len(part.rows) for part in run.parts)
    classes = max(int(np.max(part.labels)) for part in run.parts) + 1
    return len(list(_steps(run.folder))) * rows * classes * BYTES
