"""What is left of the NLL once a checkpoint has been calibrated, and what calibration takes away.

``refined_nll`` is the NLL after the checkpoint's own temperature, and ``calibration_nll`` the rest,
nll − refined_nll (Berta et al. 2025). Below 1,000 validation examples the temperature is
cross-fitted (with whole groups in one fold), which can make the rest negative.
"""

from __future__ import annotations

from typing import Any, Final

from checkwise.calibrators.cross_fit import cross_fitted
from checkwise.calibrators.examples import Groups, Logits, nll_of
from checkwise.calibrators.ts import TS

REFINED, CALIBRATION = "refined_nll", "calibration_nll"
REFINED_METRICS: Final = (REFINED, CALIBRATION)
SMALL = 1_000  # validation examples below which the temperature is cross-fitted


def nll_after(logits: Logits, *, groups: Groups | None = None) -> dict[str, float]:
    """Mean NLL of every domain after one temperature, which is fitted on all domains together.

    Example:
        >>> import numpy as np
        >>> z, y = np.array([[8.0, 0.0]] * 2000), np.arange(2000) % 4 // 3
        >>> {domain: round(nll, 6) for domain, nll in nll_after({"val": (z, y)}).items()}
        {'val': 0.562335}
    """
    if sum(len(y) for _, y in logits.values()) < SMALL:
        after: Any = cross_fitted(logits, TS, force=True, groups=groups)
    else:
        fitted = TS.fit(logits, force=True)
        after = {domain: (fitted.apply(z), y) for domain, (z, y) in logits.items()}
    return {domain: float(nll_of(z, y).mean()) for domain, (z, y) in after.items()}
