"""BatchNorm statistics of averaged weights come from the run's own source training minibatches."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from checkwise.study.baselines import OpenRun
from checkwise.study.baselines.means import with_batchnorm
from checkwise.study.train import build_algorithm
from tests.runs import config, ready


def normed_run(folder: Path) -> OpenRun:
    """A run on digits whose network has live BatchNorm."""
    torch.manual_seed(0)
    run = OpenRun(folder, config(), ready())
    featurizer = nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.BatchNorm1d(6))
    featurizer(ready().inputs.rows(0, ready().dataset.y[0][:4]))
    algorithm = build_algorithm("ERM", featurizer, nn.Linear(6, 10), {"lr": 1e-3})
    run.__dict__["algorithm"] = algorithm
    return run


def statistics(weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return weights["featurizer.2.running_mean"], weights["featurizer.2.running_var"]


def test_statistics_are_means_over_source_training_minibatches(tmp_path: Path) -> None:
    run = normed_run(tmp_path)
    weights = run.algorithm.deployable_state()
    found, layers = run.recalibrated(weights, 6)
    assert layers == 1
    linear = run.algorithm.featurizer[:2]  # type: ignore[index]
    with torch.no_grad():
        drawn = [linear(x) for x in run._batches(6)]
    assert all(len(x) == 2 * 8 for x in drawn)  # two source domains of eight rows together
    mean, variance = statistics(found)
    assert torch.allclose(mean, torch.stack([x.mean(0) for x in drawn]).mean(0), atol=1e-5)
    expected = torch.stack([x.var(0, unbiased=True) for x in drawn]).mean(0)
    assert torch.allclose(variance, expected, rtol=1e-4)


def test_the_draw_is_the_same_every_time_and_leaves_parameters_alone(tmp_path: Path) -> None:
    run = normed_run(tmp_path)
    weights = run.algorithm.deployable_state()
    one, _ = run.recalibrated(weights, 3)
    other, _ = run.recalibrated(one, 3)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(torch.equal(one[name], weights[name]) for name in run.parameters)


def test_without_minibatches_the_buffers_stay(tmp_path: Path) -> None:
    run = normed_run(tmp_path)
    weights = run.algorithm.deployable_state()
    weights["featurizer.2.running_mean"] += 3
    kept = with_batchnorm(run, weights, 0)
    assert kept.weights is not None
    assert torch.equal(statistics(dict(kept.weights))[0], weights["featurizer.2.running_mean"])
    anew = with_batchnorm(run, weights, 5)
    assert anew.weights is not None
    assert not torch.equal(statistics(dict(anew.weights))[0], weights["featurizer.2.running_mean"])
    assert (kept.outputs.logits[0] != anew.outputs.logits[0]).any()
