"""Every kind of input that is read, in one list, and what is read of a file or a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import (
    csv_log,
    domainbed,
    files,
    json_log,
    live_journal,
    log_runs,
    mlflow_db,
    mlflow_folder,
    predictions,
    ray,
    run_folder,
    tensorboard,
    trackio,
    transformers,
    wandb_csv,
    wandb_offline,
)
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.log import Log
from checkwise.readers.request import LoadedRun, Request
from checkwise.readers.stores import is_database
from checkwise.records import SET_WORDS, as_source, is_held_out_word, is_target_folder
from checkwise.store import RECORD, fingerprint, layout, open_regular, read_run
from checkwise.words import counted

ACCEPTED = (
    "a run or study folder of checkwise, a trainer's log, a table of metrics (.csv, .parquet, "
    ".jsonl), a predictions folder (step-000100/<domain>.npz), a DomainBed or SWAD results.jsonl, "
    "or a folder of such runs"
)
# Files of a folder that are looked into; a file that the caller names may be called anything.
LOG_SUFFIXES = (".csv", ".log", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".db", ".sqlite")
DEEPEST = 32  # levels of folders that are looked through for runs
MOST_FOLDERS = 100_000
# Beside `test` in the name of a folder of predictions; `test_of_lr` is a trial.
OUTPUT_WORDS = (
    "pred", "preds", "prediction", "predictions", "logits", "probs", "outputs", "results", "on",
)  # fmt: skip


class HeldOutFolderError(InputError):
    """Predictions that the name of a folder above them holds out."""


class Logs(Protocol):
    """A module that reads one kind of log: the least that a new format needs."""

    def recognises(self, path: Path) -> bool:
        """Whether a file, or a folder as a whole, is of this kind, by its name and first bytes."""

    def open_logs(self, path: Path) -> list[Log]:
        """Its logs, one for each run."""


@dataclass(frozen=True)
class Reader:
    """One kind of input.

    Args:
        recognises: whether a file, or a folder as a whole, is of this kind.
        read: its runs.
        is_log: whether it is a log; folders in its folder may hold further runs' logs.
        own: names of the folders in its folder that belong to its runs.
        beside: whether runs of this kind may lie in the folder of a run of another kind; event
            files there are a second account of that run.
    """

    recognises: Callable[[Path], bool]
    read: Callable[[Path, Request], list[LoadedRun]]
    is_log: bool = True
    own: Callable[[Path], set[str]] = lambda folder: set()
    beside: bool = True


def _logs(
    module: Logs, own: Callable[[Path], set[str]] = lambda folder: set(), *, beside: bool = True
) -> Reader:
    def read(path: Path, request: Request) -> list[LoadedRun]:
        runs = log_runs.read(module.open_logs(path), request)
        return _called_after(path, runs) if path.is_dir() else runs

    return Reader(module.recognises, read, own=own, beside=beside)


def _called_after(folder: Path, runs: Iterable[LoadedRun]) -> list[LoadedRun]:
    return [replace(run, where=str(folder)) for run in runs]


def _names_in(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def _holds_results(path: Path) -> bool:
    return (path / domainbed.LOG).is_file()


def _read_results(path: Path, request: Request) -> list[LoadedRun]:
    if predictions.recognises(path):
        raise InputError(
            f"Expected one account of a run, but {path} holds {domainbed.LOG} and step folders "
            "with predictions: move the step folders into a folder of their own.",
            code="ambiguous",
        )
    return read_file(path / domainbed.LOG, request)


def _holds_logs(path: Path) -> bool:
    return path.is_dir() and bool(_logs_in(path))


def _read_logs(folder: Path, request: Request) -> list[LoadedRun]:
    """The runs of the logs in a folder, without the logs that cannot be chosen from."""
    paths = _logs_in(folder)
    runs: list[LoadedRun] = []
    for path in paths:
        try:
            runs += read_file(path, request)
        except InputError as error:
            request.left_out.append(error)
    return _called_after(folder, runs) if len(paths) == 1 else runs


RUNS = Reader(run_folder.recognises, run_folder.read, is_log=False)
RESULTS = Reader(_holds_results, _read_results)
PREDICTIONS = Reader(predictions.recognises, predictions.read, is_log=False)
TRACKERS = [
    _logs(transformers, transformers.checkpoints),
    _logs(mlflow_db),
    _logs(trackio),
    _logs(mlflow_folder, _names_in),
    _logs(ray),
    _logs(wandb_offline),
    _logs(wandb_csv),
]
# Last among folders: the same run is often logged in a table beside its events.
EVENTS = _logs(tensorboard, tensorboard.own_folders, beside=False)
# In order, the most specific first; the first that recognises a file or folder reads it.
READERS = [
    RUNS,
    Reader(live_journal.recognises, live_journal.read, is_log=False, own=_names_in),
    RESULTS,
    PREDICTIONS,
    *TRACKERS,
    Reader(_holds_logs, _read_logs),
    EVENTS,
    Reader(files.is_parquet, files.read_parquet),
    Reader(files.is_json, files.read_json),
    Reader(files.is_csv, files.read_csv),
]


def reader_of(path: Path, readers: Sequence[Reader] = READERS) -> Reader | None:
    """The reader of a file or folder, None where nobody recognises it."""
    return next((reader for reader in readers if reader.recognises(path)), None)


def read_file(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table or log."""
    open_regular(path).close()  # who cannot read a file would not recognise it
    reader = reader_of(path)
    if reader is not None:
        return reader.read(path, request)
    if path.name.endswith(layout.PACKED_SUFFIX):
        raise InputError(
            f"Expected {ACCEPTED}, but {path} is an archive: unpack it with "
            f"`checkwise study unpack {path} --out FOLDER`, then name the folder.",
            code="unsupported",
        )
    if is_database(path):
        raise InputError(
            f"Expected a store of MLflow or Trackio, but {path} is a database that is damaged, or "
            "of another program: check the path, or take a copy that is whole.",
            code="format",
        )
    if domainbed.is_console(path):
        raise InputError(
            f"Expected a run's {domainbed.LOG}, but {path} is what DomainBed printed on the "
            f"console, where the lines of several runs may be mixed: give the folder that holds "
            f"{domainbed.LOG}.",
            code="ambiguous",
        )
    raise InputError(
        f"Expected {ACCEPTED}, but {path} is none of these: check the path.", code="format"
    )


