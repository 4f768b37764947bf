"""One run's folder: its configuration, and the trajectory that selection may read."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import METRICS, Groups, Logits
from checkwise.records import RunKey, Trajectory
from checkwise.store import journal, layout
from checkwise.store.cohort_plan import check_planned
from checkwise.store.done import RETRAIN, check_recorded, finished, read_mark, read_recorded
from checkwise.store.journal import parse_journal
from checkwise.store.reading import has_file
from checkwise.store.run_predictions import (
    GROUPS,
    OWN,
    VERIFY,
    RunPredictions,
    Validation,
    is_second,
)


@dataclass(frozen=True)
class RunRecord:
    """The content of ``run.json``."""

    key: RunKey
    config: Mapping[str, Any]
    versions: Mapping[str, str]


def read_run(folder: Path) -> RunRecord:
    """Read ``run.json``.

    Raises:
        InputError: it is damaged, was changed since the run finished, or belongs to another run
            than the one that the cohort planned for the folder.
    """
    folder = Path(folder)
    path = folder / layout.RUN_FILE
    document = layout.read_document(path)
    try:
        key = RunKey.from_dict(document.content.get("key"))
    except InputError as error:
        raise InputError(f"{error} It is in {path}: {RETRAIN}.", code=error.code) from None
    parts = [layout.expect(document.content, name, dict, path) for name in ("config", "versions")]
    check_recorded(folder, layout.RUN_FILE, {"bytes": document.bytes, "sha256": document.sha256})
    check_planned(folder, key)
    return RunRecord(key, *parts)


def read_trajectory(folder: Path, validation: Validation | None = None) -> Trajectory:
    """What selection may know of a run, finished or not: reads ``run.json`` and ``source.jsonl``.

    ``validation`` is one of two validation sets, for runs that have both; None is the run's own.
    Source logits are read later, where something needs single examples. Nothing below ``heldout/``
    is opened; it may be absent or unreadable.
    """
    folder = Path(folder)
    run = read_run(folder)
    path = folder / layout.SOURCE_FILE
    if not has_file(folder, layout.SOURCE_FILE):
        raise InputError(
            f"Expected records in {path}, but the run has not written any yet: wait for its first "
            "checkpoint.",
            code="empty",
        )
    lines = read_records(folder, layout.SOURCE_FILE)
    if not lines:
        raise InputError(
            f"Expected at least one record, but got none in {path}: wait for its first checkpoint.",
            code="empty",
        )
    origin = run.config.get(layout.ORIGIN)
    origin = origin if isinstance(origin, Mapping) else {}
    said, seed = origin.get("notes"), origin.get("identity")
    notes = [note for note in said if isinstance(note, str)] if isinstance(said, list) else []
    if not finished(folder):
        notes = ["the run is not finished"]
    second = is_second(run.config, validation, folder)
    if second:
        lines = [{**line, OWN: line.get(GROUPS)} for line in lines]
        notes.append("validated on whole groups")
    unknown = unknown_metrics(run)
    if unknown:
        notes.append(f"{', '.join(unknown)} left out: {plugin_hint(run)}")
    trajectory = trajectory_of(
        lines,
        path=path,
        key=run.key,
        bins=run.config.get("bins"),
        bandwidth=run.config.get("bandwidth"),
        paths=_weights(folder, [line.get("step") for line in lines]),
        notes=tuple(notes),
        # Draws on the log of an imported run are those on the log itself.
        seeded_by=seed if isinstance(seed, str) else None,
        without=unknown,
    )
    saved = RunPredictions(folder, run.key.held_out, second)
    return replace(trajectory, examples=saved.examples(trajectory))


def unknown_metrics(run: RunRecord) -> tuple[str, ...]:
    """Metrics in the journals whose plugin was not loaded."""
    recorded = run.config.get("metrics")
    names = recorded if isinstance(recorded, Mapping) else ()
    return tuple(name for name in names if name not in METRICS)


def plugin_hint(run: RunRecord) -> str:
    """The options that load a run's plugins."""
    recorded = run.config.get("plugins")
    names = recorded if isinstance(recorded, Mapping) else ()
    return "add " + (" ".join(f"--plugin {name}" for name in names) or "--plugin FILE.py")


def read_records(folder: Path, name: str) -> list[dict[str, Any]]:
    """Every whole line of one of a run's journals; of a finished run, only if it is unchanged."""
    return parse_journal(read_recorded(folder, name), folder / name)


def all_diverged(folder: Path) -> bool:
    """Whether every checkpoint of a run diverged, so that there is nothing to choose from."""
    lines = read_records(folder, layout.SOURCE_FILE)
    return bool(lines) and all(line.get("diverged") for line in lines)


