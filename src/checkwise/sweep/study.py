"""A study: data, network, algorithms, seeds and schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.plugins import Plugin
from checkwise.store import layout
from checkwise.train.config import NetworkConfig, RunSettings, plain_facts
from checkwise.train.hparams import Value

Role: TypeAlias = Literal["development", "evaluation"]
OWN = ("ImageFolder", "Features")  # readers of a user's own data, which have no name of their own


@dataclass(frozen=True)
class DataSpec:
    """One data set of a study.

    ``name`` is its name in runs and results; ``dataset`` names the reader. ``held_out`` lists the
    sets of domains to hold out, one set per run; None means each domain in turn. ``root`` is where
    the data are, if the study file has it.
    """

    dataset: str
    name: str
    role: Role
    held_out: tuple[tuple[str, ...], ...] | None
    size: int | None = None
    deduplicate: bool = False
    root: str | None = None


@dataclass(frozen=True)
class Study(RunSettings):
    """What a sweep trains: every algorithm × held-out set × hparams seed × trial seed.

    With ``shared_init`` runs that differ in their seeds alone begin from the same weights. A
    hyperparameter in ``hparams`` has one value for all runs, or a tuple with one value per
    hyperparameter seed.
    """

    name: str
    data: tuple[DataSpec, ...]
    algorithms: tuple[str, ...]
    hparams_seeds: tuple[int, ...]
    trial_seeds: tuple[int, ...]
    shared_init: bool = False
    hparams: Mapping[str, Value | tuple[Value, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``cohort.json``; where the data are is no part of a study."""
        facts = {**asdict(self), "hparams": dict(self.hparams)}
        facts["network"] = self.network.as_dict()
        for spec in facts["data"]:
            del spec["root"]
        runs = ("network", "algorithms", "hparams_seeds", "trial_seeds")
        schedule = ("steps", "record_every", "holdout", "augment")
        return plain_facts(
            facts,
            first=("name", "data", *runs, *schedule),
            last=("averages", "shared_init", "hparams", "plugins", "metrics"),
            optional=("shared_init",),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Study:
        """A study from its ``as_dict``, as a cohort records it.

        Raises:
            InputError: it is not a study.
        """
        if "data" not in values or "network" not in values:
            raise InputError(
                "Expected a cohort with the study that it was planned from, but its plan has no "
                "data or network: use a cohort that `checkwise sweep` made."
            )
        try:
            return _parsed(dict(values))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"Expected the study that a cohort was planned for, but got an error at {error} in "
                f"its {layout.COHORT}: restore the file from a copy, or plan the study again with "
                "another --out."
            ) from None

    def with_plugins(self, plugins: Iterable[Plugin]) -> Study:
        """The study as it is trained with plugins: their content, and the metrics they add."""
        own = {m.name: m.direction for m in METRICS.values() if m.function is not None}
        named = {plugin.name: plugin.sha256 for plugin in plugins}
        return replace(self, plugins=named, metrics=own if named else {})

    def overrides(self, hparams_seed: int) -> dict[str, Value]:
        """The hyperparameters that the study fixes for runs with this seed."""
        listed = [name for name, value in self.hparams.items() if isinstance(value, tuple)]
        if listed and hparams_seed not in self.hparams_seeds:
            raise InputError(
                f"Expected a hyperparameter seed among {', '.join(map(str, self.hparams_seeds))}, "
                f"for which the study {self.name} lists {', '.join(listed)}, but got "
                f"{hparams_seed}: choose one of these."
            )
        at = self.hparams_seeds.index(hparams_seed) if listed else 0
        return {
            name: value[at] if isinstance(value, tuple) else value
            for name, value in self.hparams.items()
        }

    def narrowed(self, **only: tuple[Any, ...]) -> Study:
        """The study with fewer ``algorithms``, ``hparams_seeds``, ``trial_seeds``, ``held_out``."""
        held_out = only.pop("held_out", ())
        for key, values in only.items():
            known = getattr(self, key)
            for value in values:
                if value not in known:
                    raise InputError(
                        f"Expected {key} among {', '.join(map(str, known))}, but got {value!r} for "
                        f"the study {self.name}: choose from these."
                    )
        data = self.data
        if held_out:
            data = tuple(replace(s, held_out=_only(s, held_out)) for s in data)
            data = tuple(s for s in data if s.held_out)
            if not data:
                raise InputError(
                    f"Expected held-out domains of the study {self.name}, but got "
                    f"{', '.join(held_out)}: check the names."
                )
        fewer: dict[str, Any] = {key: values for key, values in only.items() if values}
        seeds = fewer.get("hparams_seeds", self.hparams_seeds)
        by_seed = [self.overrides(seed) for seed in seeds]
        hparams = {
            name: tuple(values[name] for values in by_seed) if isinstance(value, tuple) else value
            for name, value in self.hparams.items()
        }
        return replace(self, data=data, hparams=hparams, **fewer)


def _only(spec: DataSpec, held_out: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if spec.held_out is None:
        return tuple((name,) for name in held_out)
    return tuple(names for names in spec.held_out if "+".join(names) in held_out)


def _parsed(facts: dict[str, Any]) -> Study:
    facts["data"] = tuple(
        DataSpec(**{**spec, "held_out": _tuples(spec["held_out"])}) for spec in facts["data"]
    )
    facts["network"] = NetworkConfig(**facts["network"])
    for name in ("algorithms", "hparams_seeds", "trial_seeds", "averages"):
        facts[name] = tuple(facts.get(name, ()))
    facts["hparams"] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in facts.get("hparams", {}).items()
    }
    return Study(**facts)


def _tuples(sets: Any) -> tuple[tuple[str, ...], ...] | None:
    return None if sets is None else tuple(tuple(names) for names in sets)
