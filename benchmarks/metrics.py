"""Nine metrics in one pass, against what torch and torchmetrics take for some of them.

Run as ``python -m benchmarks.metrics``: float32 logits, 15 bins, one thread, in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import Row, in_turn, show

# Examples, classes, how often each is measured, and the aim against hard ECE alone.
SIZES = (
    (3_000, 7, 400, 0.6),
    (3_000, 65, 200, 0.6),
    (20_000, 345, 30, 0.95),
    (50_000, 1_000, 6, 0.6),
)


def predictions(n: int, classes: int) -> tuple[Any, Any]:
    """Logits of a network that is right about two times in three."""
    random = np.random.default_rng(classes)
    z = random.standard_normal((n, classes), dtype=np.float32)
    y = random.integers(0, classes, n)
    z[np.arange(n), y] += np.float32(3)
    return z, y


def measured(n: int, classes: int, rounds: int, aim: float) -> list[Row]:
    import torch
    from torchmetrics.functional.classification import (
        multiclass_accuracy,
        multiclass_calibration_error,
    )

    from checkwise import metrics

    torch.set_num_threads(1)
    z, y = predictions(n, classes)
    tz, ty = torch.from_numpy(z), torch.from_numpy(y)

    def hard_ece() -> None:
        multiclass_calibration_error(tz, ty, classes, n_bins=15)

    def four() -> None:
        multiclass_accuracy(tz, ty, classes, average="micro")
        multiclass_accuracy(tz, ty, classes, average="none")
        torch.nn.functional.cross_entropy(tz, ty)
        hard_ece()

    works = {"ours": lambda: metrics.evaluate(logits=z, labels=y), "four": four, "ece": hard_ece}
    took = in_turn(works, rounds=rounds)
    size = f"{n:,} × {classes:,}"
    return [
        Row(
            f"nine metrics, {size}",
            "torchmetrics' accuracy, accuracy per class and hard ECE, and torch's cross-entropy",
            took["four"] / took["ours"],
            1.3,
            at_least=True,
        ),
        Row(
            f"nine metrics, {size}",
            "torchmetrics' hard ECE alone",
            took["ece"] / took["ours"],
            aim,
            at_least=True,
        ),
    ]


def main() -> None:
    for size in SIZES:
        show(measured(*size))


if __name__ == "__main__":
    main()
