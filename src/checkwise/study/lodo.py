"""Leave-one-domain-out validation: choose a step by how inner runs did on domains they left out.

The validation trajectory of an outer run has one domain for every source domain v: the results on
v of the inner run that held out the target and v. The target's own results lie in the same
folders and are never opened: the reader here opens the one domain it is asked for, and refuses a
target's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.records import RunKey, Trajectory
from checkwise.store import DONE_FILE, RUN_FILE, finished, inner_path, read_run
from checkwise.study.folder import CohortRecord, is_cohort, open_cohort, read_pseudo_target

# What has to be the same in inner and outer runs for a step to mean the same.
_SHARED = ("hparams", "steps", "record_every", "holdout", "network", "data", "augment")


class PseudoTargets:
    """Results of one outer run's inner runs, each on its pseudo-target alone."""

    def __init__(self, inner: CohortRecord, outer: RunKey, domains: tuple[str, ...]):
        self._outer = outer
        self._folders = {v: _folder(inner, outer, v) for v in domains}

    @property
    def planned(self) -> bool:
        """Whether any inner run of this outer run was asked for."""
        return any(folder is not None for folder in self._folders.values())

    @property
    def missing(self) -> list[str]:
        """Held-out sets whose inner run is not planned or not finished."""
        names = sorted(self._folders)
        return [
            "+".join(sorted((*self._outer.held_out, name)))
            for name in names
            if (folder := self._folders[name]) is None or not finished(folder)
        ]

    @property
    def folders(self) -> dict[str, Path]:
        return {name: folder for name, folder in self._folders.items() if folder is not None}

    def read(self, domain: str) -> Mapping[str, NDArray[Any]]:
        """The journal of one pseudo-target; the outer target's is refused."""
        if domain in self._outer.held_out or domain not in self._folders:
            raise InputError(
                f"Expected a pseudo-target of {self._outer} among {', '.join(self._folders)}, but "
                f"got {domain!r}: the results on a target are closed to selection.",
                code="held-out",
            )
        folder = self._folders[domain]
        assert folder is not None
        return read_pseudo_target(folder, domain)


def lodo_trajectories(
    path: Path, runs: Mapping[RunKey, Trajectory], folders: Callable[[RunKey], Path]
) -> dict[RunKey, Trajectory]:
    place = inner_path(path)
    inner = open_cohort(place) if is_cohort(place) else None
    trajectories = {
        key: _trajectory(pseudo, key, run, folders(key), place)
        for key, run in runs.items()
        if inner and (pseudo := PseudoTargets(inner, key, run.domains)).planned
    }
    if not trajectories:
        raise InputError(
            f"Expected inner runs of the runs in {path}, but {place} has none of theirs: "
            f"`checkwise study derive {path} --method lodo` trains them.",
            code="missing",
        )
    return trajectories


def _trajectory(
    pseudo: PseudoTargets, key: RunKey, run: Trajectory, folder: Path, place: Path
) -> Trajectory:
    """What its inner runs say about every step of an outer run."""
    if pseudo.missing:
        raise InputError(
            f"Expected a finished inner run for every pair of domains of {key}, but got none for "
            f"{', '.join(pseudo.missing)} in {place}: `checkwise study derive "
            f"{folder.parents[1]} --method lodo` trains what is missing.",
            code="missing",
        )
    for inner_folder in pseudo.folders.values():
        _check_same(folder, inner_folder)
    journals = {domain: pseudo.read(domain) for domain in run.domains}
    diverged = run.diverged.copy()
    for journal in journals.values():
        diverged |= journal["diverged"]
    first = journals[run.domains[0]]
    names = [name for name in first if name in METRICS]

    def columns(name: str) -> NDArray[Any]:
        return np.stack([journals[domain][name] for domain in run.domains], axis=1)

    return Trajectory(
        steps=run.steps,
        domains=run.domains,
        values={name: columns(name) for name in names},
        counts=columns("n")[0],
        correct=columns("correct"),
        diverged=diverged,
        paths=run.paths,
        key=key,
        bins=run.bins,
        bandwidth=run.bandwidth,
    )


