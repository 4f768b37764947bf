"""A loop of one's own gives the network and its loaders, and gets what the outputs would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import checkwise as cw
from checkwise import calibrators
from checkwise.deployed import Calibrated
from tests.refusals import refused


def network(units: int) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, units))


def loader(n: int, seed: int, *, classes: int = 3) -> Any:
    draw = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 6, generator=draw), torch.randint(0, classes, (n,), generator=draw)
    return DataLoader(TensorDataset(x, y), batch_size=16)


def test_it_is_what_the_outputs_give(tmp_path: Path) -> None:
    sets: dict[str, Any] = {"a": loader(40, 1), "b": loader(33, 2)}
    by_network = cw.LiveSelector(journal=tmp_path / "n" / "live.jsonl", predictions=True)
    by_outputs = cw.LiveSelector(journal=tmp_path / "o" / "live.jsonl", predictions=True)
    for step in (1, 2, 3):
        model = network(3)
        nn.init.normal_(model[3].weight, std=step)
        model[1].eval()  # a part that somebody froze stays so
        given: dict[str, Any] = {**sets, "test": None}  # never read
        by_network.evaluate(step, model, given)
        assert [m.training for m in model.modules()] == [True, True, False, True, True]
        with torch.no_grad():
            model.eval()
            outputs = {
                name: (model(batches.dataset.tensors[0]), batches.dataset.tensors[1])
                for name, batches in sets.items()
            }
        by_outputs.add(step, outputs)
    one, other = by_network.selection, by_outputs.selection
    assert one is not None
    assert other is not None
    assert (one.step, one.feasible_steps) == (other.step, other.feasible_steps)
    assert one.score == pytest.approx(other.score, rel=1e-5)
    for folder in ("n", "o"):
        assert cw.load(tmp_path / folder / "live-predictions").domains == ("a", "b")


def test_one_unit_is_class_1() -> None:
    batches, model = loader(40, 1, classes=2), network(1)
    live = cw.LiveSelector()
    live.evaluate(1, model, {"validation": batches})
    with torch.no_grad():
        z = model.eval()(batches.dataset.tensors[0])
    report = cw.metrics.evaluate(
        logits=torch.cat([torch.zeros_like(z), z], 1), labels=batches.dataset.tensors[1]
    )
    assert live.trajectory.values["nll"][0, 0] == pytest.approx(report.nll, rel=1e-6)
    fitted = calibrators.fit({"validation": (z, batches.dataset.tensors[1])}, "ts", force=True)
    deployed = Calibrated([model, model], fitted)  # an ensemble averages both classes
    p = deployed.probabilities(batches.dataset.tensors[0])
    np.testing.assert_allclose(p.detach(), fitted.probabilities(z), atol=1e-6)


def test_an_error_leaves_the_network_in_training_and_nothing_recorded() -> None:
    live, model = cw.LiveSelector(), network(3)
    with pytest.raises(RuntimeError):
        live.evaluate(1, model, {"validation": [(torch.zeros(4, 5), torch.zeros(4))]})
    assert model.training
    assert live.steps == ()


def test_a_loader_without_a_name_is_refused() -> None:
    with refused("format: DataLoader"):
        cw.LiveSelector().evaluate(1, network(3), loader(8, 0))
