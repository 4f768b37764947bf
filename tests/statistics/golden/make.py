"""What statsmodels 0.15.0 and arch 8.0.0 make of a few samples, for the tests to compare with.

Run in an environment of its own (``pip install arch==8.0.0 statsmodels==0.15.0``), from this
folder: ``python make.py``. It writes ``oracles.npz``: right and wrong answers of six checkpoints,
with exact McNemar p-values against the first and their Holm correction; and losses of eight models,
with the resamples that arch drew and the p-values of its model confidence set.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from arch.bootstrap import MCS
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

    shared = rng.normal(size=(120, 1))
    losses = shared + 0.5 * rng.normal(size=(120, 8)) + np.linspace(0, 0.25, 8)
    theirs = MCS(losses, size=0.1, reps=300, block_size=1, method="R", seed=3)
    theirs.compute()
    values = theirs.pvalues.sort_index()["Pvalue"].to_numpy()
    np.savez_compressed(
        Path(__file__).with_name("oracles.npz"),
        correct=correct,
        mcnemar=np.array(p),
        holm=holm,
        losses=losses,
        drawn=np.array(theirs._bootstrap_indices, dtype=np.uint8),
        mcs=values,
    )


if __name__ == "__main__":
    main()
