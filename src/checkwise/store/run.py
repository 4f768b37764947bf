"""One run's folder: what it is, what selection may read of it, and the mark that it is finished."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey, Trajectory
from checkwise.store import layout, rows
from checkwise.store.atomic import write_text
from checkwise.store.journal import read_journal


@dataclass(frozen=True)
class RunRecord:
    """The content of ``run.json``."""

    key: RunKey
    config: Mapping[str, Any]
    versions: Mapping[str, str]


def write_run(folder: Path, key: RunKey, config: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    content = {
        "schema": layout.SCHEMA,
        "key": key.as_dict(),
        "config": dict(config),
        "versions": versions(),
    }
    write_text(folder / layout.RUN, layout.encode_json(content))


def read_run(folder: Path) -> RunRecord:
    """Read ``run.json``."""
    path = folder / layout.RUN
    content = layout.read_json(path)
    try:
        return RunRecord(read_key(content["key"]), content["config"], content["versions"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"Expected key, config and versions, but got a fault at {error} in {path}: remove the "
            "run's folder to train it again."
        ) from None


def read_key(entry: Mapping[str, Any]) -> RunKey:
    """A run's key from plain values."""
    return RunKey(**{name: entry[name] for name in RunKey.__dataclass_fields__})


def read_trajectory(folder: Path) -> Trajectory:
    """What selection may know of a run, finished or not: reads ``run.json`` and ``source.jsonl``.

    Nothing below ``heldout/`` is opened; it may be absent or unreadable.
    """
    folder = Path(folder)
    run = read_run(folder)
    path = folder / layout.SOURCE
    if not path.is_file():
        raise InputError(
            f"Expected records in {path}, but the run has not written any yet: let it train."
        )
    _check_mark(folder)
    lines = read_journal(path)
    if not lines:
        raise InputError(f"Expected at least one record, but got none in {path}: let it train.")
    notes = () if (folder / layout.DONE).exists() else ("the run is not finished",)
    return trajectory_of(
        lines,
        path=path,
        key=run.key,
        bins=run.config.get("bins"),
        bandwidth=run.config.get("bandwidth"),
        paths=[_weights(folder, line.get("step")) for line in lines],
        notes=notes,
    )


def _check_mark(folder: Path) -> None:
    """Refuse records that are not those the run was finished with."""
    if not finished(folder):
        return
    files = layout.read_json(folder / layout.DONE).get("files") or {}
    if layout.SOURCE in files and fingerprint(folder / layout.SOURCE) != files[layout.SOURCE]:
        raise InputError(
            f"Expected the records that the run finished with, but {folder / layout.SOURCE} was "
            "changed since: `checkwise verify` says what to do."
        )


def trajectory_of(lines: Sequence[Mapping[str, Any]], *, path: Path, **facts: Any) -> Trajectory:
    """A trajectory from the lines of ``source.jsonl``; ``path`` is for messages."""
    steps = rows.steps_of(lines, path)
    diverged = rows.diverged_of(lines)
    domains = tuple(sorted(lines[0].get("domains", ())))
    for line in lines:
        if tuple(sorted(line.get("domains", ()))) != domains:
            raise InputError(
                f"Expected the domains {', '.join(domains)} at every step, but step {line['step']} "
                f"differs in {path}: the file is damaged; `checkwise verify` says what to do."
            )
    columns = {
        domain: rows.metric_columns(
            [line["domains"][domain] for line in lines], diverged, steps, f"{domain!r} of {path}"
        )
        for domain in domains
    }
    first = columns[domains[0]]
    table = {name: np.stack([columns[d][name] for d in domains], axis=1) for name in first}
    counts, correct = table.pop("n"), table.pop("correct")
    if (counts != counts[0]).any():
        raise InputError(f"Expected the same n at every step, but it changes in {path}.")
    return Trajectory(
        steps=steps,
        domains=domains,
        values=table,
        counts=counts[0],
        correct=correct,
        diverged=diverged,
        **facts,
    )


def mark_done(folder: Path, last_step: int) -> None:
    """Write the mark that a run is finished: the size and SHA-256 of every file that stays."""
    files = {name: fingerprint(folder / name) for name in kept_files(folder)}
    content = {"schema": layout.SCHEMA, "last_step": last_step, "files": files}
    write_text(folder / layout.DONE, layout.encode_json(content))


def finished(folder: Path) -> bool:
    """Whether a run has its mark."""
    return (Path(folder) / layout.DONE).is_file()


def kept_files(folder: Path) -> list[str]:
    """Every file of a run that ``done`` vouches for, relative to its folder."""
    single = [name for name in (layout.RUN, layout.SOURCE) if (folder / name).is_file()]
    below = [
        path.relative_to(folder).as_posix()
        for place in (layout.HELDOUT, layout.CHECKPOINTS, layout.AVERAGES, layout.PREDICTIONS)
        for path in sorted((folder / place).rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    return single + below


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def versions() -> dict[str, str]:
    """Versions of what a run's numbers depend on."""
    found = {"python": platform.python_version()}
    for package in ("checkwise", "torch", "numpy", "numba"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _weights(folder: Path, step: Any) -> str | None:
    path = folder / layout.checkpoint_file(step) if isinstance(step, int) else None
    return str(path) if path is not None and path.is_file() else None
