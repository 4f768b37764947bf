"""A run's configuration comes back from run.json as it was, or is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkwise.errors import InputError
from checkwise.study.train import NetworkConfig, RunConfig
from tests.refusals import refused
from tests.runs import config


def _written(run: RunConfig) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(run.as_dict()))
    return values


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"averages": ("sma", "dense-swad"), "init_seed": 0},
        {"plugins": {"mine.py": "0" * 64}, "metrics": {"margin": "higher"}},
        {"network": NetworkConfig("backbone", tune="all", freeze_bn=True), "holdout": 0.5},
    ],
)
def test_a_configuration_survives_its_file(changes: dict[str, Any]) -> None:
    run = config(**changes)
    assert RunConfig.from_dict(_written(run), "run.json") == run


def test_options_that_are_not_in_use_are_not_written() -> None:
    written = _written(config())
    assert not {"averages", "init_seed", "plugins", "metrics"} & set(written)
    assert _written(config(init_seed=0))["init_seed"] == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "13"),
        ("steps", True),
        ("steps", 13.0),
        ("holdout", None),
        ("keep", "some"),
        ("hparams", {"lr": "fast"}),
        ("averages", ["ema"]),
        ("network", {"kind": "digits", "depth": 3}),
        ("network", "digits"),
        ("data", {"dataset": "another", "fingerprint": ""}),
        ("momentum", 0.9),
    ],
)
def test_a_value_that_no_run_writes_is_refused(name: str, value: object) -> None:
    with refused("damaged: run.json"):
        RunConfig.from_dict({**_written(config()), name: value}, "run.json")


@pytest.mark.parametrize("name", ["data", "key", "network", "hparams", "training_seed", "steps"])
def test_a_missing_value_is_named(name: str) -> None:
    written = _written(config())
    del written[name]
    with pytest.raises(InputError, match="a run's key" if name == "key" else f"no `{name}`"):
        RunConfig.from_dict(written, "run.json")
