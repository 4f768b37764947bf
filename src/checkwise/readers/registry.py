"""Every kind of input that is read, in one list, and what is read of a file or a folder."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from checkwise import store
from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import csv_log
from checkwise.readers.json_lines import MARK, RESULTS_FILE, SUFFIXES, NoRecordsError
from checkwise.readers.log import Log
from checkwise.readers.request import LoadedRun, Request, first_bytes, names_in
from checkwise.readers.tables import is_of_a_target
from checkwise.records import as_source, is_target_folder
from checkwise.store import (
    ATTEMPTS_FOLDER,
    COHORT_FILE,
    DONE_FILE,
    ORIGIN,
    PACKED_SUFFIX,
    RUN_FILE,
    SOURCE_FILE,
    open_regular,
    unpublished_runs,
)
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


class HeldOutFolderError(InputError):
    """Predictions that the name of a folder above them holds out."""


class Reader(Protocol):
    """One kind of input. A new one is a module with these two functions, and its line below."""

    def recognises(self, path: Path, /) -> bool:
        """Whether a file, or a folder as a whole, is of this kind, by its name and first bytes."""

    def read(self, path: Path, request: Request, /) -> Sequence[LoadedRun | Log]:
        """Its runs, or the log of each: then columns, units and checkpoints are found for it."""


@dataclass(frozen=True)
class _Late:
    """The reader in a module, which is loaded where a path could be of its kind."""

    name: str
    could_be: Callable[[Path], bool]

    @property
    def module(self) -> Any:
        return import_module(f"checkwise.readers.{self.name}")

    def recognises(self, path: Path) -> bool:
        return self.could_be(path) and bool(self.module.recognises(path))

    def read(self, path: Path, request: Request) -> Sequence[LoadedRun | Log]:
        found: Sequence[LoadedRun | Log] = self.module.read(path, request)
        return found


def _begins(*starts: bytes) -> Callable[[Path], bool]:
    """Files that begin so."""
    return lambda path: first_bytes(path, max(map(len, starts))).startswith(starts)


def _begins_json(path: Path) -> bool:
    return first_bytes(path, 64).removeprefix(MARK).lstrip()[:1] in (b"{", b"[")


def _has(pattern: str) -> Callable[[Path], bool]:
    """Folders with a name like this in them."""
    name = re.compile(pattern, re.IGNORECASE)
    return lambda path: any(map(name.fullmatch, names_in(path)))


def _is(pattern: str) -> Callable[[Path], bool]:
    """Files that are called so."""
    name = re.compile(pattern, re.IGNORECASE)
    return lambda path: name.fullmatch(path.name) is not None


def _either(*marks: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda path: any(mark(path) for mark in marks)


def _could_be_mlflow(path: Path) -> bool:
    return any((path / name / "meta.yaml").is_file() for name in (".", *names_in(path)))


def _could_be_chart(path: Path) -> bool:
    tables = (path / name for name in names_in(path) if name.lower().endswith(".csv"))
    return any(b"__M" in first_bytes(table, 1 << 16) for table in (path, *tables))


def _could_be_events(path: Path) -> bool:
    """Event files begin with a length of eight bytes, of which few are used."""
    return path.is_file() and first_bytes(path, 8)[4:] == bytes(4)


class _Results:
    """A folder with DomainBed's, SWAD's or somebody's ``results.jsonl``."""

    def recognises(self, path: Path) -> bool:
        return (path / RESULTS_FILE).is_file()

    def read(self, path: Path, request: Request) -> list[LoadedRun]:
        if predictions.recognises(path):
            raise InputError(
                f"Expected one account of a run, but {path} holds {RESULTS_FILE} and step folders "
                "with predictions: move the step folders into a folder of their own.",
                code="ambiguous",
            )
        return read_file(path / RESULTS_FILE, request)


