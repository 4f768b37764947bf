"""Hyperparameters under DomainBed's names: one table of defaults, draws and bounds.

Seed 0 means the defaults. For any other seed each name is drawn on its own from
RandomState(seed_hash(seed_hash(hparams_seed, trial_seed), name)): the draw depends on neither
algorithm nor dataset, so algorithms of one study share their learning rates and batch sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Final, TypeAlias, get_args

from numpy.random import RandomState

from checkwise.errors import InputError
from checkwise.study.data import Kind, seed_hash
from checkwise.study.train.schema import near
from checkwise.words import shown

Value: TypeAlias = float | int
Draw: TypeAlias = Callable[[RandomState], Value]

HPARAM_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True)
class LogUniform:
    """A range that every run draws its own value from; the logarithm is uniform."""

    low: Value
    high: Value

    def draw(self, random: RandomState) -> float:
        return float(math.exp(random.uniform(math.log(self.low), math.log(self.high))))


@dataclass(frozen=True)
class Hyperparameter:
    """One row of the table: which runs have it, its default, how it is drawn, what it may be.

    Values lie in [`low`, `high`); `kinds` and `algorithms` of None mean every one.
    """

    name: str
    default: Value
    draw: Draw
    kinds: tuple[Kind, ...] = HPARAM_KINDS
    algorithms: tuple[str, ...] | None = None
    low: float = 0.0
    high: float = math.inf

    def applies_to(self, kind: Kind, algorithm: str) -> bool:
        """Whether a run of this algorithm on this kind of data reads the hyperparameter."""
        return kind in self.kinds and (self.algorithms is None or algorithm in self.algorithms)

    @property
    def wanted(self) -> str:
        """What it may be, in words."""
        number = "an integer" if isinstance(self.default, int) else "a number"
        return f"{number} in [{self.low:g}, {self.high:g})"

    def checked(self, value: object) -> Value:
        """`value` as this hyperparameter's own type, or an InputError that says what it may be."""
        whole = isinstance(self.default, int)
        if not isinstance(value, bool) and isinstance(value, Real):
            try:
                number = float(value)
            except OverflowError:  # an integer beyond floats
                number = math.inf
            if self.low <= number < self.high and (not whole or number.is_integer()):
                return int(number) if whole else number
        raise InputError(
            f"Expected hyperparameter `{self.name}` to be {self.wanted}, but got {shown(value)}: "
            "use a value in that range."
        )


def _power(base: float, low: float, high: float, kind: type[Value] = float) -> Draw:
    return lambda random: kind(base ** random.uniform(low, high))


def _one_of(*choices: float) -> Draw:
    return lambda random: float(random.choice(choices))


def _always(value: float) -> Draw:
    return lambda random: value


_TINY: Final = 1e-12  # a learning rate of zero trains nothing
_MANY: Final = 2.0**20  # examples per domain and update; more would not fit
_LARGE: Final[tuple[Kind, ...]] = ("images", "features")

# Followed by the hyperparameters of registered algorithms.
HPARAM_TABLE: Final[list[Hyperparameter]] = [
    Hyperparameter("lr", 5e-5, _power(10, -5, -3.5), ("images",), low=_TINY),
    Hyperparameter("lr", 1e-3, _power(10, -4.5, -2.5), ("digits", "features"), low=_TINY),
    Hyperparameter("weight_decay", 0.0, _power(10, -6, -2), _LARGE),
    Hyperparameter("weight_decay", 0.0, _always(0.0), ("digits",)),
    Hyperparameter("batch_size", 32, _power(2, 3, 5.5, int), _LARGE, low=2, high=_MANY),
    Hyperparameter("batch_size", 64, _power(2, 3, 9, int), ("digits",), low=2, high=_MANY),
    Hyperparameter("resnet_dropout", 0.0, _one_of(0.0, 0.1, 0.5), _LARGE, high=1.0),
    Hyperparameter("mmd_gamma", 1.0, _power(10, -1, 1), algorithms=("CORAL",)),
    Hyperparameter("groupdro_eta", 1e-2, _power(10, -3, -1), algorithms=("GroupDRO",)),
    Hyperparameter("irm_lambda", 100.0, _power(10, -1, 5), algorithms=("IRM",)),
    Hyperparameter("irm_penalty_anneal_iters", 500, _power(10, 0, 4, int), algorithms=("IRM",)),
    Hyperparameter("vrex_lambda", 10.0, _power(10, -1, 5), algorithms=("VREx",)),
    Hyperparameter("vrex_penalty_anneal_iters", 500, _power(10, 0, 4, int), algorithms=("VREx",)),
]