def _logs_in(folder: Path) -> list[Path]:
    """The trainers' logs that lie directly in a folder, in order of their names."""
    names = sorted(name for name in os.listdir(folder) if name.lower().endswith(LOG_SUFFIXES))
    return [folder / name for name in names if _is_log(folder / name)]


def _is_log(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix.lower() in files.JSON_SUFFIXES:
        return json_log.is_log(path)
    return csv_log.is_log(path) or any(one.recognises(path) for one in (*TRACKERS, EVENTS))


def results_below(root: Path) -> list[Path]:
    """DomainBed's and SWAD's logs below a folder, without reading them."""
    return [folder / domainbed.LOG for folder, reader in _walk(root) if reader is RESULTS]


def read_below(root: Path, request: Request) -> list[LoadedRun]:
    """Every run in a folder and the folders in it, but for those in ``request.left_out``."""
    runs: list[LoadedRun] = []
    for folder, reader in _without_copies(root):
        try:
            if reader is PREDICTIONS:
                _check_place(root, folder, request)
            runs += reader.read(folder, request)
        except (NoRecordsError, HeldOutFolderError) as error:
            request.left_out.append(error)
        except InputError as error:
            # A folder of trainings may hold logs that cannot be chosen from.
            if not reader.is_log or reader is RESULTS:
                raise
            request.left_out.append(error)
    if not runs and not request.left_out:
        _refuse_only_file(root, request)
        if request.left_out:
            return []
        raise InputError(
            f"Expected {ACCEPTED}, but the folder {root} holds none of these: check the path, "
            "or name the file.",
            code="missing",
        )
    return runs


def _refuse_only_file(root: Path, request: Request) -> None:
    """Say why the only table or text in a folder is no log that can be chosen from."""
    if (root / RECORD).is_file():
        raise InputError(
            f"Expected predictions, but {root} holds none yet: run `checkwise predict` again, and "
            "look at what it says.",
            code="missing",
        )
    paths = [path for path in sorted(root.iterdir()) if path.suffix.lower() in LOG_SUFFIXES]
    if len(paths) == 1 and paths[0].is_file():
        read_file(paths[0], request)


def _check_place(root: Path, folder: Path, request: Request) -> None:
    """Refuse predictions in a folder called after a target; logs name their own targets."""
    for name in (root.name, root.resolve().name, *folder.relative_to(root).parts):
        if not is_held_out_word(name, {*SET_WORDS, *OUTPUT_WORDS}):
            continue
        names = predictions.domains(folder) - {*request.held_out, *request.sources}
        if names:
            raise HeldOutFolderError(
                f"Expected predictions on validation sets, but those in {folder} lie in a folder "
                f"called {name!r}: if they are validation, name that folder itself and "
                f"{as_source(min(names))}.",
                code="held-out",
            )


def _without_copies(root: Path) -> list[tuple[Path, Reader]]:
    """The run folders below a root, without those imported from logs that are read as well."""
    folders = list(_walk(root))
    logs = [(folder / domainbed.LOG).resolve() for folder, reader in folders if reader is RESULTS]
    origins = {f: _origin(f) for f, reader in folders if reader is RUNS and logs}
    present = {fingerprint(f.parent, f.name)["sha256"] for f in logs if any(origins.values())}
    copies = [folder for folder, sha256 in origins.items() if sha256 in present]
    if copies:
        warnings.warn(
            f"{counted(len(copies), 'run')} in {copies[0].parent.parent} are left out: they were "
            f"imported from logs in {root} that are read as well.",
            CheckwiseWarning,
            stacklevel=6,
        )
    return [(folder, reader) for folder, reader in folders if folder not in copies]


def _origin(run: Path) -> str | None:
    """The SHA-256 of the log that a run was imported from."""
    try:
        origin = read_run(run).config.get(layout.ORIGIN)
    except InputError:  # whoever reads the run says what is wrong with it
        return None
    return origin.get("sha256") if isinstance(origin, dict) else None


def _walk(root: Path) -> Iterator[tuple[Path, Reader]]:
    """Folders with a reader for each; every folder once, down to a limited depth and number."""
    seen: set[tuple[int, int]] = set()
    waiting: list[tuple[Path, int, Sequence[Reader]]] = [(root, 0, READERS)]
    without_runs = 0
    too_deep: Path | None = None
    while waiting:
        folder, depth, readers = waiting.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            continue
        seen.add((status.st_dev, status.st_ino))
        reader = reader_of(folder, readers)
        without_runs += reader is None
        if without_runs > MOST_FOLDERS:
            raise InputError(
                f"Expected at most {MOST_FOLDERS:,} folders without runs below {root}, but there "
                "are more: name a folder nearer to the runs.",
                code="unsupported",
            )
        if reader is not None:
            yield folder, reader
            # A log's folder may hold further runs' logs, but its predictions are the same run's.
            readers = [r for r in READERS if r.is_log and (r.beside or r is reader)]
        with os.scandir(folder) as entries:
            below = sorted((entry.name for entry in entries if _is_folder(entry)), reverse=True)
        if depth == DEEPEST and below:
            too_deep = folder
            continue
        if layout.ATTEMPTS_FOLDER in below and (folder / layout.COHORT_FILE).is_file():
            below.remove(layout.ATTEMPTS_FOLDER)
            waiting += [(attempt, depth + 1, readers) for attempt in layout.unpublished(folder)]
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
