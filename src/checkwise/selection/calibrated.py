"""The calibrator of a chosen checkpoint: fitted to its source-validation logits, in words, as JSON.

It is the record in ``calibrator.json`` of live selection and of ``deploy --calibrator-only``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkwise.calibrators import Calibrator, Change, Fitted, change_of, get_calibrator
from checkwise.metrics import Groups, Logits, count_errors
from checkwise.selection.choice import plain
from checkwise.words import counted, number

if TYPE_CHECKING:
    from checkwise.selection.result import Selection


@dataclass(frozen=True, eq=False)
class CalibratedChoice:
    """How the chosen checkpoint is calibrated."""

    fitted: Fitted  # the calibrator, with its state and conditions
    change: Change  # the cross-fitted change of the NLL
    sizes: Mapping[str, tuple[int, int]]  # source domain → examples and errors it was fitted on
    digest: str  # SHA-256 of their logits and labels

    @classmethod
    def of(cls, fitted: Fitted, change: Change, logits: Logits) -> CalibratedChoice:
        """The same with what the calibrator was fitted on."""
        sizes = {domain: (len(y), count_errors(z, y)) for domain, (z, y) in logits.items()}
        return cls(fitted, change, sizes, logits_digest(logits))

    def __str__(self) -> str:
        """What is applied, its state and conditions, and what to expect on other examples."""
        fitted, change = self.fitted, self.change
        done = f"{fitted.name} is fitted."
        if fitted.params is None:
            done = f"{fitted.name} changes nothing."
        elif fitted.temperature is not None:
            nothing = "" if fitted.temperature != 1 else ", which changes nothing"
            done = f"{fitted.name}: T = {fitted.temperature:.4f}{nothing}."
        ends = (change.low, change.mean, change.high)
        low, mean, high = (number(end, 4, signed=True) for end in ends)
        whole = "" if change.groups is None else " of whole groups"
        over = "" if change.groups is None else f" over {counted(change.groups, 'group')}"
        sentences = [
            done,
            f"State: {fitted.state} ({counted(fitted.errors, 'error')} among "
            f"{counted(fitted.n, 'validation example')}).",
            *fitted.conditions,
            f"On examples it was not fitted on (5 folds{whole}), {fitted.name} changes the NLL "
            f"by {mean} [{low}, {high}]: the mean over {counted(change.n, 'example')} with its "
            f"{change.level:.0%} interval{over}.",
        ]
        return " ".join(sentences)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the JSON of a selection."""
        return {
            **self.fitted.to_dict(),
            "temperature": self.fitted.temperature,
            "cross_fitted_change": self.change.as_dict(),
        }

    def record(self, selection: Selection, name: str) -> dict[str, Any]:
        """What is needed to apply the calibration and to know what it rests on."""
        from checkwise import __version__

        return {
            **self.as_dict(),
            "checkwise": __version__,
            "run": name,
            "key": selection.run and selection.run.as_dict(),
            "step": selection.step,
            "weights": selection.path,
            "rule": selection.rule,
            "rule_reason": selection.reason or None,
            "rule_params": {name: plain(value) for name, value in selection.params.items()},
            "fitted_on": {name: {"n": n, "errors": e} for name, (n, e) in self.sizes.items()},
            "digests": {"trajectory": selection.digest, "logits": self.digest},
        }


def calibrate_choice(
    logits: Logits, calibrator: str | Calibrator, *, groups: Groups | None = None
) -> CalibratedChoice:
    """Fit a calibrator to the source-validation logits of a chosen checkpoint.

    ``groups``: domain → the independent unit of each example; units stay together.
    """
    fitted = get_calibrator(calibrator).fit(logits)
    return CalibratedChoice.of(fitted, change_of(logits, fitted, groups), logits)


def logits_digest(logits: Logits) -> str:
    """SHA-256 of the logits and labels of every domain."""
    sha = hashlib.sha256()
    for domain in sorted(logits):
        z, y = logits[domain]
        for array in (z, np.asarray(y, dtype=np.int64)):
            values = np.ascontiguousarray(array)
            sha.update(f"{domain}\0{values.dtype}{values.shape}".encode() + values.tobytes())
    return sha.hexdigest()
