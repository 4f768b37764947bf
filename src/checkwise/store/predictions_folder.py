"""Archives of arrays (``.npz``), with their headers checked before a value is read.

A few megabytes can unpack to as many gigabytes. What the archive and its arrays declare has to
agree, and to stay within a sane ratio.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import CheckpointRecord, DomainRecord, IntArray
from checkwise.store import layout, reading
from checkwise.store.deleting import Home, delete_checkpoint, remove_leftovers, sync_checkpoint
from checkwise.store.journal import encode_line
from checkwise.store.layout import check_domains
from checkwise.store.whole_files import sync_folder, write_text, writing

# Saved outputs and features shrink a few times; zeros shrink a thousand times.
MOST_EXPANDED: Final = 250
SMALL: Final = 256 << 20  # bytes that may be anything
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@contextmanager
def open_npz(file: IO[bytes]) -> Iterator[tuple[Mapping[str, ArrayHeader], Any]]:
    """The headers of an archive, and its arrays, each of which is read when asked for.

    Raises:
        ValueError: the archive is damaged, or :func:`read_headers` refuses it.
    """
    try:
        headers = read_headers(file)
        with np.load(file, allow_pickle=False) as arrays:
            yield headers, arrays
    except (EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def write_npz(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive without the time of writing, so that equal arrays give equal files."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.file_size = array.nbytes + 4096  # for what is beyond the 2 GB of a plain archive
            with archive.open(info, "w") as member:
                npy.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_headers(file: IO[bytes]) -> dict[str, ArrayHeader]:
    """The arrays of an archive by name, from their headers; no value is read.

    Raises:
        ValueError: headers that contradict each other, Python objects, or arrays that would take
            hundreds of times the size of the file.
        zipfile.BadZipFile, EOFError: damage.
    """
    headers: dict[str, ArrayHeader] = {}
    total = 0
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        packed = sum(member.compress_size for member in members)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in headers:
                raise ValueError(f"two arrays are called {name!r:.40}")
            with archive.open(member) as opened:
                header, start = read_header(opened)
            headers[name] = header
            size = start + header.dtype.itemsize * prod(header.shape)
            if size != member.file_size:
                raise ValueError(
                    f"{name:.40} declares shape {list(header.shape)!s:.40}, which does not "
                    f"fit its {member.file_size} bytes"
                )
            total += size
    if total > SMALL and total > MOST_EXPANDED * packed:
        raise ValueError(f"its {packed:,} bytes would unpack to {total:,}")
    file.seek(0)
    return headers


def read_header(member: IO[bytes]) -> tuple[ArrayHeader, int]:
    """The header of an array file, and the position where its values begin."""
    version = npy.read_magic(member)
    if version not in _READERS:
        raise ValueError(f"an array of format {version}")
    shape, _, dtype = _READERS[version](member)
    if dtype.hasobject:
        raise ValueError("Python objects")
    return ArrayHeader(shape, dtype), member.tell()


RECORD: Final = "predictions.json"
_LARGEST: Final = 1 << 26  # bytes; a million checkpoints need as many


class FileState(NamedTuple):
    """What changes when a checkpoint is written again: its bytes, and when it was modified."""

    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class RecordedCheckpoint:
    """A checkpoint by its path below the folder of checkpoints, as it was when it was evaluated."""

    name: str
    state: FileState


@dataclass(frozen=True)
class PredictionsRecord:
    """What ``checkwise predict`` was told and read.

    Args:
        function: ``file.py:function`` or ``module:function``, without the folder of the file.
        sha256: of the function's file.
        folder: the folder of checkpoints, absolute.
        from_here: the same, relative to the folder of the record.
        domains: every domain that was asked for.
        checkpoints: by step.
        versions: of the packages that wrote the last outputs.
    """

    function: str
    sha256: str
    folder: str
    from_here: str
    domains: tuple[str, ...]
    checkpoints: Mapping[int, RecordedCheckpoint]
    versions: Mapping[str, str]


class Located(NamedTuple):
    """Where checkpoints are by step, and what to say about those that are not as they were."""

    paths: dict[int, str]
    notes: tuple[str, ...]


def checkpoint_state(path: Path) -> FileState:
    """Of a file; of a folder, the sum of its files and the newest of their times."""
    if not path.is_dir():
        status = path.stat()
        return FileState(status.st_size, status.st_mtime_ns)
    files = [Path(place, name) for place, _, names in os.walk(path) for name in names]
    states = [file.stat() for file in files if file.exists()]  # without links that lead nowhere
    times = [state.st_mtime_ns for state in states]
    return FileState(sum(state.st_size for state in states), max(times, default=0))


def write_record(folder: Path, record: PredictionsRecord) -> None:
    """Put the record in its place, whole."""
    content = {
        "schema": layout.LAYOUT_SCHEMA,
        "function": record.function,
        "sha256": record.sha256,
        "folder": record.folder,
        "from_here": record.from_here,
        "domains": list(record.domains),
        "checkpoints": [
            {"step": step, "name": checkpoint.name, **checkpoint.state._asdict()}
            for step, checkpoint in sorted(record.checkpoints.items())
        ],
        "versions": dict(record.versions),
    }
    write_text(folder / RECORD, layout.encode_json(content))


def read_record(folder: Path) -> PredictionsRecord | None:
    """The record of a predictions folder; None for outputs that something else saved.

    Raises:
        InputError: the record is damaged, or of another schema.
    """
    path = folder / RECORD
    try:
        with reading.open_file(folder, RECORD) as file:
            raw = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    try:
        if len(raw) > _LARGEST:
            raise ValueError(f"more than {_LARGEST >> 20} MiB")
        content = reading.parse(raw)
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
        layout.check_schema(content.get("schema"), path)
        return _record(content)
    except InputError:
        raise
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def locate(folder: Path, record: PredictionsRecord, steps: Container[int]) -> Located:
    """Where the checkpoints of these steps are: as seen from the record, or else as at first.

    So the folder can be moved together with the checkpoints, or without them. Whoever wrote the
    record chose the paths: they are looked at, and neither opened nor searched.
    """
    roots = (os.path.normpath(folder / record.from_here), record.folder)
    paths: dict[int, str] = {}
    absent, changed = [], []
    for step, checkpoint in sorted(record.checkpoints.items()):
        if step not in steps:
            continue
        places = [Path(root, checkpoint.name) for root in roots]
        present = [place for place in places if os.path.exists(place)]
        same = [p for p in present if p.is_dir() or p.stat().st_size == checkpoint.state.bytes]
        paths[step] = str((same or present or places[-1:])[0])
        if not present:
            absent.append(paths[step])
        elif not same:
            changed.append(paths[step])
    return Located(
        paths,
        (
            *_note(absent, "is not there any more"),
            *_note(changed, "has changed since it was evaluated"),
        ),
    )


def _note(paths: list[str], what: str) -> tuple[str, ...]:
    if not paths:
        return ()
    others = f" (and so with {len(paths) - 1} more)" if len(paths) > 1 else ""
    return (f"the checkpoint {paths[0]} {what}{others}",)


def _record(content: Mapping[str, Any]) -> PredictionsRecord:
    entries = _of_kind(content, "checkpoints", list)
    checkpoints: dict[int, RecordedCheckpoint] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("a checkpoint that is no object")
        step, name = _whole(entry, "step"), _of_kind(entry, "name", str)
        if step in checkpoints:
            raise ValueError(f"step {step} twice")
        if not reading.is_plain_path(name):
            raise ValueError(f"{name!r:.80} as a checkpoint's name")
        state = FileState(_whole(entry, "bytes"), _whole(entry, "modified_ns"))
        checkpoints[step] = RecordedCheckpoint(name, state)
    domains, versions = _of_kind(content, "domains", list), _of_kind(content, "versions", dict)
    if not all(isinstance(name, str) for name in (*domains, *versions.values())):
        raise ValueError("a name or version that is no text")
    texts = {
        name: _of_kind(content, name, str) for name in ("function", "sha256", "folder", "from_here")
    }
    if any("\0" in text for text in texts.values()):
        raise ValueError("a null character")
    return PredictionsRecord(
        **texts, domains=tuple(domains), checkpoints=checkpoints, versions=versions
    )


def _of_kind(content: Mapping[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{value!r:.40} as {name!r}")
    return value


def _whole(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} as {name!r}")
    return value


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"Expected the record of `checkwise predict`, but got: {reason} in {path}: restore the "
        "file, or remove it; without it the outputs are read, but no checkpoint's path is known.",
        code="damaged",
    )


_KEPT: Final = "every record before it is kept"
_PLACED: Final = re.compile(r"step-([0-9]{6,})")
_HIDDEN: Final = re.compile(r"\.step-([0-9]{6,})\.([0-9a-f]{16})\.part")


@dataclass(frozen=True)
class KeptPredictions:
    """The predictions of a run's records; one process writes them, the one that has the journal.

    Args:
        folder: holds nothing but these.
        home: where files may be deleted; without it they are only read.
        written: step → digests of what was written for it, as the journal has them. Nothing else
            is deleted under a step's name.
    """

    folder: Path
    home: Home = field(default_factory=Home)
    written: Mapping[int, Collection[str]] = field(default_factory=dict)

    def check_unused(self) -> None:
        """Refuse a folder that holds something else, before it is first written to."""
        if os.path.lexists(self.folder) and (
            not self.folder.is_dir() or any(self.folder.iterdir())
        ):
            raise InputError(
                f"Expected an empty folder for predictions, but {self.folder} holds something "
                "else: move it away, or name another folder in predictions=.",
                code="exists",
            )

    def write(
        self, record: CheckpointRecord, whole: CheckpointRecord, groups: Mapping[str, IntArray]
    ) -> str:
        """Write what every example said into a hidden folder; ``place`` makes it visible.

        Returns:
            A digest of the files, for the journal.

        Args:
            record: as the journal will hold it.
            whole: the same with what every example said.
            groups: domain → the independent unit of each example, where they were named.
        """
        check_domains(list(record.domains))
        hidden = self._hidden(record)
        delete_checkpoint(hidden, self.home)
        with writing(self.folder, f"predictions of step {record.step}", then=_KEPT):
            self.folder.mkdir(parents=True, exist_ok=True)
            hidden.mkdir()
            for name, domain in whole.domains.items():
                with (hidden / f"{name}.npz").open("wb") as file:
                    write_npz(file, _arrays(domain, groups.get(name)))
        sync_checkpoint(hidden)
        return _digest(hidden)

    def place(self, record: CheckpointRecord) -> None:
        """Give the files of a record their name, once the journal has the record."""
        placed, hidden = self.placed(record.step), self._hidden(record)
        if self._is_ours(record.step) and (record.diverged or hidden.is_dir()):
            delete_checkpoint(placed, self.home)  # an earlier record of the same step
        if hidden.is_dir() and not os.path.lexists(placed):
            with writing(self.folder, then=_KEPT):
                hidden.rename(placed)
                sync_folder(self.folder)

    def set_aside(self, step: int) -> None:
        """Rename what is kept of a step, where no journal says who wrote it."""
        placed, number = self.placed(step), 1
        if not os.path.lexists(placed):
            return
        while os.path.lexists(aside := placed.with_name(f"earlier-{placed.name}-{number}")):
            number += 1
        with writing(self.folder, then=_KEPT):
            placed.rename(aside)

    def folder_of(self, record: CheckpointRecord) -> Path | None:
        """Where the files of a record are; None where none were written."""
        places = (self._hidden(record), self.placed(record.step))
        return next((place for place in places if place.is_dir()), None)

    def tidy(self, records: Mapping[int, CheckpointRecord], forgotten: Collection[int]) -> None:
        """Finish what a killed process began, and delete the files of ``forgotten`` steps.

        Nothing is deleted that this journal did not write: files of steps that it never had are
        somebody else's, and so are files that are not as they were written.
        """
        if not self.folder.is_dir() or not self.home.folders:
            return
        remove_leftovers(self.folder, self.home)
        for name in sorted(os.listdir(self.folder)):
            if match := _HIDDEN.fullmatch(name):
                record = records.get(int(match[1]))
                if record is not None and self._hidden(record).name == name:
                    self.place(record)
                elif _digest(self.folder / name):  # the journal never learned of these
                    delete_checkpoint(self.folder / name, self.home)
        for name in os.listdir(self.folder):
            if match := _PLACED.fullmatch(name):
                step = int(match[1])
                record = records.get(step)
                lost = step in forgotten if record is None else record.diverged
                if lost and self._is_ours(step):
                    delete_checkpoint(self.folder / name, self.home)

    def _is_ours(self, step: int) -> bool:
        """Whether the journal has the digest of what is kept under a step's name."""
        return _digest(self.placed(step)) in self.written.get(step, ())

    def check_free(self, step: int) -> None:
        """Refuse to replace what this journal did not write."""
        if os.path.lexists(self.placed(step)) and not self._is_ours(step):
            raise InputError(
                f"Expected no predictions of step {step} in {self.folder} but those that this "
                "journal has a record of, and others are there: another run keeps its own in this "
                "folder; give each run a folder of its own.",
                code="exists",
            )

    def placed(self, step: int) -> Path:
        """Where the files of a step are in the end."""
        return self.folder / f"step-{step:06d}"

    def _hidden(self, record: CheckpointRecord) -> Path:
        token = hashlib.sha256(encode_line(record.as_dict())).hexdigest()[:16]
        return self.folder / f".step-{record.step:06d}.{token}.part"


def _digest(folder: Path) -> str:
    """Of the files of a step; empty where there are none, or there is anything else."""
    digest = hashlib.sha256()
    if folder.is_symlink() or not folder.is_dir():
        return ""
    for file in sorted(folder.iterdir()):
        if file.suffix != ".npz" or file.is_symlink() or not file.is_file():
            return ""
        digest.update(f"{file.name}\0".encode(errors="surrogateescape"))
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _arrays(domain: DomainRecord, groups: IntArray | None) -> dict[str, NDArray[Any]]:
    said = domain.said
    assert said is not None
    arrays = {
        "logits": said.logits,
        "labels": said.labels.astype(np.int32),
        "correct": said.correct,
        "nll": said.nll,
        "groups": None if groups is None else groups.astype(np.int32),
    }
    return {name: array for name, array in arrays.items() if array is not None}
