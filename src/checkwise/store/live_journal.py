"""The journal of a live selection: what was asked, then one line per event, each synced.

The first line says how to choose and what to read. The others are records of checkpoints, and notes
of files that were saved and deleted. The last line about a step counts. One process may write to a
journal, and a process that is killed loses at most the line that it was writing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.records import CheckpointRecord, IntArray, Records, unpacked_numbers
from checkwise.store.journal import append_whole, encode_line, whole_lines
from checkwise.store.reading import LONGEST_NAME, has_file, open_regular, read_file
from checkwise.store.whole_files import sync_folder, writing
from checkwise.words import shown

SCHEMA: Final = 2
_START: Final = b'{"checkwise":"live selection",'
# What the first line holds, with its kinds.
_FORM: Final[Mapping[str, tuple[type, ...]]] = {
    "checkwise": (str,),
    "schema": (int,),
    "choice": (dict,),
    "bins": (int,),
    "bandwidth": (int, float),
    "held_out": (list,),
    "sources": (list,),
}
_USUAL_STEM: Final = "checkwise"  # of the journals that callbacks write
_KEPT: Final = "every record before it is kept"
_LONGEST: Final = 4000  # bytes of a path; systems allow 4096, with the folder before it


class LiveJournal:
    """A journal opened by its only writer; created with its folder if there is none.

    ``settings`` are the rule and everything else that decides the choice, as JSON. They have to be
    those with which it was begun.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._file = -1
        with writing(path.parent, path.name, then=_KEPT):
            path.parent.mkdir(parents=True, exist_ok=True)
            has_file(path.parent, path.name)  # refuses anything but a regular file
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o666)
            try:
                self._lock()
                with os.fdopen(self._file, "rb", closefd=False) as file:
                    content = file.read()
                self.lines = _lines(content, path)
                self._length = content.rfind(b"\n") + 1
                if self.lines:
                    _check_same(self.lines.pop(0), settings, path)
                os.ftruncate(self._file, self._length)  # a line that was being written
                if not self._length:
                    self.append({"checkwise": "live selection", "schema": SCHEMA, **settings})
                    sync_folder(path.parent)
            except BaseException:
                self.close()
                raise
        _OPEN.add(self)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Expected to be the only one to write to {self.path}, but another LiveSelector "
                "has it open: wait for that training to end, `close()` it in this process, or name "
                "another journal.",
                code="busy",
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
                raise  # some network file systems have no locks

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one line; it has reached the disk when this returns, or left nothing."""
        if self._file < 0:
            raise InputError(
                f"Expected an open journal, but {self.path} was closed: make a new LiveSelector.",
                code="unsupported",
            )
        content = encode_line(line)
        if os.fstat(self._file).st_nlink == 0:
            raise InputError(
                f"Expected the journal at {self.path}, but it was removed while this process "
                "writes to it: nothing more can be recorded there; make a new LiveSelector.",
                code="damaged",
            )
        with writing(self.path.parent, self.path.name, then=_KEPT):
            append_whole(self._file, content, at=self._length)
        self._length += len(content)

    def close(self) -> None:
        """Let another process write to it."""
        if self._file >= 0:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file, and leave the lock to the process that holds it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()


_OPEN: weakref.WeakSet[LiveJournal] = weakref.WeakSet()


def _release_in_child() -> None:
    """A forked worker must not hold the lock of a parent that is killed."""
    for journal in list(_OPEN):
        journal.forget()


os.register_at_fork(after_in_child=_release_in_child)


def read_live_journal(
    path: Path, settings: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The first line and the others, of a journal that another process may be writing to."""
    if not path.exists():
        raise InputError(
            f"Expected a journal, but there is nothing at {path}: check the path.", code="missing"
        )
    lines = _lines(read_file(path.parent, path.name), path)
    if not lines:
        raise InputError(f"Expected records in {path}, but there is none yet.", code="empty")
    if settings is not None:
        _check_same(lines[0], settings, path)
    return lines[0], lines[1:]


def live_journals(place: Path) -> list[Path]:
    """The journal of a live selection that a file is, or those that lie in a folder."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    return [file for file in files if _is_live_journal(file)]


def _is_live_journal(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False


def beside(journal: Path, name: str) -> Path:
    """A file or folder that belongs to a journal.

    Example:
        >>> beside(Path("run/checkwise.jsonl"), "predictions").as_posix()
        'run/predictions'
        >>> beside(Path("run/b.jsonl"), "predictions").as_posix()
        'run/b-predictions'
    """
    return journal.with_name(name if journal.stem == _USUAL_STEM else f"{journal.stem}-{name}")


def _lines(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Every whole line. A last line without its end was being written, and is left out."""
    if not content.startswith(_START[: len(content)]):
        raise InputError(
            f"Expected a journal that checkwise wrote, but {path} begins with {content[:40]!r}: "
            "name another file.",
            code="format",
        )
    lines = whole_lines(content, lambda number, line: damaged_line(path, number, line))
    if lines:
        _check_form(lines[0], path)
    return lines


def damaged_line(path: Path, number: int, line: object) -> InputError:
    """The error about a line that checkwise did not write like this."""
    return InputError(
        f"Expected a record, but got {shown(line)} in line {number} of {path}: the file is "
        "damaged; restore it, or remove it to begin without its records.",
        code="damaged",
    )


