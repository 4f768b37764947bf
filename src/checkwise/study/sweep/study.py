"""A study: data, network, algorithms, seeds and schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.plugins import Plugin
from checkwise.store import layout
from checkwise.study.data import draw_seed
from checkwise.study.train import LogUniform, NetworkConfig, RunSettings, Value, plain_facts

Fixed: TypeAlias = Value | tuple[Value, ...] | LogUniform
Seeds: TypeAlias = tuple[int, int]
Role: TypeAlias = Literal["development", "evaluation"]
OWN = ("ImageFolder", "Features")  # readers of a user's own data, which have no name of their own


@dataclass(frozen=True)
class DataSpec:
    """One data set of a study.

    ``name`` is its name in runs and results; ``dataset`` names the reader. ``held_out`` lists the
    sets of domains to hold out, one set per run; None means each domain in turn. ``root`` is where
    the data are, if the study file has it.

    ``domain_by`` and ``groups`` are columns of a feature file. With ``places`` the groups of every
    domain are dealt into so many places, which are held out instead of domains. ``classes`` are
    the only ones that stay; ``class_subset`` (k of n) is such a choice by number, of a data set
    that ``--data`` calls ``part_of``.
    """

    dataset: str
    name: str
    role: Role
    held_out: tuple[tuple[str, ...], ...] | None
    size: int | None = None
    deduplicate: bool = False
    root: str | None = None
    domain_by: str | None = None
    groups: str | None = None
    places: int | None = None
    classes: tuple[str, ...] = ()
    class_subset: tuple[int, int] | None = None
    part_of: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``cohort.json``; where the data are is no part of a study."""
        facts = asdict(self)
        del facts["root"]
        return {
            name: value
            for name, value in facts.items()
            if name not in _COLUMNS or value not in (None, ())
        }


# Left out of the plan where they are not used, so that plans of older versions stay the same.
_COLUMNS = ("domain_by", "groups", "places", "classes", "class_subset", "part_of")


