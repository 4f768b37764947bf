"""How often each checkpoint is chosen over 10,000 draws, beside computing the metrics per draw.

The literal version writes every draw out and measures all checkpoints afresh. It is run on a few
draws and scaled up: it takes the same time for each.

Run with ``python -m benchmarks.stability`` on a quiet machine.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import checkwise as cw
from checkwise.metrics import evaluate

CHECKPOINTS, DOMAINS, DRAWS = 51, 3, 10_000
# Name -> examples per domain, classes, seconds allowed, times faster, draws of the literal version.
SIZES = {
    "PACS size": (400, 7, 10.0, 50.0, 20),
    "OfficeHome size": (900, 65, 120.0, 5.0, 4),
}


def predictions(n: int, classes: int) -> dict[int, dict[str, Any]]:
    """Logits that improve and then stay on a plateau, with noise that neighbours share."""
    random = np.random.default_rng(0)
    names = [f"domain {e}" for e in range(DOMAINS)]
    labels = {name: random.integers(0, classes, n) for name in names}
    fixed = {name: random.normal(size=(n, classes)) for name in names}
    moving = {name: random.normal(size=(n, classes)) for name in names}
    saved: dict[int, dict[str, Any]] = {}
    for t in range(CHECKPOINTS):
        learnt = 1 - np.exp(-t / 8)
        saved[100 * t] = {}
        for name in names:
            moving[name] = 0.9 * moving[name] + 0.44 * random.normal(size=(n, classes))
            logits = 1.2 * fixed[name] + 0.6 * moving[name]
            logits[np.arange(n), labels[name]] += 3.2 * learnt
            logits = (0.6 + 1.2 * learnt) * logits
            saved[100 * t][name] = (logits.astype(np.float32), labels[name])
    return saved


def literal(saved: dict[int, dict[str, Any]], drawn: list[Any]) -> dict[str, Any]:
    """All metrics of every checkpoint on one draw of rows per domain, written out: name -> [T]."""
    values = [
        [
            evaluate(logits=z[r], labels=y[r]).values()
            for (z, y), r in zip(domains.values(), drawn, strict=True)
        ]
        for domains in saved.values()
    ]
    names = values[0][0]
    return {m: np.array([[one[m] for one in row] for row in values]).mean(axis=1) for m in names}


def main() -> int:
    missed = 0
    for size, (n, classes, allowed, wanted, few) in SIZES.items():
        saved = predictions(n, classes)
        chosen = cw.select(cw.Trajectory.from_predictions(saved), guard=False)
        chosen.stability(100)  # compiles
        start = time.perf_counter()
        chosen.stability(DRAWS)
        fast = time.perf_counter() - start
        random = np.random.default_rng(0)
        draws = [[random.integers(0, n, n) for _ in range(DOMAINS)] for _ in range(few)]
        literal(saved, draws[0])
        start = time.perf_counter()
        for drawn in draws:
            literal(saved, drawn)
        each = (time.perf_counter() - start) / few
        ratio = each * DRAWS / fast
        held = fast <= allowed and ratio >= wanted
        missed += not held
        print(
            f"{size}: {DRAWS} draws in {fast:.2f} s (at most {allowed:g}), {ratio:.0f} times "
            f"faster than {each * DRAWS:.0f} s (at least {wanted:g}){'' if held else ' MISSED'}"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
