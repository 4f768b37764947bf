"""``load`` and ``load_runs``: from a path to trajectories, whatever kind of input is there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics.settings import BANDWIDTH, BINS
from checkwise.readers import (
    domainbed,
    imported_copies,
    impossible_accuracies,
    live_journal,
    predictions_folder,
    run_folder,
)
from checkwise.readers.files import LOG_SUFFIXES, file_reader, logs_in
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.logs import log_runs
from checkwise.readers.logs.openers import EVENTS, OPENERS, Opener
from checkwise.readers.logs.trackers.sqlite_file import is_database
from checkwise.readers.request import LoadedRun, Progress, Request
from checkwise.readers.run_keys import by_key
from checkwise.records import RunKey, Trajectory
from checkwise.records.held_out import is_held_out_word, is_target_folder
from checkwise.store import predictions_record
from checkwise.store.layout import PACKED, is_held_out
from checkwise.store.live_journal import live_journals
from checkwise.text import counted

DEEPEST = 32  # levels of folders that are looked through for runs
MOST_FOLDERS = 100_000
ACCEPTED = (
    "a run or cohort folder of checkwise, a trainer's log, a table of metrics (.csv, .parquet, "
    ".jsonl), a predictions folder (step-000100/<domain>.npz), a DomainBed or SWAD results.jsonl, "
    "or a folder of such runs"
)


class HeldOutFolderError(InputError):
    """Predictions that the name of a folder above them holds out."""


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
        bins, bandwidth: settings of the calibration errors, where they are computed from outputs.
        progress: called with checkpoints done and in all, where outputs are evaluated.

    Raises:
        InputError: there is nothing readable, or more than one run.
    """
    settings = {
        "n": n,
        "checkpoints": checkpoints,
        "include_unsaved": include_unsaved,
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
            "use load_runs, or `checkwise select`, which chooses in each."
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
    folders = (folder for folder, reader in _run_folders(root) if reader.recognise is _has_log)
    return sorted(folder / domainbed.LOG for folder in folders)


@dataclass(frozen=True)
class Reader:
    """One kind of folder.

    Args:
        recognise: whether a folder is of this kind.
        read: the runs of one of its parts.
        is_log: whether it is a log's; the folders in it may hold further runs' logs.
        parts: what is read of a folder, if not the folder as a whole.
        own: names of the folders in it that belong to the run.
        beside: whether runs of this kind may lie in the folder of a run of another kind; event
            files there are a second account of that run.
    """

    recognise: Callable[[Path], bool]
    read: Callable[[Path, Request], list[LoadedRun]]
    is_log: bool = False
    parts: Callable[[Path], list[Path]] = lambda folder: [folder]
    own: Callable[[Path], set[str]] = lambda folder: set()
    beside: bool = True


def _has_log(path: Path) -> bool:
    return (path / domainbed.LOG).is_file()


def _read_folder_log(path: Path, request: Request) -> list[LoadedRun]:
    if predictions_folder.recognises(path):
        raise InputError(
            f"Expected one account of a run, but {path} holds {domainbed.LOG} and step folders "
            "with predictions: move the step folders into a folder of their own."
        )
    return read_file(path / domainbed.LOG, request)


def _holds_logs(path: Path) -> bool:
    return path.is_dir() and bool(logs_in(path))


def _read_log(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of one log in a folder; the only log there is called after the folder."""
    runs = read_file(path, request)
    return _in_folder(path.parent, runs) if len(logs_in(path.parent)) == 1 else runs


def _opened(opener: Opener) -> Reader:
    def read(path: Path, request: Request) -> list[LoadedRun]:
        return _in_folder(path, log_runs.read(opener.open_logs(path), request))

    return Reader(opener.recognises, read, is_log=True, own=opener.own, beside=opener.beside)


def _in_folder(path: Path, runs: list[LoadedRun]) -> list[LoadedRun]:
    """Runs that have no name of their own are called after the folder."""
    return [replace(run, where=str(path)) for run in runs]


# In order; the first that recognises a folder reads it.
READERS: list[Reader] = [
    Reader(run_folder.recognises, run_folder.read),
    Reader(live_journal.recognises, live_journal.read, parts=live_journals, own=live_journal.own),
    Reader(_has_log, _read_folder_log, is_log=True),
    Reader(predictions_folder.recognises, predictions_folder.read),
    *map(_opened, OPENERS),
    Reader(_holds_logs, _read_log, is_log=True, parts=logs_in),
    _opened(EVENTS),
]


def _load_all(path: Path, request: Request) -> list[LoadedRun]:
    runs = _read(path, request)
    if not any(run.trajectory.columns for run in runs):
        request.refuse_log_options(path)
    warning = impossible_accuracies.warning(runs)
    if warning is not None:
        warnings.warn(warning, CheckwiseWarning, stacklevel=3)
    return runs


def _read(path: Path, request: Request) -> list[LoadedRun]:
    try:
        if not path.exists():
            raise InputError(
                f"Expected {ACCEPTED}, but there is nothing at {path}: check the path."
            )
        if is_held_out(path):
            raise InputError(
                f"Expected what selection may read, but {path} holds results on a held-out domain: "
                "name the folder of the run."
            )
        if path.is_file():
            return read_file(path, request)
        if not path.is_dir():
            raise InputError(
                f"Expected a file or a folder, but {path} is a pipe or a device: save it to a file."
            )
        return _below(path, request)
    except (OSError, ValueError) as error:
        # A folder that cannot be listed, a name with a null byte.
        if isinstance(error, InputError):
            raise
        raise InputError(f"Expected a readable path, but got {path!s:.200} ({error}).") from None


def read_file(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table or log."""
    reader = file_reader(path)
    if reader is not None:
        return reader.read(path, request)
    if path.name.endswith(PACKED):
        raise InputError(
            f"Expected {ACCEPTED}, but {path} is an archive: unpack it with "
            f"`checkwise unpack {path} --out FOLDER`, then name the folder."
        )
    if is_database(path):
        raise InputError(
            f"Expected a store of MLflow or Trackio, but {path} is a database that is damaged, or "
            "of another program: check the path, or take a copy that is whole."
        )
    if domainbed.is_console(path):
        raise InputError(
            f"Expected a run's {domainbed.LOG}, but {path} is what DomainBed printed on the "
            f"console, where the lines of several runs may be mixed: give the folder that holds "
            f"{domainbed.LOG}."
        )
    raise InputError(f"Expected {ACCEPTED}, but {path} is none of these: check the path.")


def _below(root: Path, request: Request) -> list[LoadedRun]:
    """Every run in a folder and the folders in it."""
    runs: list[LoadedRun] = []
    left_out: list[InputError] = []
    for folder, reader in _without_copies(root):
        is_domainbed = reader.recognise is _has_log
        for part in reader.parts(folder):
            try:
                _check_place(root, folder, reader)
                runs += reader.read(part, request)
            except (NoRecordsError, HeldOutFolderError) as error:
                left_out.append(error)
            except InputError as error:
                # A folder of trainings may hold logs that cannot be chosen from.
                if not reader.is_log or is_domainbed:
                    raise
                left_out.append(error)
    if not runs and left_out:
        raise left_out[0]
    if not runs:
        _refuse_only_file(root, request)
        raise InputError(
            f"Expected {ACCEPTED}, but the folder {root} holds none of these: check the path, "
            "or name the file."
        )
    if left_out:
        total = len(runs) + len(left_out)
        warnings.warn(
            f"{len(left_out)} of {total} runs in {root} are left out: {left_out[0]}",
            CheckwiseWarning,
            stacklevel=5,
        )
    return runs


def _refuse_only_file(root: Path, request: Request) -> None:
    """Say why the only table or text in a folder is no log that can be chosen from."""
    if (root / predictions_record.RECORD).is_file():
        raise InputError(
            f"Expected predictions, but {root} holds none yet: run `checkwise predict` again, and "
            "look at what it says."
        )
    files = [path for path in sorted(root.iterdir()) if path.suffix.lower() in LOG_SUFFIXES]
    if len(files) == 1 and files[0].is_file():
        read_file(files[0], request)


def _without_copies(root: Path) -> list[tuple[Path, Reader]]:
    """The run folders below a root, without those imported from logs that are read as well."""
    folders = list(_run_folders(root))
    logs = [folder / domainbed.LOG for folder, reader in folders if reader.recognise is _has_log]
    runs = [folder for folder, reader in folders if reader.read is run_folder.read]
    copies = imported_copies.copies(runs, logs)
    if copies:
        warnings.warn(
            f"{counted(len(copies), 'run')} in {copies[0].parent.parent} are left out: they were "
            f"imported from logs in {root} that are read as well.",
            CheckwiseWarning,
            stacklevel=6,
        )
    return [(folder, reader) for folder, reader in folders if folder not in copies]


def _check_place(root: Path, folder: Path, reader: Reader) -> None:
    """Refuse predictions in a folder called after a target; logs name their own targets."""
    if reader.read is not predictions_folder.read:
        return
    for name in folder.relative_to(root).parts:
        if is_held_out_word(name):
            raise HeldOutFolderError(
                f"Expected predictions on validation sets, but those in {folder} lie in a folder "
                f"called {name!r}: if they are validation, name that folder itself."
            )


def _run_folders(root: Path) -> Iterator[tuple[Path, Reader]]:
    """Folders with a reader for each; every folder once, down to a limited depth and number."""
    seen: set[tuple[int, int]] = set()
    waiting = [(root, 0, READERS)]
    too_deep: Path | None = None
    while waiting:
        folder, depth, readers = waiting.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            continue
        seen.add((status.st_dev, status.st_ino))
        if len(seen) > MOST_FOLDERS:
            raise InputError(
                f"Expected at most {MOST_FOLDERS:,} folders below {root}, but there are more: name "
                "a folder nearer to the runs."
            )
        reader = next((reader for reader in readers if reader.recognise(folder)), None)
        if reader is not None:
            yield folder, reader
            # A log's folder may hold further runs' logs, but its predictions are the same run's.
            readers = [r for r in READERS if r.is_log and (r.beside or r is reader)]
        with os.scandir(folder) as entries:
            below = sorted((entry.name for entry in entries if _is_folder(entry)), reverse=True)
        if depth == DEEPEST and below:
            too_deep = folder
            continue
        if reader is not None:
            own = reader.own(folder)
            below = [name for name in below if name not in own]
        waiting += [(folder / f, depth + 1, readers) for f in below if not is_target_folder(f)]
    if too_deep is not None:
        warnings.warn(
            f"Folders more than {DEEPEST} levels below {root} are not read: to read those in "
            f"{str(too_deep)[:200]}, name that folder.",
            CheckwiseWarning,
            stacklevel=6,
        )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
