"""Speed of the metrics against `torch.softmax`, a plain broadcast version and torchmetrics.

Run as `python -m benchmarks.metrics [--json]`. Every ratio is between times of one run, one thread
each, measured in turn and repeated: the least processor time counts, since other work only adds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SIZES = ((3_000, 65), (20_000, 345), (50_000, 1_000))
SOFTMAX_LIMIT = {65: 8.0, 345: 5.0, 1_000: 1.7}
BROADCAST_LIMIT = {65: 20.0, 345: 80.0}


@dataclass(frozen=True)
class Row:
    """One measurement: `value` must be at most (or, if `at_least`, at least) `target`."""

    what: str
    value: float
    target: float | None = None
    at_least: bool = False
    unit: str = "x"

    @property
    def passed(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target


def predictions(n: int, classes: int, *, scale: float) -> tuple[Array, Array]:
    """Logits of a network that is right about two times in three; larger scale, surer."""
    rng = np.random.default_rng(classes)
    z = rng.standard_normal((n, classes), dtype=np.float32) * np.float32(scale)
    y = rng.integers(0, classes, n)
    z[np.arange(n), y] += np.float32(scale * 3)
    return z, y


def broadcast(z: Any, y: Any, bins: int = 15, bandwidth: float = 0.1) -> tuple[float, float]:
    """The two soft metrics as one would write them at first, in torch."""
    import torch

    p = torch.softmax(z, 1)
    u, predicted = p.max(1)
    right = (predicted == y).to(p.dtype)
    centres = torch.linspace(0, 1, bins)
    w = torch.exp(-((u[:, None] - centres) ** 2) / (2 * bandwidth**2))
    w = w / w.sum(1, keepdim=True).clamp_min(1e-8)
    total = w.sum(0)
    filled = total.clamp_min(1e-8)
    gap = (w * right[:, None]).sum(0) / filled - (w * u[:, None]).sum(0) / filled
    ece = (total / len(z) * gap**2).sum()
    v = p[:, :, None] * torch.exp(-((p[:, :, None] - centres) ** 2) / (2 * bandwidth**2))
    truth = torch.nn.functional.one_hot(y, p.shape[1]).to(p.dtype)
    total = v.sum(0)
    filled = total.clamp_min(1e-8)
    gap = (v * truth[:, :, None]).sum(0) / filled - (v * p[:, :, None]).sum(0) / filled
    share = total / total.sum(1, keepdim=True).clamp_min(1e-8)
    return float(ece), float((share * gap**2).sum(1).mean())


def least_times(
    candidates: dict[str, Callable[[], Any]], *, seconds: float, rounds: int = 5
) -> dict[str, float]:
    """Least time of each, measured in turn for about `seconds`, at least `rounds` times."""
    best = dict.fromkeys(candidates, float("inf"))
    started, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - started < seconds:
        for name, run in candidates.items():
            before = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - before)
        done += 1
    return best


def measure(n: int, classes: int, *, scale: float, seconds: float) -> list[Row]:
    """All ratios at one size."""
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    from checkwise import metrics

    z, y = predictions(n, classes, scale=scale)
    tz, ty = torch.from_numpy(z), torch.from_numpy(y)
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: metrics.evaluate(logits=z, labels=y),
        "softmax": lambda: torch.softmax(tz, 1),
        "sweep": lambda: z.max(),
        "torchmetrics": lambda: multiclass_calibration_error(tz, ty, classes, n_bins=15),
    }
    slow: dict[str, Callable[[], Any]] = {
        "ours": runs["ours"],
    }
    if classes in BROADCAST_LIMIT:
        slow["broadcast"] = lambda: broadcast(tz, ty)
    for run in {**runs, **slow}.values():
        run()
    fast, other = least_times(runs, seconds=seconds), least_times(slow, seconds=0.0, rounds=3)
    ours = fast["ours"]
    size = f"{n:,} x {classes:,}, scale {scale:g}"
    rows = [
        Row(f"{size}: time", ours * 1e3, unit="ms"),
        Row(f"{size}: / torch.softmax", ours / fast["softmax"], SOFTMAX_LIMIT[classes]),
        Row(f"{size}: torchmetrics / ours", fast["torchmetrics"] / ours, 1.0, at_least=True),
        Row(f"{size}: share of memory bandwidth", fast["sweep"] / ours * 100, unit="%"),
    ]
    if "broadcast" in other:
        limit = BROADCAST_LIMIT[classes]
        rows.append(
            Row(f"{size}: broadcast / ours", other["broadcast"] / ours, limit, at_least=True)
        )
    return rows


def stream(rows: int = 1_000_000, classes: int = 1_000, batch: int = 5_000) -> None:
    """Stream logits through an accumulator; prints the peak of resident memory in MB."""
    from checkwise.metrics import Accumulator

    accumulator = Accumulator(classes=classes)
    z, y = predictions(batch, classes, scale=2.0)
    for _ in range(rows // batch):
        z[:, :-1] = z[:, 1:].copy()  # new values at the price of a copy
        accumulator.update(logits=z, labels=y)
    assert accumulator.result().n == rows
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def first_call() -> None:
    """Print the processor time from importing the package to the first result."""
    started = time.process_time()
    from checkwise import metrics

    metrics.evaluate(logits=np.array([[0.5, -1.0]], dtype=np.float32), labels=[0])
    print(time.process_time() - started)


def in_new_process(what: str) -> float:
    command = [sys.executable, "-m", "benchmarks.metrics", what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=6.0, help="time per size")
    parser.add_argument("--first-call", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.first_call or given.stream:
        (first_call if given.first_call else stream)()
        return 0

    import torch

    torch.set_num_threads(1)
    rows: list[Row] = []
    for n, classes in SIZES:
        for scale in (1.0, 3.0):
            rows += measure(n, classes, scale=scale, seconds=given.seconds)
    in_new_process("--first-call")  # fills the cache
    second = min(in_new_process("--first-call") for _ in range(3))
    rows.append(Row("first call in a second process", second, 1.0, unit="s"))
    rows.append(Row("peak memory, 1,000,000 x 1,000", in_new_process("--stream"), 1024, unit="MB"))
    if given.json:
        print(json.dumps([{**asdict(row), "passed": row.passed} for row in rows], indent=2))
    else:
        for row in rows:
            sign = "" if row.target is None else f"{'>=' if row.at_least else '<='} {row.target:g}"
            verdict = "" if row.target is None else "pass" if row.passed else "FAIL"
            print(f"{row.what:52s} {row.value:9.2f} {row.unit:3s} {sign:9s} {verdict}")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
