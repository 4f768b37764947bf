"""One run's folder: its configuration, and what selection may read of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.metrics import METRICS, Logits
from checkwise.records import RunKey, Trajectory
from checkwise.store import journal, layout
from checkwise.store.checksums import (
    RETRAIN,
    check_planned,
    check_recorded,
    finished,
    read_mark,
    read_recorded,
)
from checkwise.store.layout import damaged_file
from checkwise.store.reading import has_file
from checkwise.store.run_predictions import (
    GROUPS,
    OWN,
    RunPredictions,
    Validation,
    is_second,
    read_logits,
)


@dataclass(frozen=True)
class RunRecord:
    """A run's folder and the content of its ``run.json``."""

    folder: Path
    key: RunKey
    config: Mapping[str, Any]
    versions: Mapping[str, str]

    def trajectory(self, validation: Validation | None = None) -> Trajectory:
        """What selection may know of the run, finished or not: reads ``source.jsonl`` alone.

        ``validation`` is one of two validation sets, for runs that have both; None is the run's
        own. Source logits are read later, where something needs single examples. Nothing below
        ``heldout/`` is opened; it may be absent or unreadable.
        """
        path = self.folder / layout.SOURCE_FILE
        there = has_file(self.folder, layout.SOURCE_FILE)
        lines = read_records(self.folder, layout.SOURCE_FILE) if there else []
        if not lines:
            raise InputError(
                f"Expected at least one record, but got none in {path}: wait for its first "
                "checkpoint.",
                code="empty",
            )
        origin = self.config.get(layout.ORIGIN)
        origin = origin if isinstance(origin, Mapping) else {}
        said, seed = origin.get("notes"), origin.get("identity")
        notes = [note for note in said if isinstance(note, str)] if isinstance(said, list) else []
        if not finished(self.folder):
            notes = ["the run is not finished"]
        second = is_second(self.config, validation, self.folder)
        if second:
            lines = [{**line, OWN: line.get(GROUPS)} for line in lines]
            notes.append("validated on whole groups")
        unknown = self.unknown_metrics
        if unknown:
            notes.append(f"{', '.join(unknown)} left out: {self.plugin_hint}")
        trajectory = trajectory_of(
            lines,
            path=path,
            key=self.key,
            bins=self.config.get("bins"),
            bandwidth=self.config.get("bandwidth"),
            paths=_weights(self.folder, [line.get("step") for line in lines]),
            notes=tuple(notes),
            # Draws on the log of an imported run are those on the log itself.
            seeded_by=seed if isinstance(seed, str) else None,
            without=unknown,
        )
        examples = self.predictions(validation).examples(trajectory)
        return replace(trajectory, examples=examples)

    def predictions(self, validation: Validation | None = None) -> RunPredictions:
        """What was saved of every source example; ``validation`` as above."""
        second = is_second(self.config, validation, self.folder)
        return RunPredictions(self.folder, self.key.held_out, self.remedy, second)

    def held_out_logits(self, name: str, what: str) -> Logits:
        """Logits and labels in a file of held-out predictions."""
        return read_logits(self.folder, name, what, lambda: self.remedy(heldout=True))

    def saved_at(self, steps: Iterable[int]) -> bool:
        """Whether the source logits of all these checkpoints were saved."""
        files = (self.folder / layout.source_predictions_file(step) for step in steps)
        return all(file.is_file() for file in files)

    @property
    def all_diverged(self) -> bool:
        """Whether every checkpoint diverged, so that there is nothing to choose from."""
        lines = read_records(self.folder, layout.SOURCE_FILE)
        return bool(lines) and all(line.get("diverged") for line in lines)

    @property
    def unknown_metrics(self) -> tuple[str, ...]:
        """Metrics in the journals whose plugin was not loaded."""
        recorded = self.config.get("metrics")
        names = recorded if isinstance(recorded, Mapping) else ()
        return tuple(name for name in names if name not in METRICS)

    @property
    def plugin_hint(self) -> str:
        """The options that load the run's plugins."""
        recorded = self.config.get("plugins")
        names = recorded if isinstance(recorded, Mapping) else ()
        return "add " + (" ".join(f"--plugin {name}" for name in names) or "--plugin FILE.py")

    @property
    def left_behind(self) -> bool:
        """Whether a finished run saved logits that did not come along when it was packed."""
        saved = self.config.get("logits") in ("source", "source-half", "all")
        if not saved or not finished(self.folder):
            return False
        return not any(
            n.startswith(layout.PREDICTIONS_FOLDER) for n in read_mark(self.folder).files
        )

    def remedy(self, *, heldout: bool = False) -> str:
        """What to do about logits that are lacking: save them, or name the cohort with them."""
        saved = self.config.get("logits")
        if saved != "all" and (heldout or saved not in ("source", "source-half")):
            which = '"all"`' if heldout else '"source"` (or "all")'
            return f"train with `logits = {which} under [records] of the study"
        if self.left_behind:
            return "packing left the logits behind; name the study that it was packed from"
        return layout.VERIFY


