"""What people come with: each function makes one input in a folder and returns its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import checkwise as cw
from tests.readers.samples import domainbed
from tests.weights.deployments import network, train

ACCURACIES = (0.70, 0.893, 0.90, 0.897, 0.899, 0.88)
NLL = (0.9, 0.41, 0.35, 0.34, 0.37, 0.36)
SETS = ("photo", "art")
# The user's own function for `checkwise predict`: it needs no framework.
OUTPUTS = """
import numpy as np

def outputs(path, domain):
    rng = np.random.default_rng(len(str(path)))
    labels = np.arange(120) % 3
    logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(120, 3))
    return logits, labels
"""


def keras_log(folder: Path) -> Path:
    """A log alone."""
    rows = ["epoch,accuracy,loss,val_accuracy,val_loss"]
    rows += [
        f"{epoch},0.99,0.1,{accuracy},{nll}"
        for epoch, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True))
    ]
    (folder / "training.log").write_text("\n".join(rows) + "\n")
    return folder / "training.log"


def accuracy_table(folder: Path) -> Path:
    """Accuracies and nothing else."""
    rows = ["step,domain,accuracy,n"]
    rows += [
        f"{100 * k},{name},{accuracy},1000"
        for k, accuracy in enumerate(ACCURACIES)
        for name in SETS
    ]
    (folder / "run.csv").write_text("\n".join(rows) + "\n")
    return folder / "run.csv"


def full_table(folder: Path) -> Path:
    """A table with every metric, and a target that is held out."""
    rows = ["step,domain,accuracy,nll,ece,cwece,n"]
    rows += [
        f"{100 * k},{name},{a},{b},0.02,{0.01 + k / 1000},1000"
        for k, (a, b) in enumerate(zip(ACCURACIES, NLL, strict=True))
        for name in (*SETS, "sketch")
    ]
    (folder / "all metrics.csv").write_text("\n".join(rows) + "\n")
    return folder / "all metrics.csv"


def loss_log(folder: Path) -> Path:
    """A loss and no accuracy, as of a language model."""
    lines = [json.dumps({"step": 10 * k, "val_loss": nll}) for k, nll in enumerate(NLL, 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "metrics.jsonl"


def domainbed_log(folder: Path) -> Path:
    """DomainBed's own log, one target."""
    records = [json.dumps(domainbed(step)) for step in (0, 100, 200, 300)]
    (folder / "results.jsonl").write_text("\n".join(records) + "\n")
    return folder / "results.jsonl"


def transformers_folder(folder: Path) -> Path:
    """A Trainer's folder with checkpoints."""
    import torch
    from safetensors.torch import save_file

    history: list[dict[str, Any]] = []
    for k, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True), 1):
        place = folder / "out" / f"checkpoint-{k}"
        place.mkdir(parents=True)
        save_file({"classifier.weight": torch.full((3, 2), float(k))}, place / "model.safetensors")
        (place / "config.json").write_text('{"model_type": "bert", "num_labels": 3}')
        history.append({"step": k, "epoch": k, "eval_loss": nll, "eval_accuracy": accuracy})
        state = {"log_history": history, "global_step": k, "epoch": k}
        (place / "trainer_state.json").write_text(json.dumps(state))
    return folder / "out"


def lightning_folder(folder: Path) -> Path:
    """CSVLogger's metrics beside the checkpoints of a ModelCheckpoint."""
    import torch

    root = folder / "lightning_logs" / "version_0"
    (root / "checkpoints").mkdir(parents=True)
    rows = ["epoch,step,val_acc,val_loss"]
    for epoch, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True)):
        step = 10 * (epoch + 1)
        rows.append(f"{epoch},{step},{accuracy},{nll}")
        state = {"state_dict": network().state_dict(), "epoch": epoch, "global_step": step}
        torch.save(state, root / "checkpoints" / f"epoch={epoch}-step={step}.ckpt")
    (root / "metrics.csv").write_text("\n".join(rows) + "\n")
    return root


def predictions_with_weights(folder: Path) -> Path:
    """Two validation sets with logits, and the weights beside them."""
    return train(folder)


def predictions_one_set(folder: Path) -> Path:
    """One validation set, no weights."""
    return _predictions(folder, ("validation",), errors=40)


def predictions_several_sets(folder: Path) -> Path:
    """Several validation sets, no weights."""
    return _predictions(folder, ("photo", "art", "cartoon"), errors=30)


def saved_probabilities(folder: Path) -> Path:
    """Probabilities in place of logits."""
    return _predictions(folder, ("validation",), errors=40, probs=True)


def saturated(folder: Path) -> Path:
    """Two errors in 258, with weights beside the outputs."""
    import torch

    path = _predictions(folder, ("validation",), errors=2, n=258)
    for place in path.iterdir():
        torch.save(network().state_dict(), place / "model.pt")
    return path


def live_journal(folder: Path) -> Path:
    """A training that chose live and kept the members of an average."""
    import torch

    from checkwise.selection import KeepFeasible, KeepMembers

    root = folder / "live run"
    with cw.LiveSelector(journal=root / "checkwise.jsonl") as live:
        for k, (accuracy, nll) in enumerate(zip(ACCURACIES, NLL, strict=True), 1):
            entry = {"accuracy": accuracy, "nll": nll, "cwece": 0.01, "n": 1000}
            live.add(k, {"validation": entry})
            torch.save(network().state_dict(), root / f"step-{k}.pt")
            live.saved(k, root / f"step-{k}.pt")
            live.prune(KeepFeasible() | KeepMembers())
    return root


def several_runs(folder: Path) -> Path:
    """Two predictions folders in one folder."""
    for name in ("first", "second"):
        _predictions(folder / "runs" / name, ("validation",), errors=40)
    return folder / "runs"


def log_of_two(folder: Path) -> Path:
    """Two runs in one table."""
    rows = ["trial_seed,step,accuracy,nll,cwece,n"]
    rows += [
        f"{seed},{100 * k},{a},{b},0.01,1000"
        for seed in (1, 2)
        for k, (a, b) in enumerate(zip(ACCURACIES, NLL, strict=True))
    ]
    (folder / "two.csv").write_text("\n".join(rows) + "\n")
    return folder / "two.csv"


def _predictions(
    folder: Path, sets: tuple[str, ...], *, errors: int, n: int = 400, probs: bool = False
) -> Path:
    rng = np.random.default_rng(0)
    for k in range(1, 6):
        place = folder / "predictions" / f"step-{100 * k:06d}"
        place.mkdir(parents=True)
        for name in sets:
            labels = np.arange(n) % 4
            shown = labels.copy()
            shown[:errors] = (shown[:errors] + 1) % 4
            logits = (3 + k) * np.eye(4)[shown] + rng.normal(0, 0.3, (n, 4))
            outputs = {"logits": logits}
            if probs:
                e = np.exp(logits)
                outputs = {"probs": e / e.sum(axis=1, keepdims=True)}
            arrays: dict[str, Any] = {"labels": labels, **outputs}
            np.savez(place / f"{name}.npz", **arrays)
    return folder / "predictions"


INPUTS: dict[str, Callable[[Path], Path]] = {
    made.__name__: made
    for made in (
        keras_log,
        accuracy_table,
        full_table,
        loss_log,
        domainbed_log,
        transformers_folder,
        lightning_folder,
        predictions_with_weights,
        predictions_one_set,
        predictions_several_sets,
        saved_probabilities,
        saturated,
        live_journal,
        several_runs,
        log_of_two,
    )
}