class _FolderOfLogs:
    """A folder in which trainers' logs lie; those that cannot be chosen from are left out."""

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and bool(self._logs_in(path))

    def read(self, path: Path, request: Request) -> list[LoadedRun]:
        logs = self._logs_in(path)
        runs: list[LoadedRun] = []
        for log in logs:
            try:
                runs += read_file(log, request)
            except InputError as error:
                request.left_out.append(error)
        return [replace(run, where=str(path)) for run in runs] if len(logs) == 1 else runs

    def _logs_in(self, folder: Path) -> list[Path]:
        names = [name for name in names_in(folder) if name.lower().endswith(LOG_SUFFIXES)]
        return [folder / name for name in names if self._is_log(folder / name)]

    def _is_log(self, path: Path) -> bool:
        if not path.is_file():
            return False
        if path.suffix.lower() in SUFFIXES:
            return bool(json_log.module.is_log(path))
        others = (*TRACKERS, tensorboard)
        return csv_log.is_log(path) or any(reader.recognises(path) for reader in others)


# What is large or rare is loaded where the names in a folder, or how a file begins, could be its.
run_folder = _Late(
    "run_folder",
    _has("|".join(map(re.escape, (RUN_FILE, SOURCE_FILE, DONE_FILE)))),
)
live_journal = _Late("live_journal", _either(_has(r".*\.jsonl"), _begins(b'{"checkwise"')))
RESULTS: Reader = _Results()
predictions = _Late("predictions", _has("step[-_]?[0-9]+"))
transformers = _Late("transformers", _has(r"trainer_state\.json|checkpoint-[0-9]+"))
mlflow_folder = _Late("mlflow_folder", _could_be_mlflow)
tensorboard = _Late(
    "tensorboard",
    _either(
        _has(".*tfevents.*|train|validation|valid|val|eval|test"),
        _is(r"events\.out\.tfevents.*"),
        _could_be_events,
    ),
)
json_log = _Late("json_log", _either(_begins_json, _is(r".*\.(json|jsonl|ndjson)")))
catboost = _Late(
    "catboost",
    _either(
        _has(r"catboost_training\.json|test_error\.tsv"),
        _is(r"(test|learn)_error\.tsv"),
        _begins_json,
    ),
)
dvclive = _Late("dvclive", _either(_has("plots"), _is(r"metrics\.json")))
_EPOCH = r"metrics_epoch_[0-9]+\.json"
TRACKERS: list[Reader] = [
    transformers,
    _Late("mlflow_db", _begins(b"SQLite format 3\0")),
    _Late("trackio", _begins(b"SQLite format 3\0")),
    _Late("optuna", _begins(b"SQLite format 3\0")),
    mlflow_folder,
    _Late("ray", _either(_has(r"result\.json|checkpoint_manager_snapshot\.json"), _begins_json)),
    _Late("wandb_offline", _either(_has(r".*\.wandb"), _begins(b":W&B"))),
    _Late("wandb_csv", _could_be_chart),
    catboost,
    _Late("mm", _either(_has(r"scalars\.json|.*\.log\.json"), _is(r".*\.json"))),
    dvclive,
    _Late("detectron2", _either(_has(r"metrics\.json"), _begins_json)),
    _Late("allennlp", _either(_has(_EPOCH), _is(_EPOCH))),
]
# In order, the most specific first; the first that recognises a file or folder reads it.
READERS: list[Reader] = [
    run_folder,
    live_journal,
    RESULTS,
    predictions,
    *TRACKERS,
    _FolderOfLogs(),
    tensorboard,  # last among folders: the same run is often logged in a table beside its events
    _Late("parquet", _either(_begins(b"PAR1"), _is(r".*\.(parquet|pq)"))),
    _Late("console", _is(r"\.?[^.]*\.?|.*\.(txt|log|out|err|stdout|stderr)")),
    json_log,
    csv_log,
]
# In the folder of a run of these, no folder holds another run's log.
NO_LOGS: list[Reader] = [run_folder, live_journal, predictions]
# These say which folders in a run's folder belong to that run, or to all that were read there.
OWN_FOLDERS = (live_journal, transformers, mlflow_folder, tensorboard, catboost, dvclive)


def reader_of(path: Path, readers: Sequence[Reader] = READERS) -> Reader | None:
    """The reader of a file or folder, None where nobody recognises it."""
    return next((reader for reader in readers if reader.recognises(path)), None)


