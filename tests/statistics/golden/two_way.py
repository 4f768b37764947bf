"""What statsmodels 0.15.0 says of a mean whose runs are clustered in two ways.

Run in an environment of its own (``pip install statsmodels==0.15.0``), from this folder:
``python two_way.py``. It writes ``two_way.json``. The mean is a regression on a constant.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import statsmodels.api as sm


def error(values: np.ndarray, groups: np.ndarray) -> float:
    model = sm.OLS(values, np.ones(len(values)))
    return float(model.fit(cov_type="cluster", cov_kwds={"groups": groups}).bse[0])


def main() -> None:
    rng = np.random.default_rng(18)
    cases = []
    for blocks, domains, n, shared in ((9, 4, 36, 1.0), (9, 4, 90, 0.5), (5, 6, 41, 0.0)):
        first, second = rng.integers(0, blocks, n), rng.integers(0, domains, n)
        by_block, by_domain = rng.normal(size=blocks), rng.normal(size=domains)
        values = shared * (by_block[first] + by_domain[second]) + rng.normal(size=n)
        cases.append(
            {
                "values": values.tolist(),
                "first": first.tolist(),
                "second": second.tolist(),
                "mean": float(values.mean()),
                "one_way": [error(values, first), error(values, second)],
                "two_way": error(values, np.stack([first, second], axis=1)),
            }
        )
    Path(__file__).with_name("two_way.json").write_text(json.dumps({"cases": cases}))


if __name__ == "__main__":
    main()
