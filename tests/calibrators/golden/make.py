"""What probmetrics 1.3.0 makes of a few logits, for the tests to compare with.

Run in an environment of its own (``pip install torch probmetrics==1.3.0``), from this folder:
``python make.py``. It writes ``probmetrics.npz``: for every case the logits and labels that were
fitted, further logits, and the probabilities that each of its calibrators gives for those.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from probmetrics.calibrators import get_calibrator
from probmetrics.distributions import CategoricalLogits, CategoricalProbs

CASES = {  # examples, classes, how stretched the logits are, the temperature behind the labels
    "overconfident": (150, 4, 3.0, 2.0),
    "underconfident": (150, 3, 2.0, 0.6),
    "binary": (120, 2, 2.0, 1.5),
    "many classes": (300, 10, 4.0, 1.5),
}


def logits_and_labels(
    seed: int, n: int, classes: int, stretch: float, heat: float
) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    z = stretch * rng.normal(size=(n, classes))
    return z, (z / heat + rng.gumbel(size=z.shape)).argmax(axis=1)


def main() -> None:
    torch.set_default_dtype(torch.float64)  # in which its optimisers then work
    arrays: dict[str, Any] = {}
    for seed, (case, (n, classes, stretch, heat)) in enumerate(CASES.items()):
        z, y = logits_and_labels(seed, n, classes, stretch, heat)
        new = stretch * np.random.default_rng(100 + seed).normal(size=(20, classes))
        arrays |= {f"{case}/logits": z, f"{case}/labels": y, f"{case}/new": new}
        for name, calibrator in {
            "ts": get_calibrator("temp-scaling", ts_max_bisection_steps=60),
            "isotonic": get_calibrator("isotonic", calibrate_with_mixture=True),
        }.items():
            logits = name != "isotonic"
            made = CategoricalLogits if logits else CategoricalProbs
            of = (lambda a: a) if logits else (lambda a: torch.softmax(a, dim=1))
            calibrator.fit_torch(made(of(torch.tensor(z))), torch.tensor(y))
            p = calibrator.predict_proba_torch(made(of(torch.tensor(new)))).get_probs()
            arrays[f"{case}/{name}"] = p.numpy()
    np.savez_compressed(Path(__file__).with_name("probmetrics.npz"), **arrays)


if __name__ == "__main__":
    main()
