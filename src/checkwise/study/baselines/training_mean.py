"""Averages that were kept while a run trained: SMA and dense SWAD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkwise.deployed import read_average
from checkwise.errors import InputError
from checkwise.store import average_file, has_file
from checkwise.study.baselines.derived import digest_of
from checkwise.study.baselines.recipe import (
    BATCHNORM,
    FROM_TRAINING,
    Model,
    Plan,
    Recipe,
    StoredRun,
)
from checkwise.study.baselines.swad import with_batchnorm

if TYPE_CHECKING:
    from checkwise.study.baselines.evaluate import OpenRun


def plan(runs: Sequence[StoredRun], params: Mapping[str, Any]) -> Plan:
    """The one file that the run left."""
    (run,) = runs
    name = str(params["average"])
    file = average_file(name)
    if not has_file(run.folder, file):
        raise InputError(
            f"Expected the average {name!r}, but {run.folder} was trained without it: train it "
            f'with averages = ["{name}"] under [training].',
            code="missing",
        )
    return Plan({file: digest_of(run.folder, file)})


def make(
    runs: Sequence[OpenRun], inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[Any, Model]:
    """The average with BatchNorm re-estimated."""
    (run,) = runs
    weights = read_average(run.folder, str(params["average"]))
    return {run.key: with_batchnorm(run, weights, params["minibatches"])}


SMA = Recipe(
    "mean of the weights of every update from step 100 on",
    plan,
    make,
    {"average": "sma", **BATCHNORM},
    needs=FROM_TRAINING,
)
DENSE_SWAD = SMA.variant(
    "mean of the weights of every update in the loss valley", average="dense-swad"
)
DENSE_SWAD_NOBN = DENSE_SWAD.variant(
    "dense-swad with the BatchNorm buffers of the last update", minibatches=0
)