def training_seconds(folder: Path) -> float:
    """How long a run took by the times of its files, pauses included; nan for a copy."""
    took = (folder / DONE_FILE).stat().st_mtime - (folder / RUN_FILE).stat().st_mtime
    return float(took) if took >= 1 else float("nan")


def _folder(inner: CohortRecord, outer: RunKey, extra: str) -> Path | None:
    held_out = {*outer.held_out, extra}
    for key, folder in inner.runs.items():
        if replace(key, held_out=outer.held_out) == outer and set(key.held_out) == held_out:
            return folder
    return None


def _check_same(outer: Path, inner: Path) -> None:
    of_outer, of_inner = read_run(outer).config, read_run(inner).config
    differing = [name for name in _SHARED if of_outer.get(name) != of_inner.get(name)]
    if differing:
        raise InputError(
            f"Expected inner runs trained like {outer.name}, but {inner.name} differs in "
            f"{', '.join(differing)}: `checkwise study derive --method lodo` trains them.",
            code="differs",
        )


Scope: TypeAlias = Literal["run", "hparams-acc", "hparams-ac"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


def check_scope(scope: str) -> Scope:
    """Refuse any other word."""
    for known in SCOPES:
        if scope == known:
            return known
    raise InputError(
        f"Expected a scope among {', '.join(SCOPES)}, but got {scope!r}.", code="unknown"
    )


def families(keys: Iterable[RunKey]) -> dict[RunKey, list[RunKey]]:
    """Runs that differ in their hparams seed alone, under the key with the smallest seed."""
    members: dict[RunKey, list[RunKey]] = {}
    for key in sorted(keys):
        members.setdefault(replace(key, hparams_seed=0), []).append(key)
    return {runs[0]: runs for runs in members.values()}


@dataclass(frozen=True, eq=False)
class PooledRuns:
    """The checkpoints of the runs of a family as one trajectory.

    Its ``steps`` number the pairs by training step, then by run, so that "the earliest" keeps its
    meaning. ``run_of`` and ``step_of`` say which pair a number stands for.
    """

    trajectory: Trajectory
    run_of: Sequence[RunKey]
    step_of: Sequence[int]


def pooled(runs: Mapping[RunKey, Trajectory]) -> PooledRuns:
    keys = sorted(runs)
    first = runs[keys[0]]
    for key in keys[1:]:
        _check_alike(first, runs[key], key)
    pairs = sorted((int(step), key, t) for key in keys for t, step in enumerate(runs[key].steps))

    def gather(column: str) -> Any:
        return np.stack([getattr(runs[key], column)[t] for _, key, t in pairs])

    def metric(name: str) -> Any:
        return np.stack([runs[key].values[name][t] for _, key, t in pairs])

    def mean(name: str) -> Any:
        return np.stack([runs[key].pooled[name][t] for _, key, t in pairs])

    trajectory = Trajectory(
        steps=np.arange(len(pairs)),
        domains=first.domains,
        values={name: metric(name) for name in first.values},
        pooled={name: mean(name) for name in first.pooled},
        counts=first.counts,
        correct=None if first.correct is None else gather("correct"),
        diverged=gather("diverged"),
        key=keys[0],
        bins=first.bins,
        bandwidth=first.bandwidth,
    )
    return PooledRuns(trajectory, [key for _, key, _ in pairs], [step for step, _, _ in pairs])


def _check_alike(first: Trajectory, other: Trajectory, key: RunKey) -> None:
    counts = None if first.counts is None else first.counts.tolist()
    others = None if other.counts is None else other.counts.tolist()
    if first.domains != other.domains or counts != others or first.metrics != other.metrics:
        raise InputError(
            f"Expected runs validated on the same examples, but {key} and {first.key} differ: "
            "hyperparameters can be chosen among runs of one study only.",
            code="differs",
        )
