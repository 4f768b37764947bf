"""A cohort: the runs that were planned together, and where each of them is."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.atomic_write import writing
from checkwise.store.cohort_plan import read_plan, write_plan
from checkwise.store.run import versions
from checkwise.store.safe_read import check_folder, has_file, is_plain_name

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
        "schema": layout.SCHEMA,
        "name": name,
        "role": _common(roles),
        "roles": dict(roles),
        "study": dict(study),
        "metrics": dict(metrics),
        "runs": [{"slug": str(key), "key": key.as_dict()} for key in dict.fromkeys(keys)],
        "versions": versions(),
    }
    with writing(path):
        (path / layout.RUNS).mkdir(parents=True, exist_ok=True)
        write_plan(path, content)


def open_cohort(path: Path | str) -> CohortRecord:
    """Read ``cohort.json``.

    Raises:
        InputError: it is not a plan, it was changed, or a run's folder leads out of the cohort.
    """
    path = Path(path)
    file = path / layout.COHORT
    plan = read_plan(path)
    role = layout.expect(plan.content, "role", str, file)
    study, metrics, recorded_versions = (
        MappingProxyType(dict(layout.expect(plan.content, name, dict, file)))
        for name in ("study", "metrics", "versions")
    )
    datasets = {key.dataset for key in plan.runs.values()}
    roles = plan.content.get("roles") or dict.fromkeys(datasets, role)
    if not isinstance(roles, dict) or not all(isinstance(role, str) for role in roles.values()):
        raise InputError(
            f"Expected the role of every data set, but got {reprlib.repr(roles)} in {file}: "
            "restore the file from a copy.",
            code="damaged",
        )
    if not set(roles.values()) <= set(ROLES) or role != _common(roles):
        raise InputError(
            f"Expected the role of every data set, {' or '.join(ROLES)}, but got "
            f"{reprlib.repr(roles)} and {reprlib.repr(role)} for all in {file}: restore the file "
            "from a copy.",
            code="damaged",
        )
    check_folder(path / layout.RUNS)
    check_folder(path / layout.ATTEMPTS)
    runs = {key: path / layout.RUNS / slug for slug, key in plan.runs.items()}
    for folder in runs.values():
        check_folder(folder)
    return CohortRecord(
        path=path,
        name=layout.expect(plan.content, "name", str, file),
        role=role,
        roles=MappingProxyType(dict(roles)),
        study=study,
        metrics=metrics,
        runs=MappingProxyType(runs),
        versions=recorded_versions,
    )


def is_cohort(path: Path) -> bool:
    """Whether a folder is a cohort."""
    return has_file(path, layout.COHORT)


def _difference(one: RunKey, other: RunKey) -> str:
    """The first names in which two runs differ."""
    words = {"dataset": "data sets", "algorithm": "algorithms", "held_out": "held-out domains"}
    for fact, word in words.items():
        names = [getattr(key, fact) for key in (one, other)]
        if names[0] != names[1]:
            first, second = (n if isinstance(n, str) else "+".join(n) for n in names)
            return f"runs of the {word} {first!r} and {second!r}"
    return f"{one} and {other}"


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
            raise InputError(
                f"Expected runs with different names, but {_difference(other, key)} would share "
                f"the folder {slug}: rename one.",
                code="ambiguous",
            )
        files = [layout.heldout_file(domain).casefold() for domain in key.held_out]
        if len(set(files)) < len(files):
            raise InputError(
                f"Expected held-out domains with different names, but those of {key} share a file: "
                "rename a domain.",
                code="ambiguous",
            )
