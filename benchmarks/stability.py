"""How often each checkpoint is chosen over 10,000 draws, beside computing the metrics per draw.

The literal version writes every draw out and measures all checkpoints afresh. It is run on a few
draws and scaled up: it takes the same time for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import checkwise as cw
from benchmarks.rows import Row, in_turn, seconds, show
from checkwise.metrics import evaluate

CHECKPOINTS, DOMAINS, DRAWS, ROUNDS = 51, 3, 10_000, 2
# Examples per domain, classes, and how many draws of the literal version are measured.
SIZES = ((400, 7, 20), (900, 65, 3))


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


def literal(saved: dict[int, dict[str, Any]], drawn: list[Any]) -> None:
    """All metrics of every checkpoint on one draw of rows per domain, written out."""
    for domains in saved.values():
        for (z, y), rows in zip(domains.values(), drawn, strict=True):
            evaluate(logits=z[rows], labels=y[rows])


def measured(n: int, classes: int, few: int) -> Row:
    saved = predictions(n, classes)
    chosen = cw.select(cw.Trajectory.from_predictions(saved), guard=False)
    random = np.random.default_rng(0)
    draws = [[random.integers(0, n, n) for _ in range(DOMAINS)] for _ in range(few)]
    ours = min(seconds(lambda: chosen.stability(DRAWS)) for _ in range(ROUNDS))

    def afresh() -> None:
        for drawn in draws:
            literal(saved, drawn)

    each = in_turn({"afresh": afresh}, rounds=ROUNDS)["afresh"]
    return Row(
        f"stability, {DRAWS:,} draws × {CHECKPOINTS} checkpoints × {DOMAINS} sets of "
        f"{n} × {classes}",
        "computing the metrics of every draw afresh",
        each / few * DRAWS / ours,
        50,
        at_least=True,
    )


if __name__ == "__main__":
    show([measured(*size) for size in SIZES])
