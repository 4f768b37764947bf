"""Runs of an imported cohort whose logs lie beside it: read both, and every run counts twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.readers import domainbed, live_journal, log_runs, predictions, run_folder
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.openers import EVENTS, OPENERS, Opener
from checkwise.readers.registry import ACCEPTED, LOG_SUFFIXES, logs_in, read_file
from checkwise.readers.request import LoadedRun, Request
from checkwise.records import SET_WORDS, as_source, is_held_out_word, is_target_folder
from checkwise.store import (
    ATTEMPTS_FOLDER,
    COHORT_FILE,
    ORIGIN,
    RECORD,
    fingerprint,
    live_journals,
    read_run,
    unpublished,
)
from checkwise.words import counted


def imported_copies(runs: Iterable[Path], logs: Sequence[Path]) -> list[Path]:
    """The run folders that were imported from one of the logs, which must not have changed."""
    if not logs:
        return []
    origins = {run: sha256 for run in runs if (sha256 := _origin(run)) is not None}
    if not origins:
        return []
    files = [log.resolve() for log in logs]
    present = {fingerprint(file.parent, file.name)["sha256"] for file in files}
    return [run for run, sha256 in origins.items() if sha256 in present]


def _origin(run: Path) -> str | None:
    """The SHA-256 of the log that a run was imported from."""
    try:
        origin = read_run(run).config.get(ORIGIN)
    except InputError:  # whoever reads the run says what is wrong with it
        return None
    return origin.get("sha256") if isinstance(origin, dict) else None


DEEPEST = 32  # levels of folders that are looked through for runs
MOST_FOLDERS = 100_000
# Beside `test` in the name of a folder of predictions; `test_of_lr` is a trial.
OUTPUT_WORDS = (
    "pred", "preds", "prediction", "predictions", "logits", "probs", "outputs", "results", "on",
)  # fmt: skip


class HeldOutFolderError(InputError):
    """Predictions that the name of a folder above them holds out."""


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
    if predictions.recognises(path):
        raise InputError(
            f"Expected one account of a run, but {path} holds {domainbed.LOG} and step folders "
            "with predictions: move the step folders into a folder of their own.",
            code="ambiguous",
        )
    return read_file(path / domainbed.LOG, request)


def _holds_logs(path: Path) -> bool:
    return path.is_dir() and bool(logs_in(path))


def _opened(opener: Opener) -> Reader:
    def read(path: Path, request: Request) -> list[LoadedRun]:
        return _in_folder(path, log_runs.read(opener.open_logs(path), request))

    return Reader(opener.recognises, read, is_log=True, own=opener.own, beside=opener.beside)


def _in_folder(path: Path, runs: list[LoadedRun]) -> list[LoadedRun]:
    """Runs that have no name of their own are called after the folder."""
    return [replace(run, where=str(path)) for run in runs]


def _read_journal(path: Path, request: Request) -> list[LoadedRun]:
    return _in_folder(path.parent, live_journal.read(path, request))


# In order; the first that recognises a folder reads it.
READERS: list[Reader] = [
    Reader(run_folder.recognises, run_folder.read),
    Reader(live_journal.recognises, _read_journal, parts=live_journals, own=live_journal.own),
    Reader(_has_log, _read_folder_log, is_log=True),
    Reader(predictions.recognises, predictions.read),
    *map(_opened, OPENERS),
    Reader(_holds_logs, read_file, is_log=True, parts=logs_in),
    _opened(EVENTS),
]


def domainbed_logs(root: Path) -> list[Path]:
    """DomainBed's and SWAD's logs below a folder, without reading them."""
    folders = (folder for folder, reader in _run_folders(root) if reader.recognise is _has_log)
    return [folder / domainbed.LOG for folder in folders]


def read_below(root: Path, request: Request) -> list[LoadedRun]:
    """Every run in a folder and the folders in it, but for those in ``request.left_out``."""
    runs: list[LoadedRun] = []
    for folder, reader in _without_copies(root):
        is_domainbed = reader.recognise is _has_log
        parts = reader.parts(folder)
        is_only_log = reader.parts is logs_in and len(parts) == 1
        for part in parts:
            try:
                _check_place(root, folder, reader, request)
                read = reader.read(part, request)
                runs += _in_folder(folder, read) if is_only_log else read
            except (NoRecordsError, HeldOutFolderError) as error:
                request.left_out.append(error)
            except InputError as error:
                # A folder of trainings may hold logs that cannot be chosen from.
                if not reader.is_log or is_domainbed:
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
    files = [path for path in sorted(root.iterdir()) if path.suffix.lower() in LOG_SUFFIXES]
    if len(files) == 1 and files[0].is_file():
        read_file(files[0], request)


def _without_copies(root: Path) -> list[tuple[Path, Reader]]:
    """The run folders below a root, without those imported from logs that are read as well."""
    folders = list(_run_folders(root))
    logs = [folder / domainbed.LOG for folder, reader in folders if reader.recognise is _has_log]
    runs = [folder for folder, reader in folders if reader.read is run_folder.read]
    copies = imported_copies(runs, logs)
    if copies:
        warnings.warn(
            f"{counted(len(copies), 'run')} in {copies[0].parent.parent} are left out: they were "
            f"imported from logs in {root} that are read as well.",
            CheckwiseWarning,
            stacklevel=6,
        )
    return [(folder, reader) for folder, reader in folders if folder not in copies]


def _check_place(root: Path, folder: Path, reader: Reader, request: Request) -> None:
    """Refuse predictions in a folder called after a target; logs name their own targets."""
    if reader.read is not predictions.read:
        return
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


def _run_folders(root: Path) -> Iterator[tuple[Path, Reader]]:
    """Folders with a reader for each; every folder once, down to a limited depth and number."""
    seen: set[tuple[int, int]] = set()
    waiting = [(root, 0, READERS)]
    without_runs = 0
    too_deep: Path | None = None
    while waiting:
        folder, depth, readers = waiting.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            continue
        seen.add((status.st_dev, status.st_ino))
        reader = next((reader for reader in readers if reader.recognise(folder)), None)
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
        if ATTEMPTS_FOLDER in below and (folder / COHORT_FILE).is_file():
            below.remove(ATTEMPTS_FOLDER)
            waiting += [(attempt, depth + 1, readers) for attempt in unpublished(folder)]
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
