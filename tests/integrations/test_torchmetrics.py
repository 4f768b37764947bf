"""Our metrics inside torchmetrics: equal to ``evaluate``, in constant memory, across processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.requirements import available

available("torchmetrics")

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassCalibrationError

from checkwise.integrations.torchmetrics import ECE, NLL, CwECE, HardECE
from tests.integrations import torchmetrics_ranks
from tests.integrations.torchmetrics_ranks import CLASSES, predictions
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", CLASSES)
def test_equal_to_evaluate(name: str) -> None:
    logits, labels = predictions()
    metric = CLASSES[name](num_classes=5)
    for start in range(0, len(labels), 17):
        metric.update(logits[start : start + 17], labels[start : start + 17])
    expected = cw.metrics.evaluate(logits=logits, labels=labels).values()[name]
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    metric.reset()
    metric.update(logits[:9], labels[:9])
    again = cw.metrics.evaluate(logits=logits[:9], labels=labels[:9]).values()[name]
    assert metric.compute().item() == again


@pytest.mark.parametrize("name", CLASSES)
def test_a_call_gives_the_batch_and_adds_it(name: str) -> None:
    """As with ``self.log``: the value of a step, and later that of the epoch."""
    logits, labels = predictions()
    metric = CLASSES[name](num_classes=5, kind="probs")
    probs = torch.softmax(logits.double(), 1)
    for part in (slice(0, 100), slice(100, 203)):
        expected = cw.metrics.evaluate(probs=probs[part], labels=labels[part]).values()[name]
        assert metric(probs[part], labels[part]).item() == pytest.approx(expected, rel=1e-12)
    whole = cw.metrics.evaluate(probs=probs, labels=labels).values()[name]
    assert metric.compute().item() == pytest.approx(whole, rel=1e-12)


def test_torchmetrics_agrees_where_no_confidence_is_1() -> None:
    logits, labels = predictions(2000)
    ours = HardECE(num_classes=5)
    ours.update(logits, labels)
    theirs = MulticlassCalibrationError(num_classes=5, n_bins=15, norm="l1")
    theirs.update(torch.softmax(logits, 1), labels)
    assert ours.compute().item() == pytest.approx(theirs.compute().item(), abs=1e-6)


def test_right_at_confidence_1() -> None:
    """Three sure and right, one at 0.99 and wrong: all are in the last bin."""
    probs = torch.tensor([[1.0, 0.0]] * 3 + [[0.99, 0.01]])
    metric = HardECE(num_classes=2, kind="probs")
    metric.update(probs, torch.tensor([0, 0, 0, 1]))
    assert metric.compute().item() == pytest.approx(abs(3 / 4 - 3.99 / 4), abs=1e-6)


def test_tokens_and_ignored_labels() -> None:
    logits, labels = predictions(60)
    tokens, truth = logits.reshape(6, 10, 5), labels.reshape(6, 10).clone()
    truth[:, 7:] = -100
    metric = NLL(num_classes=5, ignore_index=-100)
    metric.update(tokens, truth)
    counted = truth.reshape(-1) != -100
    expected = cw.metrics.evaluate(logits=logits[counted], labels=labels[counted])
    assert metric.compute().item() == expected.nll
    assert metric.report() == expected


def test_memory_does_not_grow() -> None:
    metric = CwECE(num_classes=5)
    sizes = []
    for seed in range(3):
        metric.update(*predictions(seed=seed))
        sizes.append([np.size(value) for value in metric.metric_state.values()])
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_collection_shares_its_sums() -> None:
    logits, labels = predictions()
    together = MetricCollection({name: kind(num_classes=5) for name, kind in CLASSES.items()})
    for part in (slice(0, 100), slice(100, 203)):
        together.update(logits[part], labels[part])
    values = {name: value.item() for name, value in together.compute().items()}
    assert len(together.compute_groups) == 1
    expected = cw.metrics.evaluate(logits=logits, labels=labels).values()
    assert values == pytest.approx({name: expected[name] for name in CLASSES}, rel=1e-12)


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    """203 examples: one process has more than the other."""
    done = subprocess.run(
        [sys.executable, "-m", torchmetrics_ranks.__name__, tmp_path],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"{rank}").read_text()) for rank in (0, 1))
    assert first == second
    logits, labels = predictions()
    expected = cw.metrics.evaluate(logits=logits, labels=labels).values()
    assert first == pytest.approx({name: expected[name] for name in CLASSES}, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CLASSES["ece"](num_classes=2, kind="scores"), "value: 'logits' … 'probs'"),
        (lambda: ECE(num_classes=1), "value: 2"),
        (lambda: ECE(num_classes=2).update(torch.zeros(3, 2), torch.zeros(2)), "value: [3, 2]"),
        (lambda: ECE(num_classes=2).report(), "empty"),
    ],
)
def test_refusals(make: Any, words: str) -> None:
    with refused(words):
        make()


def test_the_number_of_classes_is_asked_for_by_the_name_of_the_metric() -> None:
    with refused("missing: NLL(num_classes=C"):
        NLL()
    with refused("value: 3 … CwECE(num_classes=5"):
        CwECE(num_classes=3).update(*predictions())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_stay_in_double_precision(dtype: torch.dtype) -> None:
    """As in a module that Lightning trains with ``precision="16-true"``."""
    logits, labels = predictions()
    holder = torch.nn.ModuleDict({"nll": NLL(num_classes=5)}).to(dtype)
    metric: Any = holder["nll"]
    for _ in range(2):
        metric.update(logits, labels)
        holder.to(dtype)
        expected = cw.metrics.evaluate(logits=logits, labels=labels).nll
        assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
        metric.reset()
