"""Which run of a study a trajectory belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class RunKey:
    """The five coordinates of a run.

    Example:
        >>> key = RunKey("PACS", "ERM", ("sketch",), hparams_seed=0, trial_seed=2)
        >>> str(key)
        'PACS-ERM-sketch-h0-t2'
    """

    dataset: str
    algorithm: str
    held_out: tuple[str, ...]
    hparams_seed: int
    trial_seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "held_out", tuple(str(name) for name in self.held_out))
        object.__setattr__(self, "hparams_seed", int(self.hparams_seed))
        object.__setattr__(self, "trial_seed", int(self.trial_seed))

    def __str__(self) -> str:
        """A readable name that is also safe as a folder name."""
        held_out = "+".join(self.held_out) or "none"
        parts = (self.dataset, self.algorithm, held_out)
        name = "-".join(re.sub(r"[^A-Za-z0-9_.+%]", "_", part) for part in parts)
        return f"{name}-h{self.hparams_seed}-t{self.trial_seed}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "held_out": list(self.held_out),
            "hparams_seed": self.hparams_seed,
            "trial_seed": self.trial_seed,
        }
