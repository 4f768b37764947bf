"""Which runs share their random draws, so that they do not count as independent.

A hyperparameter draw depends only on (hparams seed, trial seed) and a split only on the trial seed:
the same ones serve every algorithm, data set and held-out domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study.outcome import KEY_COLUMNS, key_columns

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
By = str | Sequence[str]

UNITS: dict[str, str] = {
    "run": "every run by itself",
    "block": "runs with the same hparams seed and trial seed",
    "draw": "runs with the same hyperparameters; seed 0 is the same in every trial",
    "trial": "runs with the same trial seed, hence the same splits",
    "domain": "runs with the same held-out domain",
}


@dataclass(frozen=True, eq=False)
class Clusters:
    """A cluster number from 0 to G − 1 for every run."""

    of: IntArray
    count: int
    name: str

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of ``values`` [n, …] over each cluster, [G, …]."""
        total = np.zeros((self.count, *values.shape[1:]))
        np.add.at(total, self.of, values)
        return total

    @property
    def sizes(self) -> IntArray:
        """Runs per cluster."""
        return np.bincount(self.of, minlength=self.count).astype(np.int64)

    def crossed(self, other: Clusters) -> Clusters:
        """Runs that share their cluster here and in ``other``."""
        pairs = zip(self.of.tolist(), other.of.tolist(), strict=True)
        return numbered(list(pairs), f"{self.name} and {other.name}")

    def among(self, keep: NDArray[np.bool_]) -> Clusters:
        """The clusters that are left among the marked runs."""
        return numbered(self.of[keep].tolist(), self.name)


def clusters(keys: Sequence[RunKey], by: By = "block") -> Clusters:
    """Group runs by what they share.

    Args:
        keys: the runs.
        by: a name from ``UNITS``, or columns of the run key.

    Example:
        >>> keys = [RunKey("PACS", "ERM", ("art",), h, t) for h in range(3) for t in range(3)]
        >>> [clusters(keys, by).count for by in ("run", "block", "draw", "trial", "domain")]
        [9, 9, 7, 3, 1]
    """
    if isinstance(by, str):
        if by not in UNITS:
            raise InputError(
                f"Expected clusters by {', '.join(UNITS)} or a list of columns of the run key, "
                f"but got {by!r}."
            )
        return numbered([_label(key, by) for key in keys], by)
    unknown = [name for name in by if name not in KEY_COLUMNS]
    if unknown or not by:
        raise InputError(
            f"Expected columns among {', '.join(KEY_COLUMNS)} to cluster by, but got {list(by)!r}."
        )
    labels = [tuple(key_columns(key)[name] for name in by) for key in keys]
    return numbered(labels, "+".join(by))


def numbered(labels: Sequence[Hashable], name: str) -> Clusters:
    """Clusters from any labels, numbered in order of appearance."""
    number: dict[Hashable, int] = {}
    of = np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
    return Clusters(of, len(number), name)


def _label(key: RunKey, by: str) -> Hashable:
    if by == "run":
        return key
    if by == "trial":
        return key.trial_seed
    if by == "domain":
        return key.dataset, key.held_out
    if by == "draw" and key.hparams_seed == 0:
        return 0
    return key.hparams_seed, key.trial_seed
