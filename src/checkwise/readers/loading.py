"""One key per run of a folder: runs that share a configuration are told apart by their folders."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics import BANDWIDTH, BINS
from checkwise.readers.counts import impossible_accuracy
from checkwise.readers.registry import (
    read_below,
    read_file,
    reader_of,
    results_below,
)
from checkwise.readers.request import LoadedRun, Progress, Request
from checkwise.records import RunKey, Trajectory
from checkwise.store import is_held_out_place, latest_attempt
from checkwise.words import printable, shown

if TYPE_CHECKING:
    from checkwise.store import Validation

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


def load(
    path: str | Path,
    *,
    held_out: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    metrics: str | Iterable[str] = (),
    n: int | Mapping[str, int] | None = None,
    checkpoints: str | None = None,
    include_unsaved: bool = False,
    validation: Validation | None = None,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
    progress: Progress | None = None,
) -> Trajectory:
    """Read one run: run folder, predictions folder, CSV, Parquet, JSON lines, DomainBed, SWAD.

    Args:
        path: file or folder; what it is shows from its contents.
        held_out: domains to leave out before anything of theirs is read. Targets that the input
            itself names (``test_envs``, ``role``, a ``held_out`` column) are left out anyway, and
            so are sets beside others whose names look held out (``test``, ``ood`` …).
        sources: sets that are validation although their names look held out.
        columns: for tables and trainers' logs, which column is read under which name, as
            ``{"accuracy": "val_accuracy"}``; with several validation sets
            ``{"accuracy[photo]": "val/photo/acc"}``.
        metrics: further columns to read as metrics.
        n: for trainers' logs, the number of validation examples, or one per set.
        checkpoints: for trainers' logs, where the checkpoints are, as ``"weights.{epoch}.keras"``.
        include_unsaved: for trainers' logs, keep steps without a checkpoint on disk, where others
            have one.
        validation: for runs of checkwise that held out examples and whole groups, which of the two
            is read: "examples" or "groups".
        bins, bandwidth: settings of the calibration errors, where they are computed from outputs.
        progress: called with checkpoints done and in all, where outputs are evaluated.

    Raises:
        InputError: there is nothing readable, or more than one run.
    """
    request = Request.of(
        held_out, metrics, sources=sources, columns=columns, n=n, checkpoints=checkpoints,
        include_unsaved=include_unsaved, validation=validation, bins=bins, bandwidth=bandwidth,
        progress=progress,
    )  # fmt: skip
    runs = _load_all(Path(path), request)
    if len(runs) > 1:
        shown = ", ".join(
            run.key.label if run.key else f"{run.where} {run.part}".strip() for run in runs[:3]
        )
        raise InputError(
            f"Expected one run, but {path} holds {len(runs)} ({shown}{', …' * (len(runs) > 3)}): "
            "use load_runs, or `checkwise select`, which chooses in each.",
            code="ambiguous",
        )
    return runs[0].trajectory


def of_history(history: Any, *, held_out: Any, metrics: Any, **reading: Any) -> Trajectory:
    """The one run of a history that a program holds; see :meth:`Trajectory.from_history`."""
    from checkwise.readers import log_runs
    from checkwise.readers.history import has_lists, open_history, plain

    request, place = Request.of(held_out, metrics, **reading), Path("history")
    document = plain(getattr(history, "history", history))
    document = {"records": document} if isinstance(document, list) else document
    if not has_lists(document):
        raise InputError(
            "Expected a history, {name: list} or {set: {metric: list}}, but got "
            f"{shown(history)}: pass what `fit` or `evals_result` returned."
        )
    log = open_history(document, place, request)
    log = replace(log, trainer=replace(log.trainer, folders=()))  # no file is looked for
    runs = log_runs.read([log], request, place)
    if not runs:
        raise request.left_out[0]
    return runs[0].trajectory


def load_runs(
    path: str | Path | Any,
    *,
    held_out: str | Iterable[str] | None = None,
    sources: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    metrics: str | Iterable[str] = (),
    n: int | Mapping[str, int] | None = None,
    checkpoints: str | None = None,
    include_unsaved: bool = False,
    validation: Validation | None = None,
    bins: int = BINS,
    bandwidth: float = BANDWIDTH,
    progress: Progress | None = None,
) -> dict[RunKey, Trajectory]:
    """Read every run of a sweep folder, a log that holds several, or a table with run columns.

    An Optuna study is read as well, as the live object or its sqlite file: trials are runs, what
    they report their logs; ``columns={"accuracy": "value"}`` says what that is.

    A run without a name of its own (a predictions folder, a table without run columns) is named
    after its place: ``RunKey(dataset=<path below the folder>, algorithm="run", …)``. Runs of one
    configuration in several folders get the folder's name: ``RunKey(dataset="<folder>/PACS", …)``.

    Raises:
        InputError: there is nothing readable, or one folder holds a configuration twice.
    """
    request = Request.of(
        held_out, metrics, sources=sources, columns=columns, n=n, checkpoints=checkpoints,
        include_unsaved=include_unsaved, validation=validation, bins=bins, bandwidth=bandwidth,
        progress=progress,
    )  # fmt: skip
    if hasattr(path, "study_name"):
        from checkwise.readers import optuna

        place, study = Path(printable(path.study_name)), optuna.read_study(path, request)
        runs = by_key(place, _accepted(study, place, request))
    else:
        runs = find_runs(Path(path), request)
    return {key: run.trajectory for key, run in runs.items()}


def find_runs(root: Path, request: Request) -> dict[RunKey, LoadedRun]:
    """Every run with the place it came from."""
    return by_key(root, _load_all(root, request))


def input_files(root: Path) -> list[Path]:
    """The tables and logs that the runs of a path are read from, without reading them.

    A folder of saved outputs, and a run of checkwise, have none.
    """
    if root.is_file():
        return [root] if reader_of(root) is not None else []
    if not root.is_dir():
        return []
    return sorted(results_below(root))


def _load_all(path: Path, request: Request) -> list[LoadedRun]:
    runs = _read(path, request)
    if not request.reads_otherwise and (len(runs) > 1 or any(run.is_of_callback for run in runs)):
        from checkwise.readers import one_training  # which one log of a trainer's needs not

        runs = one_training.once(runs, request)
    return _accepted(runs, path, request)


def _accepted(runs: list[LoadedRun], path: Path, request: Request) -> list[LoadedRun]:
    """The runs, with a warning of those that are left out; an error where none is left."""
    left_out = request.left_out
    if left_out and not runs:
        raise left_out[0]
    if left_out:
        total = len(runs) + len(left_out)
        said = f"{len(left_out)} of {total} runs in {path} are left out: {left_out[0]}"
        warnings.warn(said, CheckwiseWarning, stacklevel=4)
    if request.validation is not None:
        from checkwise.readers.run_folder import check_own

        check_own(runs, request)
    if not any(run.trajectory.columns for run in runs):
        is_journal = any(run.trajectory.chosen_by for run in runs)
        request.refuse_log_options(path, is_journal=is_journal)
    warning = impossible_accuracy(runs)
    if warning is not None:
        warnings.warn(warning, CheckwiseWarning, stacklevel=4)
    return runs


def _read(path: Path, request: Request) -> list[LoadedRun]:
    try:
        if not os.path.lexists(path):
            path = latest_attempt(path)  # a run that is not published yet
        if not path.exists():
            raise InputError(f"There is no file or folder {str(path)!r}.", code="missing")
        if is_held_out_place(path):
            raise InputError(
                f"Expected what selection may read, but {path} holds results on a held-out domain: "
                "name the folder of the run.",
                code="held-out",
            )
        if path.is_file():
            return read_file(path, request)
        if not path.is_dir():
            raise InputError(
                f"Expected a file or a folder, but {path} is a pipe or a device: save it "
                "to a file.",
                code="unsupported",
            )
        return read_below(path, request)
    except (OSError, ValueError) as error:
        # A folder that cannot be listed, a name with a null byte.
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"Expected a readable path, but got {path!s:.200} ({error}).", code="system"
        ) from None
