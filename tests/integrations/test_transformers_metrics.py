"""``reliability_metrics`` on what real models of transformers put out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkwise as cw
from tests.requirements import available

available("transformers", "accelerate")

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    EvalPrediction,
    Trainer,
    ViTConfig,
    ViTForImageClassification,
)

from checkwise.integrations.transformers import ReliabilityCallback, reliability_metrics
from tests.integrations.transformers_runs import arguments, state_in, steps_on_disk

SIZE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {"vocab_size": 20, "intermediate_size": 16, "max_position_embeddings": 12, **SIZE}
N = 23
RNG = np.random.default_rng(0)


def sequences(**changes: Any) -> tuple[Any, list[dict[str, Any]]]:
    model = BertForSequenceClassification(BertConfig(num_labels=3, **TEXT, **changes))
    words = RNG.integers(0, 20, (N, 8))
    return model, [{"input_ids": row, "labels": int(row[0]) % 3} for row in words]


def images() -> tuple[Any, list[dict[str, Any]]]:
    shape = {"image_size": 8, "patch_size": 4, "num_channels": 1, "intermediate_size": 16}
    model = ViTForImageClassification(ViTConfig(num_labels=4, **shape, **SIZE))
    pixels = RNG.normal(size=(N, 1, 8, 8)).astype(np.float32)
    return model, [{"pixel_values": p, "labels": int(p.sum() > 0) + 2} for p in pixels]


def tokens() -> tuple[Any, list[dict[str, Any]]]:
    """Sequences of different lengths, padded by batch, in which some tokens are ignored."""
    model = BertForTokenClassification(BertConfig(num_labels=3, **TEXT))
    rows = []
    for _ in range(N):
        words = RNG.integers(0, 20, int(RNG.integers(2, 11)))
        labels = np.where(words % 5 == 0, -100, words % 3)
        labels[0] = words[0] % 3
        rows.append({"input_ids": words, "labels": labels})
    return model, rows


def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Pads what has different lengths; ignored labels are −100."""
    longest = max(np.size(row["labels"]) for row in rows)
    batch = {}
    for name in rows[0]:
        values = [np.asarray(row[name]) for row in rows]
        if longest > 1:
            empty = -100 if name == "labels" else 0
            values = [np.pad(v, (0, longest - len(v)), constant_values=empty) for v in values]
        batch[name] = torch.as_tensor(np.stack(values))
    return batch


