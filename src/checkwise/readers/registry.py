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
from checkwise.readers import csv_file
from checkwise.readers.log import Log
from checkwise.readers.request import (
    JSON_SUFFIXES,
    RESULTS_FILE,
    LoadedRun,
    NoRecordsError,
    Request,
    first_bytes,
    names_in,
)
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
    """The reader in a module, which is loaded where a path could be of its kind.

    Args:
        name: the module.
        holds: a name that folders of this kind hold.
        called: what its files are called.
        begins: how they begin.
        could_be: whether a path could be of it, where that cannot be said so.
    """

    name: str
    holds: str = "(?!)"
    called: str = "(?!)"
    begins: bytes = b"(?!)"
    could_be: Callable[[Path], bool] = lambda path: False

    @property
    def module(self) -> Any:
        return import_module(f"checkwise.readers.{self.name}")

    def recognises(self, path: Path) -> bool:
        could_be = (
            re.fullmatch(self.called, path.name, re.IGNORECASE)
            or re.match(self.begins, first_bytes(path, 64))
            or any(re.fullmatch(self.holds, name, re.IGNORECASE) for name in names_in(path))
            or self.could_be(path)
        )
        return bool(could_be and self.module.recognises(path))

    def read(self, path: Path, request: Request) -> Sequence[LoadedRun | Log]:
        found: Sequence[LoadedRun | Log] = self.module.read(path, request)
        return found


def _could_be_mlflow(path: Path) -> bool:
    return any((path / name / "meta.yaml").is_file() for name in (".", *names_in(path)))


def _could_be_chart(path: Path) -> bool:
    tables = (path / name for name in names_in(path) if name.lower().endswith(".csv"))
    return any(b"__M" in first_bytes(table, 1 << 16) for table in (path, *tables))


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
        if path.suffix.lower() in JSON_SUFFIXES:
            return bool(json_log.module.is_log(path))
        return csv_file.is_log(path) or reader_of(path, [*TRACKERS, tensorboard]) is not None


RESULTS: Reader = _Results()
_JSON = rb"(?:\xef\xbb\xbf)?\s*[{\[]"
_SQLITE = b"SQLite format 3\0"
_EPOCH = r"metrics_epoch_[0-9]+\.json"
run_folder = _Late("run_folder", holds="|".join((RUN_FILE, SOURCE_FILE, DONE_FILE)))
live_journal = _Late("live_journal", holds=r".*\.jsonl", begins=rb'\{"checkwise"')
predictions = _Late("predictions", holds="step[-_]?[0-9]+")
transformers = _Late("transformers", holds=r"trainer_state\.json|checkpoint-[0-9]+")
mlflow_folder = _Late("mlflow_folder", could_be=_could_be_mlflow)
tensorboard = _Late(
    "tensorboard",
    holds=".*tfevents.*|train|validation|valid|val|eval|test",
    called=r"events\.out\.tfevents.*",
    begins=rb"(?s:.{4})\0{4}",  # a length of eight bytes, of which few are used
)
json_log = _Late("json_log", called=r".*\.(json|jsonl|ndjson)", begins=_JSON)
catboost = _Late(
    "catboost",
    holds=r"catboost_training\.json|test_error\.tsv",
    called=r"(test|learn)_error\.tsv",
    begins=_JSON,
)
dvclive = _Late("dvclive", holds="plots", called=r"metrics\.json")
TRACKERS: list[Reader] = [
    transformers,
    _Late("mlflow_db", begins=_SQLITE),
    _Late("trackio", begins=_SQLITE),
    _Late("optuna", begins=_SQLITE),
    mlflow_folder,
    _Late("ray", holds=r"result\.json|checkpoint_manager_snapshot\.json", begins=_JSON),
    _Late("wandb_offline", holds=r".*\.wandb", begins=b":W&B"),
    _Late("wandb_csv", could_be=_could_be_chart),
    catboost,
    _Late("mm", holds=r"scalars\.json|.*\.log\.json", called=r".*\.json"),
    dvclive,
    _Late("detectron2", holds=r"metrics\.json", begins=_JSON),
    _Late("allennlp", holds=_EPOCH, called=_EPOCH),
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
    _Late("parquet", called=r".*\.(parquet|pq)", begins=b"PAR1"),
    _Late("console", called=r"\.?[^.]*\.?|.*\.(txt|log|out|err|stdout|stderr)"),
    json_log,
    csv_file,
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
            f"Expected a folder, a log or a table, but {path} is an archive: unpack it with "
            f"`checkwise study unpack {path} --out FOLDER`, then name the folder.",
            code="unsupported",
        )
    if first_bytes(path, 16).startswith(_SQLITE):
        from checkwise.readers import stores

        stores.read(path, lambda _: None)  # which says so where it is being written
    raise InputError(
        f"{path} is no log that is known, or damaged; checkwise reads what trainers write "
        "(docs/logs.md), stores of MLflow, Trackio and Optuna, tables of metrics (.csv, .parquet, "
        ".jsonl) and predictions: give one of these, or the training's folder.",
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
        # The only table or text there says why it is no log that can be chosen from.
        files = [path for path in sorted(root.iterdir()) if path.suffix.lower() in LOG_SUFFIXES]
        if len(files) == 1 and files[0].is_file() and not (root / store.RECORD).is_file():
            runs = read_file(files[0], request)
    if runs or request.left_out:
        return runs
    if (root / store.RECORD).is_file():
        raise InputError(
            f"Expected predictions, but {root} holds none yet: run `checkwise predict` again, and "
            "look at what it says.",
            code="missing",
        )
    raise InputError(
        f"{root} holds no log, table of metrics or predictions that checkwise reads "
        "(docs/logs.md): check the path, or name the file.",
        code="missing",
    )


def _check_place(root: Path, folder: Path, request: Request) -> None:
    """Refuse predictions in a folder called after a target; logs name their own targets."""
    from checkwise.readers.tables import is_of_a_target

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
