"""Outcomes that were saved beside logits of a lower precision: whether they fit, what they give."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics.examples import Outcomes
from checkwise.metrics.inputs import Predictions
from checkwise.records.examples import IntArray

# Relative to the largest logit: twice what two logits that were rounded can be off.
_HALF: Final = 2.0**-9


def metrics_of(saved: Outcomes, labels: IntArray) -> dict[str, float]:
    """The metrics that follow from what is saved of every example."""
    counts = np.bincount(labels)
    recall = np.bincount(labels, weights=saved.correct)[counts > 0] / counts[counts > 0]
    return {
        "accuracy": int(saved.correct.sum()) / len(labels),
        "nll": float(saved.nll.mean()),
        "worst_class_accuracy": float(recall.min()),
    }


def check_same(saved: Outcomes, computed: Outcomes, predictions: Predictions) -> None:
    """Refuse outcomes of other outputs: beside rounding to half precision they have to agree."""
    if predictions.kind != "logits":
        raise InputError(
            "Expected `correct` and `nll` beside logits, but got them beside probabilities: leave "
            "them out.",
            code="unsupported",
        )
    for start, rows, labels in predictions.blocks():
        part = slice(start, start + len(labels))
        largest = np.abs(np.where(np.isfinite(rows), rows, 0)).max(axis=1)
        apart = np.abs(saved.nll[part] - computed.nll[part])
        odd = ~(apart <= _HALF * (1 + largest))
        odd |= (saved.correct[part] != computed.correct[part]) & ~_nearly_tied(rows, largest)
        if odd.any():
            row = int(np.flatnonzero(odd)[0])
            raise InputError(
                f"Expected `correct` and `nll` of the saved logits, but example {start + row} has "
                f"{bool(saved.correct[start + row])} and {saved.nll[start + row]:.4g} where its "
                f"logits give {bool(computed.correct[start + row])} and "
                f"{computed.nll[start + row]:.4g}: the file is damaged, or holds those of another "
                "checkpoint; save it again, or save logits and labels alone.",
                code="differs",
            )


def _nearly_tied(rows: Any, largest: Any) -> Any:
    """Rows whose two largest logits rounding to half precision may have put in another order."""
    two = np.sort(rows, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0] <= _HALF * (1 + largest)