def _read(reader: Reader, path: Path, request: Request) -> list[LoadedRun]:
    found = reader.read(path, request)
    runs = [one for one in found if isinstance(one, LoadedRun)]
    logs = [one for one in found if isinstance(one, Log)]
    if logs:
        from checkwise.readers import log_runs  # which runs of one's own need not

        runs += log_runs.read(logs, request, path)
    return runs


def read_file(path: Path, request: Request) -> list[LoadedRun]:
    """The runs of a table or log."""
    open_regular(path).close()  # who cannot read a file would not recognise it
    reader = reader_of(path)
    if reader is not None:
        return _read(reader, path, request)
    if path.name.endswith(PACKED_SUFFIX):
        raise InputError(
            f"Expected {ACCEPTED}, but {path} is an archive: unpack it with "
            f"`checkwise study unpack {path} --out FOLDER`, then name the folder.",
            code="unsupported",
        )
    from checkwise.readers import stores

    if stores.is_database(path):
        stores.read(path, lambda _: None)  # which says so where it is being written
        raise InputError(
            f"Expected a store of MLflow, Trackio or Optuna, but {path} is a database that is "
            "damaged, or of another program: check the path, or take a copy that is whole.",
            code="format",
        )
    raise InputError(
        f"{path} is no log that is known; checkwise reads what trainers write (docs/logs.md), "
        "tables of metrics (.csv, .parquet, .jsonl) and predictions: give one of these, or the "
        "training's folder.",
        code="format",
    )


def results_below(root: Path) -> list[Path]:
    """DomainBed's and SWAD's logs below a folder, without reading them."""
    return [folder / RESULTS_FILE for folder, reader in _walk(root) if reader is RESULTS]


def read_below(root: Path, request: Request) -> list[LoadedRun]:
    """Every run in a folder and the folders in it, but for those in ``request.left_out``."""
    runs: list[LoadedRun] = []
    for folder, reader in _without_copies(root):
        try:
            if reader is predictions:
                _check_place(root, folder, request)
            runs += _read(reader, folder, request)
        except (NoRecordsError, HeldOutFolderError) as error:
            request.left_out.append(error)
        except InputError as error:
            # A folder of trainings may hold logs that cannot be chosen from.
            if reader in NO_LOGS or reader is RESULTS:
                raise
            request.left_out.append(error)
    if not runs and not request.left_out:
        _refuse_only_file(root, request)
        if request.left_out:
            return []
        raise InputError(
            f"{root} holds no log, table of metrics or predictions that checkwise reads "
            "(docs/logs.md): check the path, or name the file.",
            code="missing",
        )
    return runs


def _refuse_only_file(root: Path, request: Request) -> None:
    """Say why the only table or text in a folder is no log that can be chosen from."""
    if (root / store.RECORD).is_file():
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
        if not is_of_a_target(name):
            continue
        names = predictions.module.domains(folder) - {*request.held_out, *request.sources}
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
    logs = [(folder / RESULTS_FILE).resolve() for folder, reader in folders if reader is RESULTS]
    origins = {f: _origin(f) for f, reader in folders if reader is run_folder and logs}
    present = {store.fingerprint(f.parent, f.name)["sha256"] for f in logs if any(origins.values())}
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
        origin = store.read_run(run).config.get(ORIGIN)
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
            # A log's folder may hold further runs' logs, but its predictions are the same run's,
            # and event files there are a second account of it.
            events_too = reader is tensorboard
            readers = [r for r in READERS if r not in NO_LOGS and (events_too or r != tensorboard)]
        with os.scandir(folder) as entries:
            below = sorted((entry.name for entry in entries if _is_folder(entry)), reverse=True)
        if depth == DEEPEST and below:
            too_deep = folder
            continue
        if ATTEMPTS_FOLDER in below and (folder / COHORT_FILE).is_file():
            below.remove(ATTEMPTS_FOLDER)
            waiting += [(attempt, depth + 1, readers) for attempt in unpublished_runs(folder)]
        if isinstance(reader, _Late) and reader in OWN_FOLDERS:
            own = reader.module.own_folders(folder)
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
