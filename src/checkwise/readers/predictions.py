"""A folder of saved predictions: every metric of a run is computed from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checkwise.readers.request import LoadedRun, Request, build
from checkwise.records import (
    REFINED_METRICS,
    Trajectory,
    divide,
    groups_of,
    with_refined,
)
from checkwise.store import Predictions


def recognises(path: Path) -> bool:
    """Whether a folder has a step folder with saved outputs."""
    return path.is_dir() and bool(Predictions(path).sets)


def domains(path: Path) -> set[str]:
    """The names of the sets in a folder of saved outputs."""
    return Predictions(path).sets


def read(path: Path, request: Request) -> list[LoadedRun]:
    """The one run whose outputs the folder holds."""
    request.refuse_columns(path)
    saved = Predictions(path)
    sides = divide(
        saved.sets,
        held_out=request.held_out,
        sources=request.sources,
        beside=saved.set_aside,
        where=str(path),
    )
    # Targets stay behind here, so that not even their names reach the trajectory.
    outputs = saved.outputs(sides.sources)
    weights, notes = saved.weights()
    trajectory = build(
        Trajectory.from_predictions,
        str(path),
        outputs,
        kind=saved.kind(sides.sources),
        bins=request.bins,
        bandwidth=request.bandwidth,
        progress=lambda done: request.progress and request.progress(done, len(outputs)),
        sources=sides.sources,
        paths=[*weights.values()] if any(weights.values()) else None,
    )
    trajectory = replace(trajectory, notes=(*trajectory.notes, *sides.notes, *notes))
    if set(request.metrics) & set(REFINED_METRICS):
        trajectory = with_refined(
            trajectory,
            lambda step: saved.logits(step, trajectory.domains),
            groups=groups_of(trajectory),
        )
    return [LoadedRun(None, trajectory, str(path))]