def predicted(model: Any, rows: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Logits and labels of every label that counts, one example at a time."""
    model.eval()
    logits, labels = [], []
    for row in rows:
        with torch.no_grad():
            (out,) = model(**collate([row]), return_dict=True).logits
        truth = np.atleast_1d(row["labels"])
        logits.append(out.reshape(-1, out.shape[-1]).numpy()[truth != -100])
        labels.append(truth[truth != -100])
    return np.concatenate(logits), np.concatenate(labels)


@pytest.mark.parametrize(
    ("build", "streamed"),
    [(images, False), (tokens, True), (lambda: sequences(output_hidden_states=True), False)],
    ids=["images", "tokens", "sequences with hidden states"],
)
def test_the_metrics_of_a_real_model(tmp_path: Path, build: Any, streamed: bool) -> None:
    torch.manual_seed(0)
    model, rows = build()
    callback = ReliabilityCallback(delta_pp=20)
    changes: dict[str, Any] = {"optim": "adamw_torch", "learning_rate": 1e-2}
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, steps=6, batch_eval_metrics=streamed, **changes),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=collate,
        compute_metrics=callback.compute_metrics,
        callbacks=[callback],
    )
    trainer.train()

    logits, labels = predicted(trainer.model, rows)
    expected = cw.metrics.evaluate(logits=logits, labels=labels)
    recorded = callback.live.trajectory
    row = recorded.steps.tolist().index(callback.choice)
    assert recorded.counts is not None
    assert recorded.counts.tolist() == [len(labels)]
    assert recorded.values["nll"][row, 0] == pytest.approx(expected.nll, rel=1e-3)
    assert recorded.values["accuracy"][row, 0] == pytest.approx(expected.accuracy)
    state = state_in(tmp_path / f"checkpoint-{max(steps_on_disk(tmp_path))}")
    assert state["best_model_checkpoint"] == str(tmp_path / f"checkpoint-{callback.choice}")


def test_metrics_alone(tmp_path: Path) -> None:
    """Without the callback, ``metric_for_best_model`` may be any of them."""
    torch.manual_seed(0)
    model, rows = sequences()
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, steps=4, metric_for_best_model="nll", greater_is_better=False),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=collate,
        compute_metrics=reliability_metrics(lambda prediction: {"mine": 1.0}),
    )
    trainer.train()
    values = trainer.evaluate()
    assert values["eval_mine"] == 1.0
    logits, labels = predicted(trainer.model, rows)
    assert values["eval_cwece"] == pytest.approx(
        cw.metrics.evaluate(logits=logits, labels=labels).cwece, rel=1e-3
    )
    assert trainer.predict(rows).metrics["test_n"] == N


def test_batches_give_what_everything_at_once_gives() -> None:
    logits, labels = RNG.normal(size=(50, 4)).astype(np.float32), RNG.integers(0, 4, 50)
    labels[::7] = -100
    whole = reliability_metrics()(EvalPrediction(logits, labels))
    stream = reliability_metrics(lambda prediction, compute_result: {"last": compute_result})
    for start in range(0, 50, 8):
        part = EvalPrediction(
            torch.as_tensor(logits[start : start + 8]), torch.as_tensor(labels[start : start + 8])
        )
        values = stream(part, compute_result=start + 8 >= 50)
    assert values.pop("last") is True
    assert values == pytest.approx(whole, rel=1e-9)
    counted = labels != -100
    expected = cw.metrics.evaluate(logits=logits[counted], labels=labels[counted])
    assert whole == {**expected.values(), "n": counted.sum()}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", ["own function", "label", "interrupt"])
def test_examples_of_a_failed_evaluation_are_not_counted_in_the_next(
    fault: str, streamed: bool
) -> None:
    errors: dict[str, Any] = {"own function": [RuntimeError], "interrupt": [KeyboardInterrupt]}
    faults = iter(errors.get(fault, []))

    def own(prediction: EvalPrediction, **keywords: Any) -> dict[str, float]:
        if error := next(faults, None):
            raise error
        return {}

    logits, labels = RNG.normal(size=(10, 3)), RNG.integers(0, 3, 10)
    wrong = np.where(np.arange(10) == 9, 7, labels) if fault == "label" else labels
    metrics = reliability_metrics(own)
    keywords: dict[str, Any] = {"compute_result": True} if streamed else {}
    with pytest.raises((RuntimeError, cw.InputError, KeyboardInterrupt)):
        metrics(EvalPrediction(logits, wrong), **keywords)
    assert metrics(EvalPrediction(logits, labels), **keywords)["n"] == 10


def test_everything_at_once_begins_without_batches_of_an_interrupted_evaluation() -> None:
    whole = EvalPrediction(RNG.normal(size=(10, 3)), RNG.integers(0, 3, 10))
    metrics = reliability_metrics()
    assert metrics(whole, compute_result=False) == {}
    assert metrics(whole)["n"] == 10


def test_bfloat16_and_tuples_are_read() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.bfloat16)
    values = reliability_metrics()(EvalPrediction((logits, torch.zeros(3)), torch.tensor([0, 0])))
    assert (values["accuracy"], values["n"]) == (0.5, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_give_no_numbers(bad: float) -> None:
    metrics = reliability_metrics()
    values = metrics(EvalPrediction(np.array([[bad, 0.0]]), np.array([0])))
    assert np.isnan(values["nll"])
    assert metrics(EvalPrediction(np.array([[2.0, 0.0]]), np.array([0])))["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("logits", "labels", "words"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3)), r"\[2, 3\] with \[2, 3\]"),  # several labels each
        (np.zeros((2, 3, 4, 4)), np.zeros((2, 4, 4)), "outputs="),  # segmentation
        (np.zeros((2, 1)), np.zeros(2, int), r"C of at least 2, but got \[2, 1\]"),  # regression
        (np.zeros((2, 3)), (np.zeros(2), np.zeros(2)), "the model has 2"),  # questions
        (np.zeros((2, 3)), np.full(2, -100), "at least one label"),
    ],
)
def test_what_is_no_classification_is_refused(logits: Any, labels: Any, words: str) -> None:
    with pytest.raises(cw.InputError, match=words):
        reliability_metrics()(EvalPrediction(logits, labels))


def test_a_function_says_what_to_measure() -> None:
    def outputs(prediction: EvalPrediction) -> tuple[Any, Any]:
        logits: Any = np.moveaxis(prediction.predictions, 1, -1)
        labels: Any = prediction.label_ids
        return logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)

    logits, labels = RNG.normal(size=(2, 3, 4, 4)), RNG.integers(0, 3, (2, 4, 4))
    values = reliability_metrics(outputs=outputs)(EvalPrediction(logits, labels))
    assert values["n"] == 32
