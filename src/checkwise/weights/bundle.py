"""A deployed model on disk: a folder that appears whole, and whose every byte has a digest.

``deployed.json`` says what the folder holds, with the size and SHA-256 of every other file and a
SHA-256 of itself. There are no times and no host names in it: the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.store import layout, safe_read, strict_json
from checkwise.store.done import Fingerprint, fingerprint
from checkwise.store.new_folder import check_new, new_folder
from checkwise.text import shown

SCHEMA: Final = 1
DEPLOYED: Final = "deployed.json"
CALIBRATION: Final = "calibration.json"
CARD: Final = "card.md"
WEIGHTS: Final = "weights.safetensors"
MEMBERS: Final = "members"
MODEL: Final = "model"
AGAIN: Final = "run `checkwise deploy` again"
_CHUNK: Final = 1 << 24  # bytes


@dataclass(frozen=True)
class BundleFile:
    """A file to put into a bundle: its content, where that is now, or how to make it."""

    name: str
    content: bytes | Path | Callable[[], bytes]


def check_out(out: Path, *, replace: bool) -> None:
    """Refuse, before the work, a place that holds anything but an earlier bundle to replace."""
    if not (out.exists() or out.is_symlink()):
        return
    if out.is_dir() and not out.is_symlink() and is_bundle(out):
        if not replace:
            raise InputError(
                f"Expected a new folder, but {out} holds a deployed model: choose another name, "
                "or add --force (force=True) to replace it."
            )
        return
    check_new(out)


def is_bundle(folder: Path) -> bool:
    """Whether a folder says that it is a deployed model."""
    try:
        content = strict_json.parse(safe_read.read_file(folder, DEPLOYED))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"schema", "kind", "files"} <= set(content)


def write_bundle(
    out: Path, files: Iterable[BundleFile], info: Mapping[str, Any], *, replace: bool = False
) -> dict[str, Any]:
    """Write a bundle, whole or not at all; returns the content of ``deployed.json``."""
    check_out(out, replace=replace)
    with new_folder(out, replace=replace) as place:
        digests = {file.name: _put(place, file) for file in files}
        content = {"schema": SCHEMA, **info, "files": dict(sorted(digests.items()))}
        content["sha256"] = _own_digest(content)
        text = layout.encode_json(content)
        _put(place, BundleFile(DEPLOYED, text.encode()))
    return content


def _put(place: Path, file: BundleFile) -> Fingerprint:
    if not safe_read.is_plain_path(file.name):
        raise InputError(
            f"Expected plain names of files in a checkpoint, but got {shown(file.name)}: rename it."
        )
    target = place / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    sha, size = hashlib.sha256(), 0
    with target.open("xb") as writing:
        for chunk in _chunks(file.content):
            sha.update(chunk)
            size += writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    return {"bytes": size, "sha256": sha.hexdigest()}


def _chunks(content: bytes | Path | Callable[[], bytes]) -> Iterable[bytes]:
    if isinstance(content, Path):
        with safe_read.open_regular(content) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    else:
        yield content if isinstance(content, bytes) else content()


def read_bundle(folder: Path) -> dict[str, Any]:
    """The content of ``deployed.json``; every file is compared with its digest.

    Raises:
        InputError: there is no bundle, or a file of it is damaged, missing or added.
    """
    content = _read_info(folder)
    for name, recorded in content["files"].items():
        try:
            present = fingerprint(folder, name)
        except OSError as error:
            raise _damaged(folder / name, f"cannot be read ({error.strerror})") from None
        if present != recorded:
            raise _damaged(folder / name, "was changed since: its digest differs")
    for name in _names_in(folder):
        if name not in content["files"] and name != DEPLOYED:
            raise _damaged(folder / name, "was added since")
    return content


def read_checked(folder: Path, info: Mapping[str, Any], name: str) -> bytes:
    """A file of a bundle, compared with its digest once more: what is checked is what is used."""
    content = safe_read.read_file(folder, name)
    if hashlib.sha256(content).hexdigest() != info["files"][name]["sha256"]:
        raise _damaged(folder / name, "was changed since: its digest differs")
    return content


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / DEPLOYED
    try:
        raw = safe_read.read_file(folder, DEPLOYED)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"Expected a folder that `checkwise deploy` wrote, but there is no {DEPLOYED} in "
            f"{folder}: check the path."
        ) from None
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror})") from None
    try:
        content = strict_json.parse(raw)
    except ValueError as error:
        raise _damaged(path, f"is damaged ({error})") from None
    if not isinstance(content, dict):
        raise _damaged(path, "is no JSON object")
    if content.get("schema") != SCHEMA:
        raise InputError(
            f"Expected schema {SCHEMA}, but got {shown(content.get('schema'))} in {path}: use the "
            f"version of checkwise that wrote it, or {AGAIN}."
        )
    if content.get("sha256") != _own_digest(content):
        raise _damaged(path, "was changed since: its digest differs")
    files = content.get("files")
    named = files if isinstance(files, dict) else {"": None}
    odd = [name for name in named if not safe_read.is_plain_path(name)]
    if odd or not all(isinstance(f, dict) and "sha256" in f for f in named.values()):
        raise _damaged(path, f"names {shown(odd[0] if odd else files)} as a file")
    return content


def _own_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of everything in ``deployed.json`` but this digest."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _names_in(folder: Path) -> Iterable[str]:
    """Every file below a folder; hidden ones belong to other tools."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield Path(place, name).relative_to(folder).as_posix()


def _damaged(path: Path, how: str) -> InputError:
    return InputError(
        f"Expected the deployed model as it was written, but {path} {how}: restore the folder, or "
        f"{AGAIN}."
    )
