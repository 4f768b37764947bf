"""What statsmodels 0.15.0 makes of a few samples, for the tests to compare with.

Run in an environment of its own (``pip install statsmodels==0.15.0``), from this folder: ``python
make.py``. It writes ``oracles.npz``: right and wrong answers of six checkpoints, with exact McNemar
p-values against the first and their Holm correction.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests


def main() -> None:
    rng = np.random.default_rng(11)
    difficulty = rng.normal(size=90)
    score = np.array([0.9, 0.9, 0.5, 0.1, 1.0, -0.3])[:, None]
    correct = (difficulty + 0.4 * rng.normal(size=(6, 90)) < score).astype(np.int8)
    p = []
    for other in correct[1:]:
        first = correct[0]
        table = [[int(((first == a) & (other == b)).sum()) for b in (1, 0)] for a in (1, 0)]
        p.append(mcnemar(table, exact=True).pvalue)
    holm = multipletests(p, method="holm")[1]

    np.savez_compressed(
        Path(__file__).with_name("oracles.npz"),
        correct=correct,
        mcnemar=np.array(p),
        holm=holm,
    )


if __name__ == "__main__":
    main()