def read_run(folder: Path) -> RunRecord:
    """Read ``run.json``."""
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
    return RunRecord(folder, key, *parts)


def read_records(folder: Path, name: str) -> list[dict[str, Any]]:
    """Every whole line of one of a run's journals; of a finished run, only if it is unchanged."""
    return journal.parse_journal(read_recorded(folder, name), folder / name)


def trajectory_of(
    lines: Sequence[Mapping[str, Any]], *, path: Path, without: Sequence[str] = (), **facts: Any
) -> Trajectory:
    """A trajectory from the lines of ``source.jsonl``; ``path`` is for messages.

    Metrics in ``without`` are left out: it is not known whether lower or higher is better.
    """
    steps, diverged = journal.steps_of(lines, path)
    domains = _domains(lines[0], path)
    for line in lines:
        if (others := _domains(line, path)) != domains:
            wanted = f"the domains {', '.join(domains)} at every step"
            raise damaged_file(wanted, others, f"{path} at step {line['step']}")
    columns = [
        journal.metric_columns(
            [line[OWN][domain] for line in lines], diverged, steps, f"{domain!r} of {path}"
        )
        for domain in domains
    ]
    for domain, found in zip(domains, columns, strict=True):
        if found.keys() != columns[0].keys():
            raise damaged_file(
                "the same metrics on every domain", sorted(found), f"{domain!r} of {path}"
            )
    table = {name: np.stack([column[name] for column in columns], axis=1) for name in columns[0]}
    table = {name: column for name, column in table.items() if name not in without}
    counts, correct = table.pop("n", None), table.pop("correct", None)
    if counts is not None and (counts != counts[0]).any():
        raise damaged_file("the same n at every step", counts.tolist(), str(path))
    pooled: dict[str, Any] = {}
    if any("pooled" in line for line in lines):  # what an imported log has only as means
        means = [line.get("pooled") for line in lines]
        if not all(isinstance(entry, Mapping) for entry in means):
            raise damaged_file("the pooled metrics of every step", means, str(path))
        unknown = {"n": None, "correct": None}
        pooled = journal.metric_columns(
            [{**unknown, **(entry or {})} for entry in means], diverged, steps, str(path)
        )
    return Trajectory(
        steps=steps,
        domains=domains,
        values=table,
        pooled=pooled,
        counts=None if counts is None else counts[0],
        correct=correct,
        diverged=diverged,
        **facts,
    )


def _domains(line: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    found = line.get(OWN)
    entries = found.values() if isinstance(found, Mapping) else ()
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise damaged_file("the metrics of every domain", found, f"{path} at step {line['step']}")
    return tuple(sorted(line[OWN]))


def _weights(folder: Path, steps: Sequence[Any]) -> list[str | None]:
    """Where the weights of every step are; None where they were not kept."""
    place = folder / layout.CHECKPOINTS_FOLDER
    saved: set[int | None] = set()
    if place.is_dir():
        with os.scandir(place) as entries:
            saved = {layout.step_in_name(Path(entry.name)) for entry in entries if entry.is_file()}
    return [
        str(folder / layout.checkpoint_file(step)) if type(step) is int and step in saved else None
        for step in steps
    ]
