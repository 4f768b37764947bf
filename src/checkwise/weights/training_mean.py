"""Averages that were kept while a run trained: SMA and dense SWAD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkwise.errors import InputError
from checkwise.store import layout
from checkwise.store.safe_read import has_file
from checkwise.weights.checkpoints import read_average
from checkwise.weights.derived import digest_of
from checkwise.weights.evaluate import OpenRun
from checkwise.weights.recipe import Made, Plan, StoredRun
from checkwise.weights.swad import finished


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The one file that the run left."""
    (run,) = runs
    name = str(params["average"])
    file = layout.average_file(name)
    if not has_file(run.folder, file):
        raise InputError(
            f"Expected the average {name!r}, but {run.folder} was trained without it: train it "
            f'with averages = ["{name}"] under [training].'
        )
    return Plan({file: digest_of(run.folder, file)})


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Made]:
    """The average with BatchNorm estimated anew."""
    (run,) = runs
    weights = read_average(run.folder, str(params["average"]))
    return {run.key: finished(run, weights, params["minibatches"])}
