"""``load`` and ``load_runs``: from a path to trajectories, whatever kind of input is there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.readers import impossible_accuracies, one_training
from checkwise.readers.files import ACCEPTED, file_reader, read_file
from checkwise.readers.folders import domainbed_logs, read_below
from checkwise.readers.request import LoadedRun, Progress, Request
from checkwise.readers.run_folder import check_own
from checkwise.readers.run_keys import by_key
from checkwise.records import RunKey, Trajectory
from checkwise.store.attempts import latest
from checkwise.store.layout import is_held_out
from checkwise.store.validation import Validation


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
    settings = {
        "n": n,
        "checkpoints": checkpoints,
        "include_unsaved": include_unsaved,
        "validation": validation,
        "bins": bins,
        "bandwidth": bandwidth,
        "progress": progress,
    }
    request = Request.of(held_out, metrics, sources=sources, columns=columns, **settings)
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


def load_runs(
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
) -> dict[RunKey, Trajectory]:
    """Read every run of a sweep folder, a log that holds several, or a table with run columns.

    A run without a name of its own (a predictions folder, a table without run columns) is named
    after its place: ``RunKey(dataset=<path below the folder>, algorithm="run", …)``. Runs of one
    configuration in several folders get the folder's name: ``RunKey(dataset="<folder>/PACS", …)``.

    Raises:
        InputError: there is nothing readable, or one folder holds a configuration twice.
    """
    root = Path(path)
    settings = {
        "n": n,
        "checkpoints": checkpoints,
        "include_unsaved": include_unsaved,
        "validation": validation,
        "bins": bins,
        "bandwidth": bandwidth,
        "progress": progress,
    }
    request = Request.of(held_out, metrics, sources=sources, columns=columns, **settings)
    return {key: run.trajectory for key, run in find_runs(root, request).items()}


def find_runs(root: Path, request: Request) -> dict[RunKey, LoadedRun]:
    """Every run with the place it came from."""
    return by_key(root, _load_all(root, request))


def input_files(root: Path) -> list[Path]:
    """The tables and logs that the runs of a path are read from, without reading them.

    A folder of saved outputs, and a run of checkwise, have none.
    """
    if root.is_file():
        return [root] if file_reader(root) is not None else []
    if not root.is_dir():
        return []
    return sorted(domainbed_logs(root))


def _load_all(path: Path, request: Request) -> list[LoadedRun]:
    runs = one_training.once(_read(path, request), request)
    left_out = request.left_out
    if left_out and not runs:
        raise left_out[0]
    if left_out:
        total = len(runs) + len(left_out)
        said = f"{len(left_out)} of {total} runs in {path} are left out: {left_out[0]}"
        warnings.warn(said, CheckwiseWarning, stacklevel=3)
    check_own(runs, request)
    if not any(run.trajectory.columns for run in runs):
        is_journal = any(run.trajectory.chosen_by for run in runs)
        request.refuse_log_options(path, is_journal=is_journal)
    warning = impossible_accuracies.warning(runs)
    if warning is not None:
        warnings.warn(warning, CheckwiseWarning, stacklevel=3)
    return runs


def _read(path: Path, request: Request) -> list[LoadedRun]:
    try:
        if not os.path.lexists(path):
            path = latest(path)  # a run that is not published yet
        if not path.exists():
            raise InputError(
                f"Expected {ACCEPTED}, but there is nothing at {path}: check the path.",
                code="missing",
            )
        if is_held_out(path):
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
