"""One training is one run, however many accounts of it there are.

A callback of checkwise keeps a journal beside its checkpoints, and a training may have several
loggers, each with a folder of its own. A log that a callback wrote to is an account of the journal
that has the same values, and leads to it: the journal alone knows how the callback was set. Two
logs of unlike kinds with the same values are of one training as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np

from checkwise import store
from checkwise.errors import CheckwiseError
from checkwise.readers import live_journal
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import Trajectory

LEVELS_UP: Final = 3  # from the folder of a log, as in run/csv/version_0
_OF_LOGGERS: Final = re.compile(
    r"version_\d+|.*(logs?|logger|csv|tensorboard)|tb|runs|events|metrics|wandb", re.IGNORECASE
)
LEVELS_DOWN: Final = 3  # as in run/csv/version_0/checkpoints
MOST_FOLDERS: Final = 2_000
FEWEST: Final = 3  # evaluations that show by themselves that two logs are of one training
OFFSETS: Final = (0, 1, -1)  # Lightning's log counts one step less than its callbacks


@dataclass(frozen=True)
class _Journal:
    run: LoadedRun
    records: Trajectory  # those of deleted checkpoints too


def once(runs: list[LoadedRun], request: Request) -> list[LoadedRun]:
    """The runs without second accounts of one training; a callback's log becomes its journal."""
    journals = cache(partial(_read, request))
    known = {
        Path(os.path.realpath(run.file))
        for run in runs
        if run.file and not run.trajectory.columns and store.live_journals(run.file)
    }
    left: list[LoadedRun] = []
    for run in runs:
        found = _near(run, journals) if run.is_of_callback else None
        if found is not None and found.file is not None and found.file not in known:
            known.add(found.file)
            note = f"{run.file} is of a callback, whose journal is read instead: {found.file}"
            noted = replace(found.trajectory, notes=(*found.trajectory.notes, note))
            left.append(replace(found, trajectory=noted, where=run.where))
        elif found is None and not (
            run.is_of_callback and any(_is_account(run, one) for one in map(journals, known))
        ):
            left.append(run)
    return _without_second_logs(left)


def _read(request: Request, path: Path) -> _Journal | None:
    """A journal; None where it cannot be read, or has no record yet."""
    try:
        (run,) = live_journal.read(path, request)
        (whole,) = live_journal.read(path, replace(request, include_unsaved=True))
    except CheckwiseError:
        return None
    return _Journal(run, whole.trajectory)


def _is_account(log: LoadedRun, journal: _Journal | None) -> bool:
    """Whether at least half of the evaluations are the same."""
    if journal is None:
        return False
    return 2 * _agreeing(log.trajectory, journal.records) >= len(log.trajectory)


def _agreeing(one: Trajectory, two: Trajectory) -> int:
    """How many evaluations have the same values, in 32 bits, at steps that count alike."""
    shared = [name for name in one.values if name in two.values]
    shared = [name for name in shared if name in ("accuracy", "nll")] or shared
    if not shared or one.domains != two.domains:
        return 0
    rows = {step: row for row, step in enumerate(two.steps.tolist())}
    most = 0
    for offset in OFFSETS:
        steps = one.steps + offset
        ours = [k for k, step in enumerate(steps.tolist()) if step in rows]
        theirs = [rows[step] for step in steps[ours].tolist()]
        alike = [
            np.isclose(one.values[n][ours], two.values[n][theirs], 1e-5, 1e-7, equal_nan=True)
            for n in shared
        ]
        most = max(most, int(np.concatenate(alike, axis=1).all(axis=1).sum()))
    return most


def _near(log: LoadedRun, journals: Callable[[Path], _Journal | None]) -> LoadedRun | None:
    """The journal of a log, around the folders of its logger; None without one, or with several."""
    place = Path(os.path.realpath(log.file or log.where))
    places = [place if place.is_dir() else place.parent]
    while len(places) <= LEVELS_UP and _OF_LOGGERS.fullmatch(places[-1].name):
        places.append(places[-1].parent)
    for above in places:
        fitting = [one for one in map(journals, _journals_below(above)) if _is_account(log, one)]
        if fitting:
            return fitting[0].run if len(fitting) == 1 and fitting[0] else None
    return None


def _journals_below(folder: Path) -> Iterator[Path]:
    waiting, seen = [(folder, 0)], 0
    while waiting and seen < MOST_FOLDERS:
        at, depth = waiting.pop(0)
        seen += 1
        try:
            yield from store.live_journals(at)
            if depth < LEVELS_DOWN:
                with os.scandir(at) as entries:
                    below = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
                waiting += [(at / name, depth + 1) for name in below]
        except (OSError, CheckwiseError):
            continue


def _without_second_logs(runs: Iterable[LoadedRun]) -> list[LoadedRun]:
    """Without logs that say what one of another kind says; one that leads to files is kept."""
    left: list[LoadedRun] = []
    # Logs with the same metrics → suffix → their places: thousands come out of one database.
    alike: dict[tuple[frozenset[str], int], dict[str, list[int]]] = {}
    for run in runs:
        one = run.trajectory
        kinds = alike.setdefault((frozenset(one.values), len(one.logged or ())), {})
        suffix = run.file.suffix if run.file else ""
        others = (place for kind, found in kinds.items() if kind != suffix for place in found)
        twin = next((k for k in others if _are_twins(one, left[k].trajectory)), None)
        if twin is None:
            kinds.setdefault(suffix, []).append(len(left))
            left.append(run)
        elif one.paths is not None and left[twin].trajectory.paths is None:
            left[twin] = run
    return left


def _are_twins(one: Trajectory, two: Trajectory) -> bool:
    one, two = sorted((one, two), key=len)
    if not one.columns or not two.columns or len(two) < FEWEST:
        return False
    tells = any(len(np.unique(values)) >= FEWEST for values in two.values.values())
    return tells and _agreeing(one, two) == len(one)
