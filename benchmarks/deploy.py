"""Time and memory of an ensemble of k members against one model, and what a calibrator adds.

    python -m benchmarks.deploy

One thread. The network is an MLP of 4.1 million parameters on batches of 64. Time is per batch,
memory what loading and running the members adds to a process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.updates import interleaved
from checkwise.calibrators import Fitted, calibrators, fit
from checkwise.deployed import Calibrated

MEMBERS = (1, 3, 5, 10)
FEATURES, HIDDEN, CLASSES, ROWS = 1024, 2048, 1000, 64
LIMIT = 1.5  # times k, for k members
ADDED = 0.05  # of a batch, for a temperature


def network() -> nn.Module:
    """A network whose cost is its matrix products."""
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def temperature() -> Fitted:
    """A calibrator of the default kind."""
    random = np.random.default_rng(0)
    z, y = random.normal(size=(500, CLASSES)), random.integers(0, CLASSES, 500)
    z[np.arange(500), y] += 3
    return fit({"validation": (z, y)}, next(iter(calibrators())))


def memory_of(members: int) -> float:
    """Resident memory in MB that an ensemble of so many members adds to a process."""
    command = [sys.executable, "-m", "benchmarks.deploy", str(members)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def load_members(members: int) -> None:
    """What the processes of ``memory_of`` do."""
    torch.set_num_threads(1)
    x = torch.randn(ROWS, FEATURES)
    with torch.inference_mode():
        network()(x)  # what torch itself needs
        before = _resident()
        model = Calibrated([network() for _ in range(members)], None)
        model.probabilities(x)
        print(_resident() - before)


def _resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Print one line per number of members; fail where they cost much more than their number."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, fitted = torch.randn(ROWS, FEATURES), temperature()
    plain = network().eval()
    models = {k: Calibrated([network() for _ in range(k)], fitted) for k in MEMBERS}
    with torch.inference_mode():
        took = interleaved(
            {
                "plain": lambda: plain(x).softmax(-1),
                **{str(k): partial(model.probabilities, x) for k, model in models.items()},
            },
            blocks=10,
        )
    one = memory_of(1)
    print(f"one network {took['plain'] / 1e3:.2f} ms a batch, {one:.0f} MB")
    print(f"{'members':>8}{'time':>10}{'÷ one':>8}{'memory':>10}{'÷ one':>8}")
    worst = 0.0
    for k in MEMBERS:
        time, memory = took[str(k)], memory_of(k)
        worst = max(worst, time / took["plain"] / k)
        print(
            f"{k:8}{time / 1e3:7.2f} ms{time / took['plain']:8.2f}"
            f"{memory:7.0f} MB{memory / one:8.2f}"
        )
    added = took["1"] / took["plain"] - 1
    print(f"a temperature adds {added:.1%} to one network")
    if worst > LIMIT or added > ADDED:
        raise SystemExit(
            f"Expected at most {LIMIT} times k and {ADDED:.0%} for a temperature, but got "
            f"{worst:.2f} and {added:.1%}."
        )


if __name__ == "__main__":
    load_members(int(sys.argv[1])) if len(sys.argv) > 1 else main()
