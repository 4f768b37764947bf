"""Averages kept during training: equal to literal means, and resumed bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

import checkwise as cw
from checkwise.errors import InputError
from checkwise.store import read_run
from checkwise.study.sweep import Study, read_study
from checkwise.study.train import Algorithm, averages
from checkwise.study.train.averages import Averages
from tests.runs import config, contents, train
from tests.sweep.studies import write_tiny

BOTH = ("sma", "dense-swad")


class EveryUpdate:
    """Keeps the weights of every update: what the averages are averages of."""

    name = "every update"

    def __init__(self) -> None:
        self.weights: list[dict[str, Tensor]] = []

    def after_update(self, step: int, algorithm: Algorithm) -> None:
        self.weights.append(algorithm.deployable_state())

    def at_record(self, record: Any, algorithm: Algorithm, folder: Path) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Any) -> None:
        pass


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moving average begins in the middle of a segment, and blocks are short."""
    monkeypatch.setattr(averages, "AVERAGED_AT_ONCE", 4)
    begin = Averages.__init__

    def earlier(self: Averages, wanted: Any, *, last_step: int) -> None:
        begin(self, wanted, last_step=last_step, sma_start=4)

    monkeypatch.setattr(Averages, "__init__", earlier)


@pytest.mark.usefixtures("early")
def test_averages_are_literal_means(tmp_path: Path) -> None:
    watcher = EveryUpdate()
    asked = config("GroupDRO", averages=BOTH, steps=31)
    train(tmp_path / "run", asked, hooks=[watcher])
    folder = tmp_path / "run" / "averages"
    sma = load_file(folder / "sma.safetensors")
    assert set(sma) == set(watcher.weights[0])  # no `q`, nothing of the optimiser
    for name, found in sma.items():
        expected = torch.stack([w[name].double() for w in watcher.weights[4:]]).mean(0)
        assert torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-9)

    run = read_run(tmp_path / "run").trajectory()
    chosen = cw.loss_valley(run.values["nll"].mean(axis=1).tolist()).indices
    ends = [int(step) + 1 for step in run.steps]
    starts = [0, *ends[:-1]]
    path = folder / "dense-swad.safetensors"
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["average"])["segments"] == list(chosen)
    for name, found in load_file(path).items():
        segments = [
            torch.stack([w[name].double() for w in watcher.weights[a:b]]).mean(0)
            for a, b in zip(starts, ends, strict=True)
        ]
        expected = torch.stack([segments[index] for index in chosen]).mean(0)
        assert torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("stops", [(2,), (5, 6), (9, 17, 25)])
def test_a_stopped_run_ends_with_the_same_bytes(tmp_path: Path, stops: tuple[int, ...]) -> None:
    asked = config(averages=BOTH, steps=31)
    train(tmp_path / "whole", asked)
    done = 0
    for stop in (*stops, 31):
        counted = iter(range(100))
        left = stop - done
        outcome = train(tmp_path / "parts", asked, stop=lambda n=left, c=counted: next(c) + 1 >= n)
        done = stop
        if outcome == "finished":
            break
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert "averages/sma.safetensors" in contents(tmp_path / "whole")


@pytest.mark.usefixtures("early")
def test_keeping_averages_changes_nothing_else(tmp_path: Path) -> None:
    train(tmp_path / "with", config(averages=BOTH))
    train(tmp_path / "without", config())
    with_, without = contents(tmp_path / "with"), contents(tmp_path / "without")
    same = set(without) - {"run.json", "done"}
    assert {name: with_[name] for name in same} == {name: without[name] for name in same}


def test_runs_can_share_their_first_weights_and_nothing_else(tmp_path: Path) -> None:
    for seed in (1, 2):
        train(tmp_path / f"shared-{seed}", config(init_seed=5, training_seed=seed, steps=1))
        train(tmp_path / f"own-{seed}", config(training_seed=seed, steps=1))

    def first(name: str) -> dict[str, Tensor]:
        return load_file(tmp_path / name / "checkpoints" / "step-000000.safetensors")

    def apart(one: str, other: str) -> float:
        a, b = first(one), first(other)
        return max(float((a[name] - b[name]).abs().max()) for name in a)

    lr = 3e-3  # Adam's first step moves a weight by at most this
    assert 0 < apart("shared-1", "shared-2") <= 2.01 * lr
    assert apart("own-1", "own-2") > 10 * lr


def test_a_configuration_without_averages_reads_as_before() -> None:
    assert not {"averages", "init_seed"} & set(config().as_dict())
    assert config(averages=BOTH, init_seed=3).as_dict()["averages"] == list(BOTH)


def parsed(tmp_path: Path, training: str) -> Study:
    return read_study(write_tiny(tmp_path, ("steps = 5", training)))


def test_a_study_asks_for_averages_and_a_shared_start(tmp_path: Path) -> None:
    plain = parsed(tmp_path, "steps = 101")
    assert plain.averages == ()
    assert not {"averages", "shared_init"} & set(plain.as_dict())
    asked = parsed(tmp_path, 'steps = 101\naverages = ["sma"]\nshared_init = true')
    assert asked.averages == ("sma",)
    assert Study.from_dict(json.loads(json.dumps(asked.as_dict()))) == asked
    assert Study.from_dict(json.loads(json.dumps(plain.as_dict()))) == plain


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ('steps = 101\naverages = ["swa"]', "'sma'"),
        ('steps = 100\naverages = ["sma"]', "more than 100 updates"),
        ("steps = 101\nshared_init = 1", "true or false"),
    ],
)
def test_averages_that_cannot_be_kept_are_refused(
    tmp_path: Path, training: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        parsed(tmp_path, training)
