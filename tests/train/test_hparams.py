"""Hyperparameters: reference draws, independence of the draws, overrides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkwise.study.data import Kind
from checkwise.study.train import default_hparams, draw_hparams, hparams_for
from checkwise.study.train.hparams import HPARAM_KINDS, HPARAM_TABLE
from tests.refusals import refused

ALGORITHMS = ("ERM", "CORAL", "GroupDRO", "IRM", "VREx")
SHARED_NAMES = {"lr", "weight_decay", "batch_size", "resnet_dropout"}


@pytest.mark.parametrize(
    ("kind", "algorithm", "seeds", "name", "expected"),
    [
        ("images", "ERM", (1, 0), "lr", 2.7028930742148706e-05),
        ("images", "ERM", (1, 0), "weight_decay", 4.4832883881609976e-04),
        ("images", "ERM", (1, 0), "batch_size", 39),
        ("images", "ERM", (1, 0), "resnet_dropout", 0.5),
        ("images", "CORAL", (1, 0), "mmd_gamma", 1.4227570299330277),
        ("images", "GroupDRO", (1, 0), "groupdro_eta", 0.01297606872689568),
        ("images", "IRM", (1, 0), "irm_lambda", 65030.52212762795),
        ("images", "IRM", (1, 0), "irm_penalty_anneal_iters", 2),
        ("images", "VREx", (1, 0), "vrex_lambda", 3307.1978049278796),
        ("images", "VREx", (1, 0), "vrex_penalty_anneal_iters", 47),
        ("images", "ERM", (2, 1), "lr", 2.692684204277505e-04),
        ("images", "ERM", (2, 1), "batch_size", 18),
        ("images", "VREx", (2, 1), "vrex_penalty_anneal_iters", 5629),
        ("digits", "ERM", (1, 0), "lr", 1.1906162909279594e-04),
        ("digits", "ERM", (1, 0), "batch_size", 372),
        ("digits", "ERM", (1, 0), "weight_decay", 0.0),
    ],
)
def test_draws_have_the_reference_values(
    kind: Kind, algorithm: str, seeds: tuple[int, int], name: str, expected: float
) -> None:
    drawn = draw_hparams(kind, algorithm, hparams_seed=seeds[0], trial_seed=seeds[1])
    assert drawn[name] == expected
    assert type(drawn[name]) is type(expected)


@pytest.mark.parametrize(
    ("kind", "algorithm", "expected"),
    [
        ("images", "ERM", {"lr": 5e-5, "weight_decay": 0, "batch_size": 32, "resnet_dropout": 0}),
        ("digits", "ERM", {"lr": 1e-3, "weight_decay": 0, "batch_size": 64}),
        ("features", "ERM", {"lr": 1e-3, "weight_decay": 0, "batch_size": 32, "resnet_dropout": 0}),
        ("digits", "CORAL", {"lr": 1e-3, "weight_decay": 0, "batch_size": 64, "mmd_gamma": 1}),
    ],
)
def test_seed_zero_means_the_defaults(
    kind: Kind, algorithm: str, expected: dict[str, float]
) -> None:
    assert default_hparams(kind, algorithm) == expected
    assert draw_hparams(kind, algorithm, hparams_seed=0, trial_seed=2) == expected


def test_penalty_defaults() -> None:
    irm, vrex = (default_hparams("images", name) for name in ("IRM", "VREx"))
    assert (irm["irm_lambda"], irm["irm_penalty_anneal_iters"]) == (100, 500)
    assert (vrex["vrex_lambda"], vrex["vrex_penalty_anneal_iters"]) == (10, 500)
    assert default_hparams("images", "GroupDRO")["groupdro_eta"] == 1e-2


def test_feature_heads_draw_the_learning_rate_of_digits_and_the_rest_of_images() -> None:
    features = draw_hparams("features", "ERM", hparams_seed=1, trial_seed=0)
    images = draw_hparams("images", "ERM", hparams_seed=1, trial_seed=0)
    digits = draw_hparams("digits", "ERM", hparams_seed=1, trial_seed=0)
    assert features == {**images, "lr": digits["lr"]}


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(HPARAM_KINDS), seed=st.integers(0, 50), trial=st.integers(0, 50))
def test_draws_are_shared_by_algorithms_and_stay_in_bounds(
    kind: Kind, seed: int, trial: int
) -> None:
    drawn = [draw_hparams(kind, a, hparams_seed=seed, trial_seed=trial) for a in ALGORITHMS]
    for hparams in drawn:
        assert {k: v for k, v in hparams.items() if k in SHARED_NAMES} == drawn[0]
        for row in HPARAM_TABLE:
            if kind in row.kinds and row.name in hparams:
                assert row.checked(hparams[row.name]) == hparams[row.name]


def test_overrides_replace_draws_and_other_algorithms_overrides_are_passed_over() -> None:
    overrides = {"lr": 1, "irm_lambda": 7.5}
    for algorithm in ALGORITHMS:
        drawn = draw_hparams("features", algorithm, hparams_seed=3, trial_seed=1)
        used = hparams_for("features", algorithm, hparams_seed=3, trial_seed=1, overrides=overrides)
        expected = {**drawn, "lr": 1.0}
        if algorithm == "IRM":
            expected["irm_lambda"] = 7.5
        assert used == expected
        assert isinstance(used["lr"], float)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vrex_lamda": 1.0}, "unknown: did you mean 'vrex_lambda'"),
        ({"momentum": 0.9}, "unknown: weight_decay"),
        ({"lr": 0}, "value: `lr`"),
        ({"lr": "fast"}, "value: 'fast'"),
        ({"batch_size": 16.5}, "value"),
        ({"batch_size": True}, "value: True"),
        ({"resnet_dropout": 1.0}, "value: [0 … 1"),
        ({"weight_decay": float("nan")}, "value: nan"),
    ],
)
def test_bad_overrides_are_refused(overrides: dict[str, object], message: str) -> None:
    with refused(message):
        hparams_for("images", "ERM", hparams_seed=0, trial_seed=0, overrides=overrides)