def trajectory_of(
    lines: Sequence[Mapping[str, Any]], *, path: Path, without: Sequence[str] = (), **facts: Any
) -> Trajectory:
    """A trajectory from the lines of ``source.jsonl``; ``path`` is for messages.

    Metrics in ``without`` are left out: it is not known whether lower or higher is better.
    """
    steps = journal.steps_of(lines, path)
    diverged = journal.diverged_of(lines)
    domains = _domains(lines[0], path)
    for line in lines:
        if _domains(line, path) != domains:
            raise InputError(
                f"Expected the domains {', '.join(domains)} at every step, but step {line['step']} "
                f"differs in {path}: the file is damaged; `checkwise study status --verify` "
                "says what to do.",
                code="damaged",
            )
    columns = {
        domain: journal.metric_columns(
            [line["domains"][domain] for line in lines], diverged, steps, f"{domain!r} of {path}"
        )
        for domain in domains
    }
    first = columns[domains[0]]
    for domain in domains:
        if columns[domain].keys() != first.keys():
            raise InputError(
                f"Expected the same metrics of every domain, but {domains[0]!r} and {domain!r} "
                f"differ in {path}: the file is damaged; `checkwise study status --verify` "
                "says what to do.",
                code="damaged",
            )
    table = {name: np.stack([columns[d][name] for d in domains], axis=1) for name in first}
    table = {name: column for name, column in table.items() if name not in without}
    counts, correct = table.pop("n", None), table.pop("correct", None)
    if counts is not None and (counts != counts[0]).any():
        raise InputError(
            f"Expected the same n at every step, but it changes in {path}.", code="damaged"
        )
    return Trajectory(
        steps=steps,
        domains=domains,
        values=table,
        pooled=_pooled(lines, diverged, steps, str(path)),
        counts=None if counts is None else counts[0],
        correct=correct,
        diverged=diverged,
        **facts,
    )


def _pooled(
    lines: Sequence[Mapping[str, Any]], diverged: Any, steps: Any, where: str
) -> dict[str, Any]:
    """Metrics that an imported log has only as means over domains."""
    if not any("pooled" in line for line in lines):
        return {}
    means = [entry for line in lines if isinstance(entry := line.get("pooled"), Mapping)]
    if len(means) < len(lines):
        raise InputError(
            f"Expected the pooled metrics of every step, but some have none in {where}: the file "
            "is damaged; `checkwise study status --verify` says what to do.",
            code="damaged",
        )
    counts: dict[str, Any] = {"n": None, "correct": None}
    return journal.metric_columns([{**counts, **entry} for entry in means], diverged, steps, where)


def _domains(line: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    domains = line.get("domains")
    if (
        not isinstance(domains, Mapping)
        or not domains
        or not all(isinstance(entry, Mapping) for entry in domains.values())
    ):
        raise InputError(
            f"Expected the metrics of every domain, but got {reprlib.repr(domains)} at step "
            f"{line['step']} of {path}: the file is damaged; `checkwise study status --verify` "
            "says what to do.",
            code="damaged",
        )
    return tuple(sorted(domains))


def _weights(folder: Path, steps: Sequence[Any]) -> list[str | None]:
    """Where the weights of every step are; None where they were not kept."""
    place = folder / layout.CHECKPOINTS_FOLDER
    if not place.is_dir():
        return [None] * len(steps)
    with os.scandir(place) as entries:
        saved = {layout.step_of(Path(entry.name)) for entry in entries if entry.is_file()}
    return [
        str(folder / layout.checkpoint_file(step)) if type(step) is int and step in saved else None
        for step in steps
    ]


def source_logits(folder: Path, step: int, validation: Validation | None = None) -> Logits:
    """Logits and labels of every source domain's validation split at one step.

    ``validation`` is one of two validation sets, for runs that have both. Held-out logits lie in
    other files, which are not opened.
    """
    return _predictions(folder, validation).logits(step, lambda: remedy(folder))


def source_groups(folder: Path, step: int, validation: Validation | None = None) -> Groups | None:
    """The independent unit of every example of the same files; None where the data have none."""
    return _predictions(folder, validation).groups(step, lambda: remedy(folder)) or None


def _predictions(folder: Path, validation: Validation | None) -> RunPredictions:
    run = read_run(folder)
    second = is_second(run.config, validation, folder)
    return RunPredictions(Path(folder), run.key.held_out, second)


def saved_at(folder: Path, steps: Iterable[int]) -> bool:
    """Whether the source logits of all these checkpoints were saved."""
    return all((folder / layout.source_predictions_file(step)).is_file() for step in steps)


def remedy(folder: Path, *, heldout: bool = False) -> str:
    """What to do about logits that a run lacks: save them, or name the cohort that has them."""
    saved = read_run(folder).config.get("logits")
    if saved != "all" and (heldout or saved not in ("source", "source-half")):
        which = '"all"`' if heldout else '"source"` (or "all")'
        return f"train with `logits = {which} under [records] of the study"
    if left_behind(folder):
        return "packing left the logits behind; name the study that it was packed from"
    return VERIFY


def left_behind(folder: Path) -> bool:
    """Whether a finished run saved logits that did not come along when it was packed."""
    return (
        read_run(folder).config.get("logits") in ("source", "source-half", "all")
        and finished(folder)
        and not any(name.startswith(layout.PREDICTIONS_FOLDER) for name in read_mark(folder).files)
    )
