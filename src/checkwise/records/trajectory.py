"""Which run of a study a trajectory belongs to."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from checkwise.errors import InputError
from checkwise.metrics import BANDWIDTH, BINS, whole
from checkwise.records import checks
from checkwise.records.checks import plain_name
from checkwise.records.examples import BoolArray, Examples, FloatArray, IntArray
from checkwise.words import counted

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
        """A key from its ``as_dict``, as a file holds it."""
        if not isinstance(values, dict) or not isinstance(values.get("held_out"), list):
            raise InputError(
                f"Expected a run's key with a list of held-out domains, but got "
                f"{reprlib.repr(values)}.",
                code="damaged",
            )
        facts: dict[str, Any] = {name: values.get(name) for name in cls.__dataclass_fields__}
        return cls(**facts)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Trajectory:
    """Source-validation metrics of every checkpoint of one run.

    There is no field for a target: what is not in here cannot be selected on.

    Args:
        steps: the T training steps, strictly increasing.
        domains: the E source domains; one is enough.
        values: metric name → [T, E] array, fractions (accuracy 0.9, not 90). Without ``accuracy``
            only rules work that need none: ``pure-nll``, or ``ac`` with another constraint.
        pooled: metric name → [T] array for metrics that were logged only as a mean over domains.
        counts: validation examples per domain, [E].
        correct: correct predictions per checkpoint and domain, [T, E]; makes every comparison of
            accuracies exact. Computed from ``accuracy`` and ``counts`` where they determine it.
        diverged: checkpoints whose outputs were not finite; kept in tables, never selected.
        paths: where the weights of each checkpoint are, if known.
        key: which run of a study this is.
        bins, bandwidth: settings the calibration errors were computed with.
        logged: every step that was evaluated, where some are left out here because their weights
            were not saved or are gone.
        names_ahead: how much more the trainer's names of checkpoints count than these steps, where
            no file is there.
        columns: metric → the column of a log that it was read from.
        own_best: what the trainer itself calls its best ("best.pt"), and its step.
        call: how the trainer's own code takes a step without a file, with ``{step}``.
        chosen_by: the rule and settings that the run was trained with, where it chose live and
            its journal was read; the default of :func:`select`.
        notes: what a reader did to get here (for example a torn line that was dropped).
        seeded_by: what random draws depend on; by default the key, without one the accuracies
            (without those everything that selection can read).
        examples: what every validation example said at every checkpoint, where that is known;
            tolerances that follow from the data need it.

    Example:
        >>> run = Trajectory(steps=[100, 200], domains=["val"],
        ...                  values={"accuracy": [[0.9], [0.895]], "nll": [[0.7], [0.4]]})
        >>> len(run), run.metrics
        (2, ('accuracy', 'nll'))
    """

    steps: IntArray
    domains: tuple[str, ...]
    values: Mapping[str, FloatArray]
    pooled: Mapping[str, FloatArray]
    counts: IntArray | None
    correct: IntArray | None
    diverged: BoolArray
    paths: tuple[str | None, ...] | None
    key: RunKey | None
    bins: int | None
    bandwidth: float | None
    logged: tuple[int, ...] | None
    names_ahead: int
    columns: Mapping[str, str]
    own_best: tuple[str, int] | None
    call: str
    chosen_by: Mapping[str, Any]
    notes: tuple[str, ...]
    seeded_by: str | None
    examples: Examples | None

    def __init__(
        self,
        *,
        steps: ArrayLike,
        domains: Iterable[str],
        values: Mapping[str, ArrayLike],
        pooled: Mapping[str, ArrayLike] | None = None,
        counts: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        diverged: ArrayLike | None = None,
        paths: Iterable[str | None] | None = None,
        key: RunKey | None = None,
        bins: int | None = None,
        bandwidth: float | None = None,
        logged: Iterable[int] | None = None,
        names_ahead: int = 0,
        columns: Mapping[str, str] | None = None,
        own_best: tuple[str, int] | None = None,
        call: str = "",
        chosen_by: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
        seeded_by: str | None = None,
        examples: Examples | None = None,
    ):
        def put(**facts: Any) -> None:
            for name, value in facts.items():
                object.__setattr__(self, name, value)

        put(steps=checks.steps(steps), domains=checks.domains(domains))
        put(diverged=checks.diverged(diverged, self.steps))
        by_domain = checks.values(values, self.steps, self.domains, self.diverged)
        means = checks.pooled(pooled or {}, self.steps, self.diverged, by_domain)
        put(values=MappingProxyType(by_domain), pooled=MappingProxyType(means))
        put(counts=checks.counts(counts, self.domains))
        put(
            correct=checks.correct(correct, self),
            paths=checks.paths(paths, self.steps),
            key=checks.key(key, self.domains),
            bins=bins,
            bandwidth=bandwidth,
            logged=None if logged is None else tuple(logged),
            names_ahead=names_ahead,
            columns=MappingProxyType(dict(columns or {})),
            own_best=own_best,
            call=call,
            chosen_by=MappingProxyType(dict(chosen_by or {})),
            notes=tuple(notes),
            seeded_by=seeded_by,
        )
        put(examples=None if examples is None else examples.of(self))

    @property
    def ends_early(self) -> bool:
        """Whether the training went on after the last checkpoint that can be chosen."""
        return bool(self.logged) and max(self.logged or ()) > int(self.steps[-1])

    @property
    def begins_late(self) -> bool:
        """Whether checkpoints before the first that can be chosen were evaluated too."""
        return bool(self.logged) and min(self.logged or ()) < int(self.steps[0])

    @property
    def evaluated(self) -> int:
        """How many checkpoints were evaluated, with those whose weights are gone."""
        return len(self.logged) if self.logged else len(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        lost = f", {self.n_diverged} diverged" if self.n_diverged else ""
        name = f"{self.key}: " if self.key else ""
        return (
            f"<Trajectory {name}{counted(len(self), 'checkpoint')}{lost}, "
            f"{counted(len(self.domains), 'source domain')}, metrics: {', '.join(self.metrics)}>"
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics this run carries."""
        return (*self.values, *self.pooled)

    @property
    def metric_settings(self) -> dict[str, Any]:
        """``bins`` and ``bandwidth`` of its calibration errors; the usual ones where unknown."""
        return {"bins": self.bins or BINS, "bandwidth": self.bandwidth or BANDWIDTH}

    @property
    def n_diverged(self) -> int:
        """How many checkpoints had outputs that were not finite."""
        return int(self.diverged.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything selection can read; the order of domains does not matter."""
        import hashlib  # slow to import

        order = sorted(range(len(self.domains)), key=lambda e: self.domains[e])
        sha = hashlib.sha256(repr([self.domains[e] for e in order]).encode())
        sha.update(self.steps.tobytes())
        sha.update(self.diverged.tobytes())
        for name in sorted(self.values):
            sha.update(name.encode() + b"\0")
            sha.update(np.ascontiguousarray(self.values[name][:, order]).tobytes())
        for name in sorted(self.pooled):
            sha.update(name.encode() + b"\0pooled")
            sha.update(self.pooled[name].tobytes())
        if self.counts is not None:
            sha.update(np.ascontiguousarray(self.counts[order]).tobytes())
        return sha.hexdigest()

    @cached_property
    def identity(self) -> str:
        """A name for this run that stays the same when metrics are added: seeds random draws."""
        if self.seeded_by is not None:
            return self.seeded_by
        if self.key is not None:
            return str(self.key)
        if "accuracy" not in self.values:
            return self.digest
        accuracy = {"accuracy": self.values["accuracy"]}
        only_accuracy = replace(self, values=accuracy, pooled={}, examples=None)
        return only_accuracy.digest

    @classmethod
    def from_frame(
        cls,
        table: Any,
        *,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        metrics: Iterable[str] = (),
        **facts: Any,
    ) -> Self:
        """Read one run from a tidy table: one row per step and domain.

        Args:
            table: a data frame, or any mapping of column name → sequence. Columns ``step`` and
                ``accuracy`` are required (but see ``metrics``); ``domain`` (default: a single one
                named "validation"), ``n``, ``correct``, ``diverged``, ``path``, ``role``,
                ``held_out`` and every registered metric are read where present. Other columns are
                not looked at.
            held_out: domains to leave out before anything is read. Rows whose ``role`` is
                ``target``, rows of a domain that their ``held_out`` cell names, and domains whose
                names look held out (``test``, ``ood`` …) are left out as well.
            sources: domains that are validation although their names look held out.
            columns: which column is read under which name, as ``{"accuracy": "val_accuracy"}``.
            metrics: further columns to read as metrics. If these are named and accuracy is not
                among them, the table need not have it.
            facts: further fields of the trajectory (``key``, ``bins``, ``notes`` …).

        Example:
            >>> run = Trajectory.from_frame({"step": [0, 100], "accuracy": [0.5, 0.9],
            ...                              "nll": [0.7, 0.3]})
            >>> run.domains
            ('validation',)
        """
        from checkwise.records import tables

        read = tables.read(
            table, held_out=held_out, sources=sources, columns=columns, metrics=metrics
        )
        notes = (*facts.pop("notes", ()), *read.pop("notes"))
        return cls(**{**read, "notes": notes, **facts})

    @classmethod
    def from_history(
        cls,
        history: Any,
        *,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        metrics: str | Iterable[str] = (),
        n: int | Mapping[str, int] | None = None,
    ) -> Trajectory:
        """Read one run from lists of values: of Keras, XGBoost, LightGBM, CatBoost, or your own.

        Args:
            history: name → a list with a value for every epoch; or set → metric → such a list, as
                ``evals_result`` of boosted trees, of which several sets count as domains and one
                called train or learn is of training; or a list of records.
            held_out: sets to leave out; those whose names look held out are left out as well.
            sources: sets that are validation although their names look held out.
            columns: which list is read under which name.
            metrics: further lists to read as metrics.
            n: the number of validation examples, or one per set.

        Example:
            >>> run = Trajectory.from_history({"val_accuracy": [0.5, 0.9], "val_loss": [0.7, 0.3]})
            >>> run.columns
            mappingproxy({'accuracy': 'val_accuracy', 'nll': 'val_loss'})
        """
        from checkwise.readers import of_history  # which makes trajectories of logs

        return of_history(
            history, held_out=held_out, sources=sources, columns=columns, metrics=metrics, n=n
        )

    @classmethod
    def from_predictions(
        cls,
        saved: Mapping[int, Mapping[str, tuple[Any, ...]]],
        *,
        kind: str = "logits",
        bins: int = BINS,
        bandwidth: float = BANDWIDTH,
        held_out: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        progress: Callable[[int], None] | None = None,
        **facts: Any,
    ) -> Self:
        """Compute every metric from saved outputs: ``{step: {domain: (logits, labels)}}``.

        Args:
            saved: a mapping (it may load lazily; each step is asked for once here, and again
                where something needs the logits of single examples).
            kind: "logits" or "probs"; it is never guessed.
            bins, bandwidth: settings of the calibration errors.
            held_out: domains to leave out before anything is read; those whose names look held
                out (``test``, ``ood`` …) are left out as well.
            sources: domains that are validation although their names look held out.
            groups: domain → the independent unit (site, patient, burst) of each example; by
                default every example is one by itself.
            progress: called with the number of checkpoints done.
            facts: further fields of the trajectory.

        Example:
            >>> z = np.array([[2.0, 0.0], [0.0, 1.0]])
            >>> Trajectory.from_predictions({0: {"val": (z, [0, 1])}}).values["accuracy"]
            array([[1.]])
        """
        from checkwise.records import predicted  # with all that computes metrics

        computed = predicted.evaluate(
            saved,
            kind=kind,
            bins=bins,
            bandwidth=bandwidth,
            held_out=held_out,
            sources=sources,
            groups=groups,
            progress=progress,
        )
        return cls(**{**computed, **facts})
