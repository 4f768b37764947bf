"""What vouches for the files of a study: ``done``, the mark of a finished run, and the plan.

Readers of a finished run accept a file only if it still has the size and SHA-256 in the mark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout, reading
from checkwise.store.whole_files import write_text

RETRAIN: Final = (
    "remove the run's folder and run the same `checkwise study run` again to train it anew"
)
_CHECKSUM: Final = "checksum"

Fingerprint = dict[str, Any]


def fingerprint(folder: Path, name: str) -> Fingerprint:
    """Size and SHA-256 of a file."""
    with reading.open_file(folder, name) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def fingerprint_of(content: bytes) -> Fingerprint:
    """Size and SHA-256 of a file's content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def is_fingerprint(recorded: object) -> bool:
    """Whether something is the size and SHA-256 of a file."""
    return (
        isinstance(recorded, dict)
        and type(recorded.get("bytes")) is int
        and isinstance(recorded.get("sha256"), str)
    )


@dataclass(frozen=True)
class Mark:
    """The content of ``done``: the last step, and the size and SHA-256 of every file."""

    last_step: int
    files: Mapping[str, Fingerprint]


def finished(folder: Path) -> bool:
    """Whether a run has its mark."""
    return reading.has_file(Path(folder), layout.DONE_FILE)


def read_mark(folder: Path) -> Mark:
    """The mark of a finished run."""
    return _mark(Path(folder), reading.identity(folder, layout.DONE_FILE))


@lru_cache(maxsize=1024)
def _mark(folder: Path, _: reading.Identity) -> Mark:
    path = folder / layout.DONE_FILE
    content = layout.read_json(path)
    last_step = layout.expect(content, "last_step", int, path)
    files = layout.expect(content, "files", dict, path)
    for name, recorded in files.items():
        if not reading.is_plain_path(name) or not is_fingerprint(recorded):
            raise InputError(
                f"Expected files of the run with their size and SHA-256, but got {name!r:.80} in "
                f"{path}: {RETRAIN}.",
                code="damaged",
            )
    return Mark(last_step, files)


def read_recorded(folder: Path, name: str) -> bytes:
    """The content of a run's file; of a finished run, only if it still matches the mark.

    Every reader of journals, predictions and weights comes through here.
    """
    content = reading.read_file(folder, name)
    check_recorded(folder, name, fingerprint_of(content))
    return content


def check_recorded(folder: Path, name: str, present: Fingerprint) -> None:
    """Refuse a file of a finished run that is not what the run finished with."""
    if not finished(folder):
        return
    recorded = read_mark(folder).files.get(name)
    if recorded is None:
        raise InputError(
            f"Expected what the run finished with, but {folder / name} was added since: move it "
            "out of the run's folder.",
            code="damaged",
        )
    if recorded != present:
        raise InputError(
            f"Expected what the run finished with, but the checksum differs in {folder / name}, "
            f"which was changed since: {layout.VERIFY}.",
            code="damaged",
        )


@dataclass(frozen=True)
class Plan:
    """The content of ``cohort.json``; ``runs`` gives the run of every folder below ``runs/``."""

    content: Mapping[str, Any]
    runs: Mapping[str, RunKey]

    @property
    def signed(self) -> bool:
        """Whether it was written with its checksum."""
        return _CHECKSUM in self.content


def write_plan(cohort: Path, content: Mapping[str, Any]) -> None:
    """Write ``cohort.json`` with the checksum of its content."""
    signed = {**content, _CHECKSUM: _checksum(content)}
    write_text(cohort / layout.COHORT_FILE, layout.encode_json(signed))


def read_plan(cohort: Path) -> Plan:
    """The plan of a cohort, read once while the file stays as it is."""
    path = Path(cohort) / layout.COHORT_FILE
    return _plan(path, layout.read_document(path).sha256)


def check_planned(folder: Path, key: RunKey) -> None:
    """Refuse a run in a folder that its cohort planned for another run."""
    place = folder.resolve()
    if place.parent.parent.name == layout.ATTEMPTS_FOLDER:
        place = place.parent
    cohort = place.parent.parent
    if place.parent.name not in (layout.RUNS_FOLDER, layout.ATTEMPTS_FOLDER):
        return
    if not reading.has_file(cohort, layout.COHORT_FILE):
        return
    planned = read_plan(cohort).runs.get(place.name, key)
    if planned != key:
        raise InputError(
            f"Expected the run {planned} that was planned for {folder}, but its "
            f"{layout.RUN_FILE} is of {key}: restore the run's folder from a copy, or remove it "
            "and run the same `checkwise study run` again.",
            code="differs",
        )


@lru_cache(maxsize=64)
def _plan(path: Path, _: str) -> Plan:
    content = layout.read_json(path)
    rest = {name: value for name, value in content.items() if name != _CHECKSUM}
    if content.get(_CHECKSUM) not in (None, _checksum(rest)):
        raise InputError(
            f"Expected the plan that was written, but {path} was changed since: restore it from a "
            "copy, or plan the study again with another --out.",
            code="damaged",
        )
    runs: dict[str, RunKey] = {}
    for entry in layout.expect(content, "runs", list, path):
        slug: Any = entry.get("slug") if isinstance(entry, dict) else None
        if not reading.is_plain_name(slug) or slug in runs:
            raise InputError(
                f"Expected a folder of its own inside {layout.RUNS_FOLDER}/ for every run, but got "
                f"{slug!r:.80} in {path}: restore the file from a copy, or plan the study again "
                "with another --out.",
                code="outside",
            )
        try:
            runs[slug] = RunKey.from_dict(entry.get("key"))
        except InputError as error:
            raise InputError(
                f"{error} It is in {path}: restore the file from a copy.", code=error.code
            ) from None
    if len(set(runs.values())) < len(runs):
        raise InputError(
            f"Expected every run once, but {path} plans one twice: restore the file from a copy.",
            code="damaged",
        )
    return Plan(content, runs)


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