HPARAM_MEANINGS: Final[dict[str, str]] = {
    "lr": "learning rate of Adam",
    "weight_decay": "weight decay of Adam",
    "batch_size": "examples per source domain and update",
    "resnet_dropout": "dropout before the classifier",
    "mmd_gamma": "weight of the distance between the domains' features",
    "groupdro_eta": "how fast the weights of the domains follow their losses",
    "irm_lambda": "weight of the penalty",
    "irm_penalty_anneal_iters": "updates before the penalty counts",
    "vrex_lambda": "weight of the penalty",
    "vrex_penalty_anneal_iters": "updates before the penalty counts",
}


def forget_hparams(algorithm: str) -> None:
    """Forget the hyperparameters of a registered algorithm."""
    HPARAM_TABLE[:] = [row for row in HPARAM_TABLE if row.algorithms != (algorithm,)]


def register_hparams(rows: Iterable[Hyperparameter]) -> None:
    """Add the hyperparameters of a registered algorithm."""
    for row in rows:
        if row.name in known_names():
            raise InputError(
                f"Expected a new name for a hyperparameter, but {row.name!r} exists: choose "
                "another name, or list it in `reads` to use the existing one.",
                code="exists",
            )
        row.checked(row.default)
        HPARAM_TABLE.append(row)


def known_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.name for row in HPARAM_TABLE))


def default_hparams(kind: Kind, algorithm: str) -> dict[str, Value]:
    """The defaults of one algorithm on one kind of data."""
    return {row.name: row.default for row in _rows(kind, algorithm)}


def draw_hparams(
    kind: Kind, algorithm: str, *, hparams_seed: int, trial_seed: int
) -> dict[str, Value]:
    """The defaults for seed 0, otherwise one independent draw per name.

    Example:
        >>> draw_hparams("images", "ERM", hparams_seed=1, trial_seed=0)["batch_size"]
        39
    """
    if hparams_seed == 0:
        return default_hparams(kind, algorithm)
    seed = seed_hash(hparams_seed, trial_seed)
    return {
        row.name: row.draw(RandomState(seed_hash(seed, row.name))) for row in _rows(kind, algorithm)
    }


def hparams_for(
    kind: Kind,
    algorithm: str,
    *,
    hparams_seed: int,
    trial_seed: int,
    overrides: Mapping[str, object] | None = None,
) -> dict[str, Value]:
    """The drawn hyperparameters with a study file's `overrides` in their place.

    A study fixes values for all its algorithms at once, so an override that another algorithm
    or kind of data reads is ignored; a name that no row of the table has is an error. A
    ``LogUniform`` is drawn from with the seed of the name, whatever the hparams seed.
    """
    hparams = draw_hparams(kind, algorithm, hparams_seed=hparams_seed, trial_seed=trial_seed)
    seed = seed_hash(hparams_seed, trial_seed)
    for name, value in (overrides or {}).items():
        if name not in known_names():
            raise unknown_name(name)
        for row in _rows(kind, algorithm):
            if row.name == name:
                if isinstance(value, LogUniform):
                    drawn = value.draw(RandomState(seed_hash(seed, name)))
                    value = int(drawn) if isinstance(row.default, int) else drawn
                hparams[name] = row.checked(value)
    return hparams


def unknown_name(name: str) -> InputError:
    """The error for a hyperparameter name that nothing reads, with the nearest known one."""
    known = known_names()
    return InputError(
        f"Expected a hyperparameter among {', '.join(known)}, but got `{name}`: "
        f"{near(name, known)}",
        code="unknown",
    )


def _rows(kind: Kind, algorithm: str) -> list[Hyperparameter]:
    return [row for row in HPARAM_TABLE if row.applies_to(kind, algorithm)]
