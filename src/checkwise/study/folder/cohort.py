"""The plan of a study's folder, and which code is running."""

from __future__ import annotations

import hashlib
import reprlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import checkwise
from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import (
    ATTEMPTS_FOLDER,
    COHORT_FILE,
    LAYOUT_SCHEMA,
    ORIGIN,
    RUNS_FOLDER,
    Fingerprint,
    check_folder,
    expect,
    has_file,
    heldout_file,
    is_plain_name,
    read_plan,
    write_plan,
    writing,
)
from checkwise.study.folder.run_writing import versions

PACKAGE: Final = Path(checkwise.__file__).parent


@cache
def running_code() -> dict[str, Any]:
    """Version, SHA-256 of the package's files, and the commit they are of.

    ``commit`` is None outside a checkout; ``changed`` says whether files of the package differ
    from it.
    """
    whole = hashlib.sha256()
    for file in sorted(path for path in PACKAGE.rglob("*") if path.is_file()):
        if file.suffix != ".pyc":  # made by running it
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            whole.update(f"{file.relative_to(PACKAGE).as_posix()} {content}\n".encode())
    commit = _git("rev-parse", "HEAD")
    return {
        "version": checkwise.__version__,
        "sha256": whole.hexdigest(),
        "commit": commit,
        "changed": None if commit is None else bool(_git("status", "--porcelain", "--", ".")),
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(PACKAGE), *arguments]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


ROLES: Final = ("development", "evaluation")


@dataclass(frozen=True)
class CohortRecord:
    """The content of ``cohort.json``.

    ``role`` is "development" or "evaluation", or "mixed" where data sets have different ``roles``.
    ``runs`` maps every planned run to its folder, which exists once the run is finished.
    """

    path: Path
    name: str
    role: str
    roles: Mapping[str, str]
    study: Mapping[str, Any]
    metrics: Mapping[str, Any]
    runs: Mapping[RunKey, Path]
    versions: Mapping[str, str]


def write_cohort(
    path: Path,
    *,
    name: str,
    roles: Mapping[str, str],
    study: Mapping[str, Any],
    metrics: Mapping[str, Any],
    keys: Sequence[RunKey],
) -> None:
    """Write ``cohort.json``; ``roles`` gives the role of every data set."""
    check_folders(keys)
    content = {
        "schema": LAYOUT_SCHEMA,
        "name": name,
        "role": _common(roles),
        "roles": dict(roles),
        "study": dict(study),
        "metrics": dict(metrics),
        "runs": [{"slug": str(key), "key": key.as_dict()} for key in dict.fromkeys(keys)],
        "versions": versions(),
    }
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        write_plan(path, content)  # first: a folder without its plan is somebody else's
        (path / RUNS_FOLDER).mkdir(exist_ok=True)


def open_cohort(path: Path | str) -> CohortRecord:
    path = Path(path)
    file = path / COHORT_FILE
    plan = read_plan(path)
    role = expect(plan.content, "role", str, file)
    study, metrics, recorded_versions = (
        MappingProxyType(dict(expect(plan.content, name, dict, file)))
        for name in ("study", "metrics", "versions")
    )
    datasets = {key.dataset for key in plan.runs.values()}
    roles = plan.content.get("roles") or dict.fromkeys(datasets, role)
    known = isinstance(roles, dict) and all(one in ROLES for one in roles.values())
    if not known or role != _common(roles):
        raise InputError(
            f"Expected the role of every data set, {' or '.join(ROLES)}, but got "
            f"{reprlib.repr(roles)} and {reprlib.repr(role)} for all in {file}: restore the file "
            "from a copy.",
            code="damaged",
        )
    check_folder(path / RUNS_FOLDER)
    check_folder(path / ATTEMPTS_FOLDER)
    runs = {key: path / RUNS_FOLDER / slug for slug, key in plan.runs.items()}
    for folder in runs.values():
        check_folder(folder)
    return CohortRecord(
        path=path,
        name=expect(plan.content, "name", str, file),
        role=role,
        roles=MappingProxyType(dict(roles)),
        study=study,
        metrics=metrics,
        runs=MappingProxyType(runs),
        versions=recorded_versions,
    )


def is_cohort(path: Path) -> bool:
    return has_file(path, COHORT_FILE)


def _common(roles: Mapping[str, str]) -> str:
    distinct = set(roles.values())
    return distinct.pop() if len(distinct) == 1 else "mixed"


def check_folders(keys: Sequence[RunKey]) -> None:
    """Refuse runs that would share a folder, also on a disk that ignores case."""
    slugs: dict[str, RunKey] = {}
    for key in keys:
        slug = str(key)
        if not is_plain_name(slug):
            raise InputError(
                f"Expected names short enough for a folder, but {slug:.80}… has {len(slug)} "
                "characters: shorten the names of the data set or of its domains."
            )
        other = slugs.setdefault(slug.casefold(), key)
        if other != key:
            pairs = zip(astuple(other), astuple(key), strict=True)
            one, two = next((a, b) for a, b in pairs if a != b)
            raise InputError(
                f"Expected runs with different names, but {one!r} and {two!r} would share "
                f"the folder {slug}: rename a data set, an algorithm or a held-out domain.",
                code="ambiguous",
            )
        files = [heldout_file(domain).casefold() for domain in key.held_out]
        if len(set(files)) < len(files):
            raise InputError(
                f"Expected held-out domains with different names, but those of {key} share a file: "
                "rename a domain.",
                code="ambiguous",
            )


@dataclass(frozen=True)
class Origin:
    """The files by their names below ``path``, and what the import was told about them."""

    path: str
    files: Mapping[str, Fingerprint]
    held_out: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {n: list(v) if isinstance(v, tuple) else v for n, v in vars(self).items()}


def origin_of(record: CohortRecord) -> Origin | None:
    """Where an imported cohort came from; None for a trained one."""
    facts = record.study.get(ORIGIN)
    if not isinstance(facts, dict):
        return None
    return Origin(
        path=str(facts.get("path", "")),
        files=dict(facts.get("files") or {}),
        held_out=tuple(facts.get("held_out") or ()),
        sources=tuple(facts.get("sources") or ()),
        columns=dict(facts.get("columns") or {}),
    )
