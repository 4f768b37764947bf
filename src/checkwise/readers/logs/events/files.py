"""Where the event files of one run lie, and what their folders say about them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from checkwise.errors import InputError
from checkwise.readers.logs.events.crc32c import masked
from checkwise.readers.logs.events.fields import MalformedError, read_event
from checkwise.readers.logs.events.scalars import first_tag, is_first_event
from checkwise.store.safe_read import open_regular

NAME = "events.out.tfevents"  # how writers begin the names of event files
ROLES = ("train", "validation", "valid", "val", "eval", "test")

_MARK = "tfevents"
_LONGEST_FIRST = 1 << 20  # bytes of a first record; a version has about twenty


@dataclass(frozen=True)
class EventFolder:
    """Event files of one folder, and what their scalars are of: ``validation``, …; "" if unsaid."""

    role: str
    files: tuple[Path, ...]


def event_folders(path: Path) -> list[EventFolder]:
    """The event files directly in a folder, and those of its subfolders that belong to its run.

    Keras writes the folders ``train`` and ``validation``. torch's ``add_scalars`` writes a folder
    per curve, named after its tag and the curve: ``Loss_val`` for the tag ``Loss``.
    """
    own = _event_files(path)
    folders = [EventFolder(role_of(path), own)] if own else []
    for subfolder in _entries(path):
        if not subfolder.is_dir():
            continue
        role = role_of(subfolder)
        files = _event_files(subfolder) if role or own else ()
        if files and not role:
            role = _curve(subfolder.name, files[0])
        if files and role:
            folders.append(EventFolder(role, files))
    return folders


def role_of(folder: Path) -> str:
    """What a folder's name says about the scalars in it."""
    name = folder.absolute().name.lower()
    return name if name in ROLES else ""


def qualified(role: str, tag: str) -> str:
    """A tag under its folder's role.

    A run may itself be called ``train``: its tags that name another role keep their names.
    """
    if not role or (role == "train" and tag.split("/")[0].lower() in ROLES):
        return tag
    return f"{role}/{tag}"


def is_event_file(path: Path) -> bool:
    """Whether the first record of a file is an event, with the right checksums."""
    try:
        with open_regular(path) as file:
            header = file.read(12)
            if len(header) < 12:
                return False
            length, check = struct.unpack("<QI", header)
            if length > _LONGEST_FIRST or check != masked(header[:8]):
                return False
            record = file.read(length + 4)
    except OSError:
        return False
    data = record[:length]
    if len(record) < length + 4 or struct.pack("<I", masked(data)) != record[length:]:
        return False
    try:
        return is_first_event(read_event(data, 0, length))
    except MalformedError:
        return False


def _event_files(folder: Path) -> tuple[Path, ...]:
    return tuple(
        path
        for path in _entries(folder)
        if _MARK in path.name
        and path.is_file()
        and (path.name.startswith(NAME) or is_event_file(path))
    )


def _curve(folder: str, file: Path) -> str:
    """The curve of torch's ``add_scalars`` that a folder holds; "" if it holds another run."""
    try:
        tag = first_tag(file)
    except InputError:
        return ""
    start = "" if tag is None else tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if start and folder.startswith(start) else ""


def _entries(folder: Path) -> Iterable[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"Expected a readable folder, but {folder} cannot be read ({error.strerror}): check "
            "its permissions.",
            code="system",
        ) from None
