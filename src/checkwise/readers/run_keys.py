"""One key per run of a folder: runs that share a configuration are told apart by their folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from checkwise.errors import InputError
from checkwise.readers.request import LoadedRun
from checkwise.records import RunKey
from checkwise.text import printable

Loaded = TypeVar("Loaded")


def by_key(root: Path, runs: Iterable[LoadedRun]) -> dict[RunKey, LoadedRun]:
    """Every run under its key; where several share one, ``dataset`` begins with their folder."""
    groups: dict[RunKey, list[LoadedRun]] = {}
    for run in runs:
        key = run.key or RunKey.by_place(_place(root, run))
        groups.setdefault(key, []).append(run)
    named: dict[RunKey, LoadedRun] = {}
    for key, alike in groups.items():
        prefixes = _prefixes(root, key, alike)
        for run, prefix in zip(alike, prefixes, strict=True):
            own = key
            if prefix:
                own = replace(key, dataset=f"{prefix}/{key.dataset}")
                note = f"{len(alike)} runs are {key}: their folders tell them apart"
                noted = replace(run.trajectory, notes=(*run.trajectory.notes, note))
                run = replace(run, trajectory=noted)
            if own in named or (prefix and own in groups):
                raise _refusal(key, alike)
            named[own] = run
    return named


def _place(root: Path, run: LoadedRun) -> str:
    below = Path(run.where).relative_to(root).as_posix()
    place = root.stem if root.is_file() else root.resolve().name
    return printable(f"{place if below == '.' else below} {run.part}".strip())


def _prefixes(root: Path, key: RunKey, alike: Sequence[LoadedRun]) -> list[str]:
    """As much of each run's folder below ``root`` as sets it apart; nothing for a single run."""
    if len(alike) == 1:
        return [""]
    folders = [_folder(root, run) for run in alike]
    if len(set(folders)) < len(folders):
        raise _refusal(key, alike)
    deepest = max(map(len, folders))
    depth = next(d for d in range(deepest + 1) if len({f[:d] for f in folders}) == len(folders))
    return ["/".join(folder[:depth]) or root.resolve().name for folder in folders]


def _folder(root: Path, run: LoadedRun) -> tuple[str, ...]:
    place = Path(re.sub(r" line \d+$", "", run.where))
    folder = place.parent if place.is_file() else place
    return folder.relative_to(root).parts if folder.is_relative_to(root) else ()


def _refusal(key: RunKey, alike: Sequence[LoadedRun]) -> InputError:
    return InputError(
        f"Expected one run per configuration, but {alike[0].where} and {alike[1].where} are both "
        f"{key}: keep one (move the other away), or read each by its own path.",
        code="ambiguous",
    )


def only(name: str, runs: Mapping[RunKey, Loaded], path: Path) -> dict[RunKey, Loaded]:
    """The run of a name, as the table of runs shows it."""
    named = {key: run for key, run in runs.items() if name in (key.label, str(key))}
    if not named:
        shown = ", ".join(key.label for key in [*runs][:5])
        raise InputError(
            f"Expected a run called {name!r}, but {path} has {shown}{', …' * (len(runs) > 5)}: "
            "check the name.",
            code="unknown",
        )
    return named
