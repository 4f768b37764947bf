"""Every rule on 540 runs of 51 checkpoints: together, and one by one.

Run with ``python -m benchmarks.selection``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import checkwise as cw

RUNS, CHECKPOINTS, DOMAINS = 540, 51, 3
TARGET_SECONDS = 0.5


def cohort() -> dict[int, cw.Trajectory]:
    """Runs with a plateau of nearly equal accuracies, as training leaves them."""
    rng = np.random.default_rng(0)
    runs = {}
    for key in range(RUNS):
        counts = rng.integers(330, 900, DOMAINS)
        skill = 0.9 * (1 - np.exp(-np.arange(CHECKPOINTS) / 5))[:, None]
        correct = rng.binomial(counts, skill + 0.05 * rng.random(DOMAINS))
        runs[key] = cw.Trajectory(
            steps=100 * np.arange(CHECKPOINTS),
            domains=["a", "b", "c"],
            values={
                "accuracy": correct / counts,
                **{
                    name: rng.uniform(0.01, 1, (CHECKPOINTS, DOMAINS))
                    for name in ("nll", "ece", "cwece")
                },
            },
            counts=counts,
            correct=correct,
            key=cw.RunKey("made", "up", ("d",), key, 0),
        )
    return runs


def params(rule: str) -> dict[str, Any]:
    if rule == "wald":
        return {"threshold_pp": 50}
    return {"objectives": ("nll", "cwece")} if rule == "ac" else {}


def seconds(select: Any) -> float:
    start = time.perf_counter()
    select()
    return time.perf_counter() - start


def time_together(names: list[str]) -> float:
    runs = cohort()  # anew each time: views of a run are remembered
    return seconds(lambda: [cw.select_many(runs, r, guard=False, **params(r)) for r in names])


def main() -> None:
    names = list(cw.rules())
    together = min(time_together(names) for _ in range(3))
    runs = cohort()
    alone = seconds(
        lambda: [
            cw.select(run, r, guard=False, **params(r)) for r in names for run in runs.values()
        ]
    )
    verdict = "met" if together < TARGET_SECONDS else "MISSED"
    print(f"{len(names)} rules × {RUNS} runs × {CHECKPOINTS} checkpoints, nothing cached before")
    print(f"  together    {together:6.3f} s   target < {TARGET_SECONDS} s: {verdict}")
    print(f"  one by one  {alone:6.3f} s   {alone / together:.1f}× as long")


if __name__ == "__main__":
    main()
