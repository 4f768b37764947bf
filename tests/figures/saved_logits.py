"""Logits saved beside the runs of a tiny cohort, as training would leave them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from checkwise.store import heldout_predictions_file, source_predictions_file
from checkwise.study import Cohort
from tests.study.cohorts import mark_again


def made(seed: int, n: int, classes: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are right about two times in three, surer with a larger scale."""
    random = np.random.default_rng(seed)
    labels = np.random.default_rng(7).integers(0, classes, n)
    z = random.normal(size=(n, classes))
    z[np.arange(n), labels] += 1.2
    return (scale * z).astype(np.float32), labels.astype(np.int64)


def save_logits(path: Path, steps: Sequence[int], *, n: int = 200, classes: int = 5) -> None:
    """Write source and held-out logits of the given steps of every run."""
    cohort = Cohort.open(path)
    for number, (key, run) in enumerate(cohort.usable.items()):
        folder = cohort.runs.folder(key)
        for t, step in enumerate(steps):
            arrays = {}
            for d, domain in enumerate(run.domains):
                z, y = made(1000 * number + 10 * t + d, n, classes, 1.0 + t)
                arrays[f"{domain}.logits"], arrays[f"{domain}.labels"] = z, y
            _write(folder / source_predictions_file(step), arrays)
            for domain in key.held_out:
                z, y = made(500_000 + 1000 * number + t, n, classes, 2.0 + t)
                file = folder / heldout_predictions_file(domain, step)
                _write(file, {f"{domain}.logits": z, f"{domain}.labels": y})
        mark_again(folder)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]
