"""``cohort.json``, the plan of a cohort: written with its checksum, and checked when read."""

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

CHECKSUM: Final = "checksum"


@dataclass(frozen=True)
class Plan:
    """The content of ``cohort.json``; ``runs`` gives the run of every folder below ``runs/``."""

    content: Mapping[str, Any]
    runs: Mapping[str, RunKey]


def write_plan(cohort: Path, content: Mapping[str, Any]) -> None:
    """Write ``cohort.json`` with the checksum of its content."""
    signed = {**content, CHECKSUM: _checksum(content)}
    write_text(cohort / layout.COHORT_FILE, layout.encode_json(signed))


def read_plan(cohort: Path) -> Plan:
    """The plan of a cohort, read once while the file stays as it is.

    Raises:
        InputError: it was changed since it was written, or is not a plan.
    """
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
            f"{layout.RUN_FILE} is of "
            f"{key}: restore the run's folder from a copy, or remove it and run the same "
            "`checkwise study run` again.",
            code="differs",
        )


@lru_cache(maxsize=64)
def _plan(path: Path, _: str) -> Plan:
    content = layout.read_json(path)
    recorded = content.get(CHECKSUM)
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    if recorded is not None and recorded != _checksum(rest):
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
