"""A cohort: the runs that were planned together, and where each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.store import layout
from checkwise.store.atomic import write_text
from checkwise.store.faults import writing
from checkwise.store.run import finished, read_key, versions

__all__ = ["CohortRecord", "finished", "is_cohort", "open_cohort", "write_cohort"]


@dataclass(frozen=True)
class CohortRecord:
    """The content of ``cohort.json``.

    ``role`` is "development" or "evaluation", or "mixed" where ``roles`` gives data sets unlike
    roles. ``runs`` maps every planned run to its folder, which exists once the run has started.
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
    slugs: dict[str, RunKey] = {}
    for key in keys:
        if slugs.setdefault(str(key), key) != key:
            raise InputError(
                f"Expected runs with unlike names, but {slugs[str(key)]} and {key} share a folder: "
                "rename a domain."
            )
    content = {
        "schema": layout.SCHEMA,
        "name": name,
        "role": _common(roles),
        "roles": dict(roles),
        "study": dict(study),
        "metrics": dict(metrics),
        "runs": [{"slug": slug, "key": key.as_dict()} for slug, key in slugs.items()],
        "versions": versions(),
    }
    with writing(path):
        (path / layout.RUNS).mkdir(parents=True, exist_ok=True)
        write_text(path / layout.COHORT, layout.encode_json(content))


def open_cohort(path: Path | str) -> CohortRecord:
    """Read ``cohort.json``."""
    path = Path(path)
    file = path / layout.COHORT
    content = layout.read_json(file)
    try:
        runs = {read_key(r["key"]): path / layout.RUNS / str(r["slug"]) for r in content["runs"]}
        role = str(content["role"])
        datasets = {key.dataset for key in runs}
        return CohortRecord(
            path=path,
            name=str(content["name"]),
            role=role,
            roles=MappingProxyType(dict(content.get("roles") or dict.fromkeys(datasets, role))),
            study=MappingProxyType(dict(content["study"])),
            metrics=MappingProxyType(dict(content["metrics"])),
            runs=MappingProxyType(runs),
            versions=MappingProxyType(dict(content["versions"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"Expected the plan of a cohort, but got a fault at {error} in {file}: give "
            "`checkwise sweep` the study again with another --out."
        ) from None


def is_cohort(path: Path) -> bool:
    """Whether a folder is a cohort."""
    return (path / layout.COHORT).is_file()


def _common(roles: Mapping[str, str]) -> str:
    distinct = set(roles.values())
    return distinct.pop() if len(distinct) == 1 else "mixed"