def _check_form(header: Mapping[str, Any], path: Path) -> None:
    """Refuse a first line of another schema, or that lacks something, or has something else."""
    if type(header.get("schema")) is not int or header["schema"] != SCHEMA:
        raise InputError(
            f"Expected a journal of schema {SCHEMA}, but got {shown(header.get('schema'))} in "
            f"{path}: another version of checkwise wrote it; read it with that one, or move it "
            "away to begin a new one.",
            code="format",
        )
    if (
        set(header) != set(_FORM)
        or not all(type(header[name]) in kinds for name, kinds in _FORM.items())
        or not all(isinstance(name, str) for name in (*header["held_out"], *header["sources"]))
        or not (isinstance(rule := header["choice"].get("rule"), str) and rule)
        or set(header["choice"]) & set(_FORM)
    ):
        raise damaged_line(path, 1, header)


def _check_same(there: Mapping[str, Any], here: Mapping[str, Any], path: Path) -> None:
    """Refuse a journal of another rule or of other settings."""
    begun = {name: there[name] for name in there if name not in ("checkwise", "schema")}
    differences = [
        f"{name} was {_shown(before)} and is {_shown(now)}"
        for name, before, now in _pairs(begun, here)
        if not _same(before, now)
    ]
    if differences:
        raise InputError(
            f"Expected the settings with which {path} was begun, but {', '.join(differences)}: "
            "use those, or name another journal.",
            code="differs",
        )


def _shown(setting: Any) -> str:
    return "not set" if setting is None else shown(setting)


def _pairs(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    pairs: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys((*there, *here)):
        before, now = there.get(name), here.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            pairs += _pairs(before, now)
        else:
            pairs.append((name, before, now))
    return pairs


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are equal, also where a number was written in two ways."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if one == other or isinstance(one, bool) or isinstance(other, bool):
        return bool(one == other)
    try:
        return Decimal(str(one)) == Decimal(str(other))
    except ArithmeticError:
        return False


@dataclass
class LiveHistory:
    """The state after every line so far."""

    folder: Path  # of the journal; paths in it begin here
    records: Records = field(default_factory=Records)
    checkpoints: dict[int, Path] = field(default_factory=dict)  # in the order of saving
    states: dict[int, str] = field(default_factory=dict)  # of checkpoints, when they were saved
    without_weights: set[int] = field(default_factory=set)  # steps whose weights were deleted
    groups: dict[str, IntArray] = field(default_factory=dict)  # the units of examples, by domain
    predictions: Path | None = None  # the folder, if they are kept
    written: dict[int, set[str]] = field(default_factory=dict)  # digests of predictions, by step
    forgotten: set[int] = field(default_factory=set)  # steps whose record a resume took back
    _saved_to: dict[Path, int] = field(default_factory=dict, repr=False)

    @classmethod
    def replay(
        cls, lines: Iterable[Mapping[str, Any]], path: Path, held_out: Iterable[str]
    ) -> LiveHistory:
        """The state that a journal at ``path`` describes, which has no record of ``held_out``."""
        aside = frozenset(held_out)
        history = cls(path.parent)
        for number, line in enumerate(lines, start=2):
            try:
                if not aside.isdisjoint(line.get("domains", ())):
                    raise ValueError("a set that is held out")
                history.apply(line)
            except (KeyError, TypeError, ValueError, InputError):
                raise damaged_line(path, number, line) from None
        return history

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take one line into account."""
        if "domains" in line:
            record = CheckpointRecord.from_dict(line)
            self.records.check_alike(record)
            self.records[record.step] = record
            self.forgotten.discard(record.step)
            if "predictions" in line:
                self.written.setdefault(record.step, set()).add(_text(line["predictions"]))
        elif "groups" in line:
            named = dict(line["groups"])
            self.groups |= {str(name): unpacked_numbers(text) for name, text in named.items()}
        elif "predictions" in line:
            self.predictions = self.folder / _path(line["predictions"])
        elif "saved" in line:
            step, place = _whole(line["step"]), self.folder / _path(line["saved"])
            state = _text(line.get("state", ""))
            self.checkpoints.pop(step, None)  # the one saved last comes last
            if self.checkpoints.get(before := self._saved_to.get(place, step)) == place:
                self.forget_weights([before])
            self.checkpoints[step], self.states[step], self._saved_to[place] = place, state, step
            self.without_weights.discard(step)
        elif "resumed" in line:
            last = _whole(line["resumed"])
            self.forgotten |= {step for step in self.records if step > last}
            for steps in (self.records, self.checkpoints):
                for later in [step for step in steps if step > last]:
                    del steps[later]
            self.without_weights = {step for step in self.without_weights if step <= last}
        else:
            self.forget_weights([_whole(step) for step in line["deleted"]])

    def forget_weights(self, steps: Iterable[int]) -> None:
        """The weights of these steps are gone."""
        for step in steps:
            self.checkpoints.pop(step, None)
            self.without_weights.add(step)


def _whole(step: object) -> int:
    if type(step) is not int or step < 0:
        raise ValueError("no step")
    return step


def _path(value: object) -> Path:
    path = Path(_text(value))
    if max(map(len, map(os.fsencode, path.parts)), default=0) > LONGEST_NAME or (
        len(os.fsencode(path)) > _LONGEST
    ):
        raise ValueError("no path that a system has")
    return path


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("no text")
    return value
