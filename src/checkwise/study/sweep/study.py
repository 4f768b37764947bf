"""A study: data, network, algorithms, seeds and schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.plugins import Plugin
from checkwise.store import COHORT_FILE
from checkwise.study.data import dataset_names, draw_seed
from checkwise.study.train import (
    NAME,
    SEEDS,
    LogUniform,
    RunSettings,
    UnfitError,
    Value,
    ValueKind,
    a_kind,
    algorithm_names,
    are_different,
    from_plain,
    key,
    names,
    one_of,
    plain_facts,
)
from checkwise.words import is_plain, shown

Fixed: TypeAlias = Value | tuple[Value, ...] | LogUniform
Seeds: TypeAlias = tuple[int, int]
Role: TypeAlias = Literal["development", "evaluation"]
OWN = ("ImageFolder", "Features")  # readers of a user's own data, which have no name of their own


def _held_out(value: Any) -> tuple[tuple[str, ...], ...] | None:
    if value == "each":
        return None
    entries = value if isinstance(value, list) else []
    sets = [[entry] if isinstance(entry, str) else entry for entry in entries]
    fits = all(
        isinstance(names, list)
        and names
        and all(isinstance(name, str) and is_plain(name) for name in names)
        for names in sets
    )
    if not fits or not sets or len({frozenset(names) for names in sets}) != len(sets):
        raise UnfitError(value)
    return tuple(tuple(names) for names in sets)


@dataclass(frozen=True)
class DataSpec:
    """One data set of a study.

    ``held_out`` of None means each domain in turn. ``class_subset`` (k of n) is a choice of classes
    by number, of a data set that ``--data`` calls ``part_of``.
    """

    dataset: str = key(
        "which data; `ImageFolder` (domain/class/file) and `Features` (.npz) open your own",
        kind=one_of(dataset_names),
    )
    name: str = key(
        "the name in runs and results",
        kind=NAME,
        unset=None,
        shown="`dataset`; for your own data the name of `root`; required if that is missing",
    )
    role: Role = key("role of this data set", unset=None, shown="the study's")
    held_out: tuple[tuple[str, ...], ...] | None = key(
        'one run per entry, which does not train on it; "each" means every domain in turn',
        kind=ValueKind(
            lambda: 'a list of different domain names, of lists of them, or "each"', _held_out
        ),
    )
    size: int | None = key("width and height of decoded images in pixels", None, shown="224")
    deduplicate: bool = key("leave out duplicate images, within and across domains", False)
    root: str | None = key(
        "where the data are, from the file's folder; `--data NAME=PATH` overrides it", None
    )
    domain_by: str | None = key(
        "the column of a feature file that says which domain an example is of",
        None,
        shown="`domain`",
    )
    groups: str | None = key(
        "the column of a feature file that says which examples belong together: a site, a "
        "patient, a device",
        None,
    )
    places: int | None = key(
        "deals the `groups` of every domain into so many places, to be held out instead of whole "
        "domains; the other groups of the domain are trained on",
        None,
    )
    classes: tuple[str, ...] = key(
        "the only classes that stay",
        (),
        kind=a_kind(
            "a list of different class names",
            lambda value: are_different(value, lambda name: isinstance(name, str)),
            tuple,
        ),
        shown="all",
    )
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

    With ``draws`` the ``hparams_seeds`` number the runs from 1 and ``trial_seeds`` are empty. A
    hyperparameter in ``hparams`` has one value for all runs, a tuple with one value per
    hyperparameter seed, or a range that every run draws from.
    """

    name: str
    data: tuple[DataSpec, ...]
    algorithms: tuple[str, ...] = key(
        "one run for each",
        table="runs",
        kind=names(algorithm_names, others="add your own with --plugin FILE.py,"),
    )
    hparams_seeds: tuple[int, ...] = key(
        "0 means the default hyperparameters; any other seed draws them at random",
        table="runs",
        kind=SEEDS,
        unset=(0,),
    )
    trial_seeds: tuple[int, ...] = key(
        "seeds of the splits, the initial weights and the sampling",
        table="runs",
        kind=SEEDS,
        unset=(0,),
    )
    shared_init: bool = key(
        "runs that differ only in their seeds start from the same weights", False, table="training"
    )
    hparams: Mapping[str, Fixed] = field(default_factory=dict)
    draws: int | None = key(
        "instead of seeds: so many runs of each algorithm and held-out set, each with a split, "
        "initial weights and random hyperparameters that no other run has",
        None,
        table="runs",
    )

    def as_dict(self) -> dict[str, Any]:
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
            return from_plain(cls, values)
        except UnfitError as unfit:
            raise InputError(
                f"Expected the study as it was planned, but got {shown(unfit.value)} for "
                f"`{unfit.advice}` in its {COHORT_FILE}: restore the file from a copy, or "
                "plan the study again with another --out.",
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
        seeds = self.hparams_seeds  # an estimate is of seed 0, planned or not
        at = seeds.index(hparams_seed) if hparams_seed in seeds else 0
        return {
            name: value[at] if isinstance(value, tuple) else value
            for name, value in self.hparams.items()
        }

    def narrowed(self, **only: tuple[Any, ...]) -> Study:
        held_out = only.pop("held_out", ())
        if self.draws and only.get("trial_seeds"):
            raise InputError(
                f"Expected no trial seed, because every run of the study {self.name} has its own, "
                f"but got {only['trial_seeds'][0]}: choose runs by --hparams-seed, which numbers "
                "the draws from 1.",
                code="unsupported",
            )
        for name, values in only.items():
            known = getattr(self, name)
            for value in values:
                if value not in known:
                    raise InputError(
                        f"Expected {name} among {', '.join(map(str, known))}, but got {value!r} "
                        f"for the study {self.name}: choose from these.",
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
        fewer: dict[str, Any] = {name: values for name, values in only.items() if values}
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