@dataclass(frozen=True)
class Study(RunSettings):
    """What a sweep trains: every algorithm × held-out set × hparams seed × trial seed.

    With ``draws`` every algorithm and held-out set has so many runs instead, each with seeds that
    no other run has; ``hparams_seeds`` then number them from 1 and ``trial_seeds`` are empty. With
    ``shared_init`` runs that differ in their seeds alone begin from the same weights. A
    hyperparameter in ``hparams`` has one value for all runs, a tuple with one value per
    hyperparameter seed, or a range that every run draws from.
    """

    name: str
    data: tuple[DataSpec, ...]
    algorithms: tuple[str, ...]
    hparams_seeds: tuple[int, ...]
    trial_seeds: tuple[int, ...]
    shared_init: bool = False
    hparams: Mapping[str, Fixed] = field(default_factory=dict)
    draws: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``cohort.json``; where the data are is no part of a study."""
        facts = asdict(self)
        facts["network"] = self.network.as_dict()
        facts["data"] = tuple(spec.as_dict() for spec in self.data)
        facts["hparams"] = {
            name: asdict(value) if isinstance(value, LogUniform) else value
            for name, value in self.hparams.items()
        }
        runs = ("network", "algorithms", "hparams_seeds", "trial_seeds")
        schedule = ("steps", "record_every", "holdout", "augment")
        return plain_facts(
            facts,
            first=("name", "data", *runs, *schedule),
            last=("averages", "shared_init", "hparams", "plugins", "metrics", "draws"),
            optional=("shared_init", "draws"),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Study:
        """A study from its ``as_dict``, as a cohort records it."""
        if "data" not in values or "network" not in values:
            raise InputError(
                "Expected a study that `checkwise study run` planned, but its plan has no data or "
                "network: name the folder of such a study.",
                code="unsupported",
            )
        try:
            return _parsed(dict(values))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"Expected the study as it was planned, but got an error at {error} in "
                f"its {layout.COHORT_FILE}: restore the file from a copy, or plan the study again "
                "with another --out.",
                code="damaged",
            ) from None

    def with_plugins(self, plugins: Iterable[Plugin]) -> Study:
        """The study as it is trained with plugins: their content, and the metrics they add."""
        own = {m.name: m.direction for m in METRICS.values() if m.function and not m.on_demand}
        named = {plugin.name: plugin.sha256 for plugin in plugins}
        return replace(self, plugins=named, metrics=own if named else {})

    def seeds(self, dataset: str, algorithm: str, held_out: tuple[str, ...]) -> list[Seeds]:
        """The hparams seed and trial seed of every run of one algorithm on one held-out set."""
        if not self.draws:
            return [(h, t) for h in self.hparams_seeds for t in self.trial_seeds]
        return [(i, draw_seed(dataset, algorithm, held_out, i)) for i in self.hparams_seeds]

    def overrides(self, hparams_seed: int) -> dict[str, Value | LogUniform]:
        """The hyperparameters that the study fixes for runs with this seed."""
        listed = [name for name, value in self.hparams.items() if isinstance(value, tuple)]
        if listed and hparams_seed not in self.hparams_seeds:
            raise InputError(
                f"Expected a hyperparameter seed among {', '.join(map(str, self.hparams_seeds))}, "
                f"for which the study {self.name} lists {', '.join(listed)}, but got "
                f"{hparams_seed}: choose one of these.",
                code="unknown",
            )
        at = self.hparams_seeds.index(hparams_seed) if listed else 0
        return {
            name: value[at] if isinstance(value, tuple) else value
            for name, value in self.hparams.items()
        }

    def narrowed(self, **only: tuple[Any, ...]) -> Study:
        """The study with fewer ``algorithms``, ``hparams_seeds``, ``trial_seeds``, ``held_out``."""
        held_out = only.pop("held_out", ())
        if self.draws and only.get("trial_seeds"):
            raise InputError(
                f"Expected no trial seed, because every run of the study {self.name} has its own, "
                f"but got {only['trial_seeds'][0]}: choose runs by --hparams-seed, which numbers "
                "the draws from 1.",
                code="unsupported",
            )
        for key, values in only.items():
            known = getattr(self, key)
            for value in values:
                if value not in known:
                    raise InputError(
                        f"Expected {key} among {', '.join(map(str, known))}, but got {value!r} for "
                        f"the study {self.name}: choose from these.",
                        code="unknown",
                    )
        data = self.data
        if held_out:
            data = tuple(replace(s, held_out=_only(s, held_out)) for s in data)
            data = tuple(s for s in data if s.held_out)
            if not data:
                raise InputError(
                    f"Expected held-out domains of the study {self.name}, but got "
                    f"{', '.join(held_out)}: check the names.",
                    code="unknown",
                )
        fewer: dict[str, Any] = {key: values for key, values in only.items() if values}
        seeds = fewer.get("hparams_seeds", self.hparams_seeds)
        at = [self.hparams_seeds.index(seed) for seed in seeds]
        hparams = {
            name: tuple(value[i] for i in at) if isinstance(value, tuple) else value
            for name, value in self.hparams.items()
        }
        return replace(self, data=data, hparams=hparams, **fewer)


def _only(spec: DataSpec, held_out: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if spec.held_out is None:
        return tuple((name,) for name in held_out)
    return tuple(names for names in spec.held_out if "+".join(names) in held_out)


def _parsed(facts: dict[str, Any]) -> Study:
    facts["data"] = tuple(
        DataSpec(
            **{
                **spec,
                "held_out": _tuples(spec["held_out"]),
                "classes": tuple(spec.get("classes", ())),
                "class_subset": tuple(spec["class_subset"]) if "class_subset" in spec else None,
            }
        )
        for spec in facts["data"]
    )
    facts["network"] = NetworkConfig(**facts["network"])
    for name in ("algorithms", "hparams_seeds", "trial_seeds", "averages"):
        facts[name] = tuple(facts.get(name, ()))
    facts["hparams"] = {
        name: LogUniform(**value)
        if isinstance(value, dict)
        else tuple(value)
        if isinstance(value, list)
        else value
        for name, value in facts.get("hparams", {}).items()
    }
    return Study(**facts)


def _tuples(sets: Any) -> tuple[tuple[str, ...], ...] | None:
    return None if sets is None else tuple(tuple(names) for names in sets)
