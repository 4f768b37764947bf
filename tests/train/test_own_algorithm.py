"""Algorithms of one's own: what registering asks for, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor, nn

import checkwise as cw
from checkwise.study.train import HPARAM_TABLE, known_names
from checkwise.study.train.algorithms import Forward, unregister
from tests.refusals import refused

ROW = cw.study.train.Hyperparameter(
    "mine_weight", 2.0, lambda random: random.uniform(0, 1), high=10
)


class Mine(cw.study.train.Algorithm):
    def objective(self, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
        loss = self.hparams["mine_weight"] * forward.logits.square().mean()
        return loss, {"loss": loss}


@pytest.fixture
def registered() -> Iterator[None]:
    cw.study.train.algorithm("Mine", hparams=[ROW])(Mine)
    yield
    unregister("Mine")


@pytest.mark.usefixtures("registered")
def test_it_is_built_with_its_hyperparameters() -> None:
    assert "Mine" in cw.study.train.algorithm_names()
    networks = nn.Linear(3, 2), nn.Linear(2, 2)
    assert (
        cw.study.train.build_algorithm("Mine", *networks, {"lr": 0.1}).hparams["mine_weight"] == 2.0
    )
    given = {"lr": 0.1, "mine_weight": 3}
    assert cw.study.train.build_algorithm("Mine", *networks, given).hparams["mine_weight"] == 3.0
    with refused("value: `mine_weight` … [0 … 10"):
        cw.study.train.build_algorithm("Mine", *networks, {"lr": 0.1, "mine_weight": 10})


@pytest.mark.usefixtures("registered")
def test_seeds_draw_its_hyperparameters_and_nobody_else_reads_them() -> None:
    drawn = [
        cw.study.train.draw_hparams("features", "Mine", hparams_seed=seed, trial_seed=0)[
            "mine_weight"
        ]
        for seed in (0, 1, 1, 2)
    ]
    assert drawn[0] == 2.0
    assert drawn[1] == drawn[2] != drawn[3]
    assert "mine_weight" not in cw.study.train.default_hparams("features", "ERM")


def test_a_forgotten_algorithm_leaves_nothing() -> None:
    before = [*HPARAM_TABLE]
    cw.study.train.algorithm("Mine", hparams=[ROW])(Mine)
    unregister("Mine")
    assert "Mine" not in cw.study.train.algorithm_names()
    assert before == HPARAM_TABLE
    assert "mine_weight" not in known_names()


@pytest.mark.parametrize(
    ("name", "kind", "hparams", "message"),
    [
        ("ERM", Mine, [], "exists: 'ERM'"),
        ("my algorithm", Mine, [], "value"),
        ("../Mine", Mine, [], "value"),
        ("Other", Mine, [cw.study.train.Hyperparameter("lr", 1.0, lambda r: 1.0)], "exists: 'lr'"),
        (
            "Other",
            Mine,
            [cw.study.train.Hyperparameter("x", 5.0, lambda r: 1.0, high=1)],
            "value: [0 … 1",
        ),
    ],
)
def test_what_cannot_be_registered_is_refused(
    name: str, kind: Any, hparams: list[Any], message: str
) -> None:
    with refused(message):
        cw.study.train.algorithm(name, hparams=hparams)(kind)
    assert "Other" not in cw.study.train.algorithm_names()
