"""A deployed model on disk: a folder that appears whole, and whose every byte has a digest.

``deployed.json`` says what the folder holds, with the size and SHA-256 of every other file and a
SHA-256 of itself. There are no times and no host names in it: the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkwise.calibrators import Fitted, from_dict
from checkwise.errors import Code, InputError
from checkwise.store import (
    Fingerprint,
    check_new,
    encode_json,
    fingerprint,
    fingerprint_of,
    is_fingerprint,
    is_plain_path,
    new_folder,
    open_regular,
    parse,
    read_file,
)
from checkwise.words import shown

SCHEMA: Final = 1
DEPLOYED: Final = "deployed.json"
CALIBRATION: Final = "calibration.json"
CARD: Final = "card.md"
WEIGHTS: Final = "weights.safetensors"
MEMBERS: Final = "members"
MODEL: Final = "model"
AGAIN: Final = "run `checkwise deploy` again"
_CHUNK: Final = 1 << 24  # bytes
_TENSORS: Final = ".safetensors"
_INDEX: Final = ".safetensors.index.json"


@dataclass(frozen=True)
class BundleFile:
    """A file to put into a bundle: its content, where that is now, or how to make it."""

    name: str
    content: bytes | Path | Callable[[], bytes]


def check_out(out: Path, *, replace: bool) -> None:
    """Refuse, before the work, a place that holds anything but an earlier bundle to replace.

    Only what reads back as a bundle is replaced, and only if nothing else is in the folder.
    """
    if not (out.exists() or out.is_symlink()):
        return
    if not out.is_dir() or out.is_symlink() or not os.path.lexists(out / DEPLOYED):
        check_new(out)
        return
    try:
        content = read_bundle(out) if replace else _read_info(out)
    except InputError as error:
        raise InputError(
            f"Expected a new folder, or a deployed model as it was written, at {out}. {error} To "
            "write there, move that folder away first.",
            code="exists",
        ) from None
    if not replace:
        raise InputError(
            f"Expected a new folder, but {out} holds a deployed model: choose another name, "
            "or add --force (force=True) to replace it.",
            code="exists",
        )
    own = {Path(name) for name in (DEPLOYED, *content["files"])}
    own |= {parent for name in own for parent in name.parents}
    for other in sorted(out.rglob("*")):
        if other.relative_to(out) not in own:
            raise InputError(
                f"Expected nothing but a deployed model to replace, but {other} is not of it: move "
                "it away, or choose another name.",
                code="exists",
            )


def write_bundle(
    out: Path, files: Iterable[BundleFile], info: Mapping[str, Any], *, replace: bool = False
) -> dict[str, Any]:
    """Write a bundle, whole or not at all; returns the content of ``deployed.json``."""
    with new_folder(out, replace=replace) as place:
        digests = {file.name: _put(place, file) for file in files}
        content = {"schema": SCHEMA, **info, "files": dict(sorted(digests.items()))}
        content["sha256"] = _own_digest(content)
        text = encode_json(content)
        _put(place, BundleFile(DEPLOYED, text.encode()))
        check_out(out, replace=replace)  # as late as can be: others may write there meanwhile
    return content


def _put(place: Path, file: BundleFile) -> Fingerprint:
    if not is_plain_path(file.name):
        raise InputError(
            f"Expected plain names of files in a checkpoint, but got {shown(file.name)}: rename "
            "it.",
            code="outside",
        )
    target = place / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    sha, size = hashlib.sha256(), 0
    with target.open("xb") as writing:
        for chunk in _chunks(file.content):
            sha.update(chunk)
            size += writing.write(chunk)
    return {"bytes": size, "sha256": sha.hexdigest()}


def _chunks(content: bytes | Path | Callable[[], bytes]) -> Iterable[bytes]:
    if isinstance(content, Path):
        with open_regular(content) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    else:
        yield content if isinstance(content, bytes) else content()


def read_bundle(folder: Path) -> dict[str, Any]:
    """The content of ``deployed.json``; files that changed or were added are refused."""
    content = _read_info(folder)
    for name, recorded in content["files"].items():
        with _reading(folder / name):
            present = fingerprint(folder, name)
        if present != recorded:
            raise _damaged(folder / name, "was changed since: its digest differs")
    for place, folders, names in os.walk(folder):
        # Hidden files belong to other tools.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for other in (Path(place, name) for name in names if not name.startswith(".")):
            if other.relative_to(folder).as_posix() not in (*content["files"], DEPLOYED):
                raise _damaged(other, "was added since")
    return content


def read_checked(folder: Path, info: Mapping[str, Any], name: str) -> bytes:
    """A file of a bundle, compared with its digest once more: what is checked is what is used."""
    with _reading(folder / name):
        content = read_file(folder, name)
    if fingerprint_of(content) != info["files"].get(name):
        raise _damaged(folder / name, "was changed since: its digest differs")
    return content


def read_calibration(folder: Path, info: Mapping[str, Any]) -> Fitted | None:
    """The calibrator of a bundle; None where it has none."""
    path = folder / CALIBRATION
    try:
        content = parse(read_checked(folder, info, CALIBRATION))
    except InputError:
        raise
    except ValueError as error:
        raise _damaged(path, f"is damaged ({error})") from None
    named = content.get("calibrator", 0) if isinstance(content, dict) else 0
    if named != info["calibrator"]:
        raise _damaged(path, f"names {shown(named)} as calibrator, not {info['calibrator']}")
    try:
        return None if named is None else from_dict(content)
    except InputError as error:
        raise _damaged(path, f"has a fault ({error})", code=error.code) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror})") from None
    except InputError as error:  # a link, a pipe, a folder
        raise InputError(str(error), code="outside") from None


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / DEPLOYED
    if not os.path.lexists(path):
        raise InputError(
            f"Expected a folder that `checkwise deploy` wrote, but there is no {DEPLOYED} in "
            f"{folder}: check the path.",
            code="missing",
        )
    with _reading(path):
        raw = read_file(folder, DEPLOYED)
    try:
        content = parse(raw)
    except ValueError as error:
        raise _damaged(path, f"is damaged ({error})") from None
    if not isinstance(content, dict):
        raise _damaged(path, "is no JSON object")
    if type(content.get("schema")) is not int or content["schema"] != SCHEMA:
        raise InputError(
            f"Expected schema {SCHEMA}, but got {shown(content.get('schema'))} in {path}: use the "
            f"version of checkwise that wrote it, or {AGAIN}.",
            code="format",
        )
    if content.get("sha256") != _own_digest(content):
        raise _damaged(path, "was changed since: its digest differs")
    for name, kind in _FIELDS.items():
        if name not in content or not _fits(content[name], kind):
            raise _damaged(path, f"has {shown(content.get(name, 'nothing'))} as {name}")
    for name, recorded in content["files"].items():
        if not is_fingerprint(recorded):
            raise _damaged(path, f"has {shown(recorded)} as the digest of {shown(name)}")
    for name in (*content["files"], *content["members"]):
        if not is_plain_path(name):
            raise _damaged(path, f"names {shown(name)} as a file", code="outside")
    _check_members(path, content)
    return content


def _check_members(path: Path, content: Mapping[str, Any]) -> None:
    """Every member is a listed file of weights, or a folder that has one."""
    members, files = content["members"], content["files"]
    if len(members) != (len(content["steps"]) if content["kind"] == "ensemble" else 1):
        raise _damaged(path, f"has {shown(members)} as members of {shown(content['steps'])}")
    for member in members:
        whole = content["format"] == "transformers"
        weights = weights_below(member, files) if whole else [member] * (member in files)
        if not weights:
            raise _damaged(path, f"names {shown(member)} as a member, and lists no weights of it")
    for name in (CALIBRATION, CARD):
        if name not in files:
            raise _damaged(path, f"does not list {name}")


def weights_below(folder: str, files: Iterable[str]) -> list[str]:
    """The files of weights in a folder of transformers, among those that a bundle lists."""
    return [name for name in files if name.startswith(f"{folder}/") and name.endswith(_TENSORS)]


def check_shards(folder: Path, info: Mapping[str, Any]) -> None:
    """Refuse an index of weights that leads to a file which the bundle does not list."""
    for name in [name for name in info["files"] if name.endswith(_INDEX)]:
        try:
            shards = parse(read_checked(folder, info, name))["weight_map"].values()
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(folder / name, "is no index of weights", code="format") from None
        place = name.rpartition("/")[0]
        for shard in shards:
            if f"{place}/{shard}" not in info["files"]:
                raise _damaged(folder / name, f"names {shown(shard)} as a file", code="outside")


def _own_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of everything in ``deployed.json`` but this digest."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _damaged(path: Path, how: str, code: Code = "damaged") -> InputError:
    return InputError(
        f"Expected the deployed model as it was written, but {path} {how}: restore the folder, or "
        f"{AGAIN}.",
        code=code,
    )


# The schema of deployed.json: a type, any of several, [a list of it], or one of {some words}.
# Fields may be added within it, so that others are left alone.
_FIELDS: Final[Mapping[str, Any]] = {
    "kind": {"single", "weights-mean", "ensemble"},
    "name": str,
    "rule": str,
    "rule_reason": (str, None),
    "params": dict,
    "weights": (str, dict),
    "worst_domain": bool,
    "steps": [int],
    "feasible_steps": [int],
    "checkpoints": int,
    "domains": [str],
    "format": {"safetensors", "transformers"},
    "members": [str],
    "calibrator": (str, None),
    "state": (str, None),
    "calibration": str,
    "metrics": dict,
    "guard": (dict, None),
    "guarantee": (dict, None),
    "notes": [str],
    "digest": (str, None),
    "versions": dict,
    "files": dict,
}


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(_fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_fits(one, kind[0]) for one in value)
    if isinstance(kind, set):
        return isinstance(value, str) and value in kind
    return value is None if kind is None else type(value) is kind
