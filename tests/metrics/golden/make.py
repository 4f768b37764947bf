"""What relplot 1.0.3 makes of a few predictions, for the tests to compare with.

Run in an environment of its own (``pip install relplot==1.0.3``), from this folder:
``python make.py``. It writes ``relplot.npz``: for every case the confidences, whether they were
right, smECE, and smECE at three bandwidths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

CASES = {  # examples, how much more often right than said
    "few": (50, 0.0),
    "too sure": (400, -0.15),
    "not sure enough": (1000, 0.1),
    "calibrated": (3000, 0.0),
}
BANDWIDTHS = (0.02, 0.05, 0.1)  # it cuts wider kernels off


def main() -> None:
    import relplot

    arrays: dict[str, Any] = {}
    for seed, (name, (n, bias)) in enumerate(CASES.items()):
        random = np.random.default_rng(seed)
        said = random.beta(5, 1.5, n)
        right = (random.random(n) < np.clip(said + bias, 0, 1)).astype(float)
        arrays[f"{name}|said"], arrays[f"{name}|right"] = said, right
        arrays[f"{name}|smece"] = np.array(relplot.smECE(said, right))
        arrays[f"{name}|at"] = np.array([relplot.smECE_sigma(said, right, h) for h in BANDWIDTHS])
    np.savez_compressed(Path(__file__).with_name("relplot.npz"), **arrays)


if __name__ == "__main__":
    main()
