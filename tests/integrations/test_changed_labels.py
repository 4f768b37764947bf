"""A training that is resumed with other labels is refused, though there are equally many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from checkwise.metrics import Accumulator
from tests.requirements import available

pytestmark = pytest.mark.filterwarnings("default")  # frameworks warn about each other

OTHERS = "The labels of domain '.*' at step .* differ from those at step .*, also after a resume"


def report(logits: Any, labels: Any, *, examples: bool = False) -> Any:
    sums = Accumulator(classes=3, examples=examples)
    sums.update(logits=logits, labels=labels)
    return sums.result()


@pytest.mark.parametrize("examples", [False, True], ids=["counts", "order"])
def test_a_journal_knows_the_labels_of_its_reports(tmp_path: Path, examples: bool) -> None:
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(size=(30, 3)), draw.integers(0, 3, 30)
    journal = tmp_path / "run.jsonl"
    with cw.LiveSelector(journal=journal) as live:
        live.add(1, {"val": report(logits, labels, examples=examples)})
    with cw.LiveSelector(journal=journal) as live:
        live.add(2, {"val": report(2 * logits, labels, examples=examples)})
        with pytest.raises(cw.InputError, match=OTHERS):
            live.add(3, {"val": report(logits, (labels + 1) % 3, examples=examples)})
        again = report(logits, labels[::-1], examples=examples)
        if examples:
            with pytest.raises(cw.InputError, match=OTHERS):
                live.add(3, {"val": again})
        else:  # a loader that shuffles
            live.add(3, {"val": again})
    assert live.steps == ((1, 2) if examples else (1, 2, 3))


def test_a_journal_without_digests_is_read_and_goes_on(tmp_path: Path) -> None:
    """As they were written before labels were kept."""
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(size=(30, 3)), draw.integers(0, 3, 30)
    journal = tmp_path / "run.jsonl"
    with cw.LiveSelector(journal=journal) as live:
        live.add(1, {"val": report(logits, labels)})
    header, line = journal.read_text().splitlines()
    record = json.loads(line)
    del record["domains"]["val"]["label_counts"]
    journal.write_text(f"{header}\n{json.dumps(record, separators=(',', ':'))}\n")
    with cw.LiveSelector(journal=journal) as live:
        assert live.choice == 1
        live.add(2, {"val": report(2 * logits, labels)})
        with pytest.raises(cw.InputError, match=OTHERS):
            live.add(3, {"val": report(logits, (labels + 1) % 3)})


@pytest.mark.parametrize("change", [lambda y: (y + 1) % 3, lambda y: y[::-1]], ids=["set", "order"])
def test_keras(tmp_path: Path, change: Any) -> None:
    available("keras")
    from checkwise.integrations.keras import ReliabilityCheckpoint
    from tests.integrations.keras_models import fit, network, validation_sets

    sets = validation_sets("a", "b")
    options: Any = {"dirpath": tmp_path, "kind": "logits", "resume": True}
    fit(network(), ReliabilityCheckpoint(sets, **options), epochs=1)
    fit(network(), ReliabilityCheckpoint(sets, **options), epochs=2)
    changed = {**sets, "b": (sets["b"][0], change(sets["b"][1]))}
    with pytest.raises(cw.InputError, match=OTHERS):
        fit(network(), ReliabilityCheckpoint(changed, **options), epochs=3)
    assert cw.load(tmp_path).steps.tolist() == [4, 8]


@pytest.mark.parametrize("shuffle", [False, True])
def test_lightning(tmp_path: Path, shuffle: bool) -> None:
    available("lightning")
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from checkwise.integrations.lightning import ReliabilityCheckpoint
    from tests.integrations.lightning_models import Classifier, examples, trainer, training_set

    x, y = examples(21, 1).tensors

    def fit(labels: Any, epochs: int) -> None:
        torch.manual_seed(0)
        callback = ReliabilityCheckpoint("ac-nc", domains=["a"], dirpath=tmp_path / "c")
        loader = DataLoader(TensorDataset(x, labels), batch_size=8, shuffle=shuffle)
        running = trainer(tmp_path, callback, max_epochs=epochs)
        running.fit(Classifier(), training_set(), loader, ckpt_path="last")

    fit(y, 1)
    fit(y, 3)  # in any order of its own
    with pytest.raises(cw.InputError, match=OTHERS):
        fit((y + 1) % 3, 4)
    if not shuffle:
        with pytest.raises(cw.InputError, match=OTHERS):
            fit(y.flip(0), 4)


def test_transformers(tmp_path: Path) -> None:
    available("transformers", "accelerate")
    from checkwise.integrations.transformers import ReliabilityCallback
    from tests.integrations.transformers_runs import arguments, script, scripted_trainer

    table, labels = script([0.1, 0.5, 0.8, 0.78, 0.75, 0.7])

    def train(labels: Any, steps: int, *, resume: bool) -> None:
        args = arguments(tmp_path, steps=steps)
        made = scripted_trainer(args, table, labels, ReliabilityCallback("ac-nc"))
        made.train(resume_from_checkpoint=resume)

    train(labels, 4, resume=False)
    with pytest.raises(cw.InputError, match=OTHERS):
        train(labels[::-1], 8, resume=True)
    train(labels, 8, resume=True)
