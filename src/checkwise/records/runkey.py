"""Which run of a study a trajectory belongs to."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import Any, Self

from checkwise.errors import InputError
from checkwise.metrics.settings import whole
from checkwise.records.checks import plain_name

LARGEST_SEED = 2**63 - 1
BY_PLACE = "run"


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
        object.__setattr__(self, "dataset", plain_name(self.dataset, "a data set's name"))
        object.__setattr__(self, "algorithm", plain_name(self.algorithm, "an algorithm's name"))
        held_out = tuple(plain_name(name, "a held-out domain's name") for name in self.held_out)
        object.__setattr__(self, "held_out", held_out)
        for name in ("hparams_seed", "trial_seed"):
            object.__setattr__(self, name, whole(getattr(self, name), name, most=LARGEST_SEED))

    def __str__(self) -> str:
        """A readable name that is also safe as a folder name."""
        held_out = "+".join(self.held_out) or "none"
        parts = (self.dataset, self.algorithm, held_out)
        name = "-".join(re.sub(r"[^A-Za-z0-9_.+%]", "_", part) for part in parts)
        return f"{name}-h{self.hparams_seed}-t{self.trial_seed}"

    @property
    def label(self) -> str:
        """The name for people: a run that is known by its place alone is called after that."""
        is_place = (self.algorithm, self.held_out) == (BY_PLACE, ())
        return self.dataset if is_place and self.hparams_seed == self.trial_seed == 0 else str(self)

    @classmethod
    def by_place(cls, place: str) -> Self:
        """The key of a run of which nothing is known but where it was found."""
        return cls(place, BY_PLACE, (), 0, 0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "held_out": list(self.held_out),
            "hparams_seed": self.hparams_seed,
            "trial_seed": self.trial_seed,
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """A key from its ``as_dict``, as a file holds it.

        Raises:
            InputError: a coordinate is missing or of another kind.
        """
        if not isinstance(values, dict) or not isinstance(values.get("held_out"), list):
            raise InputError(
                f"Expected a run's key with a list of held-out domains, but got "
                f"{reprlib.repr(values)}.",
                code="damaged",
            )
        facts: dict[str, Any] = {name: values.get(name) for name in cls.__dataclass_fields__}
        return cls(**facts)
