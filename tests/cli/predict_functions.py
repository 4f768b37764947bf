"""A small training, and the functions with which ``checkwise predict`` evaluates it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits

# A user's file. It imports a neighbour, as most do.
EVALUATE = """\
from pathlib import Path

import torch
from safetensors.torch import load_file

import model


def outputs(path, domain):
    images, labels = model.validation(domain)
    network = model.network()
    network.load_state_dict(load_file(path) if path.endswith(".safetensors") else torch.load(path))
    with torch.no_grad():
        return network(images), labels


def outputs_as_dict(path, domain):
    logits, labels = outputs(path, domain)
    return {"probs": logits.double().softmax(1).numpy(), "labels": labels.tolist()}


def outputs_in_bfloat16(path, domain):
    logits, labels = outputs(path, domain)
    return logits.bfloat16(), labels.to(torch.int32)
"""
MODEL = """\
from pathlib import Path

import torch


def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def validation(domain):
    return torch.load(Path(__file__).with_name("sets.pt"))[domain]
"""
STEPS = (5, 10, 20, 40, 80)
DOMAINS = ("dim", "plain")


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def validation(domain: str) -> tuple[torch.Tensor, torch.Tensor]:
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    first = {"plain": 0, "dim": 1}[domain]
    return images[first::4] * (0.6 if domain == "dim" else 1), torch.tensor(digits.target[first::4])


def train(folder: Path) -> dict[int, dict[str, tuple[Any, Any]]]:
    """Train on digits, save every checkpoint twice; the outputs, computed here."""
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data[2::4], dtype=torch.float32) / 16
    labels = torch.tensor(digits.target[2::4])
    net = network()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    (folder / "weights").mkdir(parents=True)
    (folder / "states").mkdir()
    outputs: dict[int, dict[str, tuple[Any, Any]]] = {}
    for step in range(1, max(STEPS) + 1):
        optimiser.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimiser.step()
        if step in STEPS:
            save_file(dict(net.state_dict()), folder / "weights" / f"step-{step:06d}.safetensors")
            torch.save(net.state_dict(), folder / "states" / f"model_{step}.pt")
            with torch.no_grad():
                outputs[step] = {
                    domain: (net(validation(domain)[0]).numpy(), validation(domain)[1].numpy())
                    for domain in DOMAINS
                }
    torch.save({domain: validation(domain) for domain in DOMAINS}, folder / "sets.pt")
    (folder / "evaluate.py").write_text(EVALUATE)
    (folder / "model.py").write_text(MODEL)
    return outputs


# Functions without a framework, for everything that is not about models. A checkpoint is a number.
PLAIN = """\
import os
import sys
import time
from pathlib import Path

import numpy as np

CALLS = Path(os.environ.get("CALLS", os.devnull))
rng = np.random.default_rng(0)
LABELS = rng.integers(0, 4, 60)
NOISE = rng.normal(size=(60, 4))


def outputs(path, domain):
    scale = float(Path(path).read_text())
    with CALLS.open("a") as calls:
        calls.write(f"{Path(path).name} {domain}\\n")
    if scale < 0:
        raise RuntimeError(f"cannot load\\nthis one: {scale}")
    return scale * (np.eye(4)[LABELS] + NOISE), LABELS


def slow(path, domain):
    time.sleep(0.05)
    return outputs(path, domain)


def overwritten(path, domain):
    found = outputs(path, domain)
    if float(Path(path).read_text()) == 2:  # by a training that goes on
        Path(path).write_text("2.5000")
    return found


def dies(path, domain):
    if float(Path(path).read_text()) == 2:
        os.kill(os.getpid(), 9)
    return outputs(path, domain)


def leaves(path, domain):
    if float(Path(path).read_text()) == 2:
        sys.exit("no such data")
    return outputs(path, domain)
"""


def checkpoints(folder: Path, scales: dict[int, float] | None = None) -> Path:
    """``model_<step>.pt`` with a number in it, and ``plain.py`` beside the folder."""
    folder.mkdir(parents=True)
    for step, scale in (scales or {1: 1.0, 2: 2.0, 3: 3.0, 4: 6.0}).items():
        (folder / f"model_{step}.pt").write_text(str(scale))
    (folder.parent / "plain.py").write_text(PLAIN)
    return folder


def plain_outputs(scale: float) -> tuple[Any, Any]:
    """What ``outputs`` of ``plain.py`` returns."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 60)
    return scale * (np.eye(4)[labels] + rng.normal(size=(60, 4))), labels
