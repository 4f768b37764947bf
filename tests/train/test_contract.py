"""The contract of `Algorithm`, over every registered algorithm."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from checkwise.study.train import Algorithm, algorithm_names, build_algorithm
from checkwise.study.train.algorithms import ALGORITHMS
from tests.refusals import refused
from tests.train.networks_for_tests import HPARAMS, minibatches, small

every_algorithm = pytest.mark.parametrize("name", algorithm_names())


def _leaves(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [leaf for key in state for leaf in [key, *_leaves(state[key])]]
    if isinstance(state, list | tuple):
        return [leaf for item in state for leaf in _leaves(item)]
    return [state]


def _same(a: Any, b: Any) -> bool:
    pairs = list(zip(_leaves(a), _leaves(b), strict=True))
    return all(torch.equal(x, y) if isinstance(x, Tensor) else x == y for x, y in pairs)


def _run(algorithm: Algorithm, steps: range) -> list[dict[str, Tensor]]:
    logs = []
    for step in steps:
        torch.manual_seed(1000 + step)
        logs.append(algorithm.update(minibatches(step)))
    return logs


@every_algorithm
@pytest.mark.parametrize("sizes", [(5, 5, 5), (4, 7, 2), (6,), (8, 8)])
def test_update_returns_finite_detached_scalars(name: str, sizes: tuple[int, ...]) -> None:
    algorithm = small(name)
    for step in range(5):
        logged = algorithm.update(minibatches(step, sizes))
        assert {"loss", "nll"} <= set(logged)
        for value in logged.values():
            assert value.shape == ()
            assert not value.requires_grad
            assert math.isfinite(float(value))


@every_algorithm
def test_update_lowers_the_cross_entropy_of_a_separable_problem(name: str) -> None:
    torch.manual_seed(0)
    algorithm = build_algorithm(
        name, nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 3), {"lr": 1e-2}
    )
    batch = [(3 * torch.eye(6)[y], y) for y in (torch.arange(12) % 3 for _ in range(3))]
    first = float(algorithm.update(batch)["nll"])
    for _ in range(60):
        last = float(algorithm.update(batch)["nll"])
    assert last < 0.5 * first


@every_algorithm
def test_predict_is_deterministic_and_changes_nothing(name: str) -> None:
    algorithm = small(name)
    _run(algorithm, range(2))
    before, random_state = algorithm.training_state(), torch.get_rng_state()
    x = minibatches(7)[0][0]
    first, second = algorithm.predict(x), algorithm.predict(x)
    assert torch.equal(first, second)
    assert first.shape == (5, 3)
    assert not first.requires_grad
    assert algorithm.training
    assert torch.equal(random_state, torch.get_rng_state())
    assert _same(before, algorithm.training_state())


@every_algorithm
def test_predict_keeps_evaluation_mode_and_update_leaves_it(name: str) -> None:
    algorithm = small(name).eval()
    algorithm.predict(minibatches(0)[0][0])
    assert not algorithm.training
    algorithm.update(minibatches(0))
    assert algorithm.training


@every_algorithm
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    first, second = small(name), small(name)
    assert _same(_run(first, range(6)), _run(second, range(6)))
    assert _same(first.training_state(), second.training_state())


@every_algorithm
@pytest.mark.parametrize("at", [0, 2, 3, 4], ids=lambda at: f"after-{at}-updates")
def test_training_state_continues_bit_for_bit(name: str, at: int) -> None:
    """The penalties anneal at update 3, where Adam starts afresh."""
    whole = small(name)
    _run(whole, range(at))
    file = io.BytesIO()
    torch.save(whole.training_state(), file)
    expected = _run(whole, range(at, 8))

    file.seek(0)
    resumed = small(name, seed=99)
    resumed.load_training_state(torch.load(file, weights_only=True))
    assert _same(_run(resumed, range(at, 8)), expected)
    assert _same(resumed.training_state(), whole.training_state())


@every_algorithm
def test_training_state_is_a_snapshot(name: str) -> None:
    algorithm = small(name)
    _run(algorithm, range(2))
    state, again = algorithm.training_state(), algorithm.training_state()
    other = small(name)
    other.load_training_state(state)
    _run(algorithm, range(2, 4))
    _run(other, range(2, 4))
    assert _same(state, again)


@every_algorithm
def test_deployable_state_is_the_network_alone(name: str) -> None:
    algorithm = small(name)
    _run(algorithm, range(2))
    state = algorithm.deployable_state()
    expected = {f"featurizer.{k}": v for k, v in algorithm.featurizer.state_dict().items()}
    expected |= {f"classifier.{k}": v for k, v in algorithm.classifier.state_dict().items()}
    assert _same(state, expected)
    _run(algorithm, range(2, 3))
    assert not _same(state, algorithm.deployable_state())


@every_algorithm
def test_frozen_parameters_stay(name: str) -> None:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(6, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 8))
    algorithm = build_algorithm(name, featurizer, nn.Linear(8, 3), HPARAMS)
    before = algorithm.deployable_state()
    _run(algorithm, range(4))
    after = algorithm.deployable_state()
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert moved == {key for key in before if not key.startswith("featurizer.0")}


@every_algorithm
def test_declared_hyperparameters_are_the_ones_kept(name: str) -> None:
    kept = set(small(name).hparams)
    assert kept == {"lr", "weight_decay", *ALGORITHMS[name].reads}


def test_unknown_algorithm_missing_lr_and_misspellings_are_refused() -> None:
    halves = nn.Linear(6, 8), nn.Linear(8, 3)
    with refused("unknown: ERM … CORAL … GroupDRO … IRM"):
        build_algorithm("SagNet", *halves, HPARAMS)
    with refused("missing"):
        build_algorithm("ERM", *halves, {"weight_decay": 0.0})
    with refused("unknown: did you mean 'irm_lambda'"):
        build_algorithm("IRM", *halves, {"lr": 1e-3, "irm_lamda": 1.0})


def test_other_names_of_domainbed_are_passed_over() -> None:
    hparams = {**HPARAMS, "resnet18": False, "data_augmentation": True, "class_balanced": False}
    build_algorithm("VREx", nn.Linear(6, 8), nn.Linear(8, 3), hparams)
