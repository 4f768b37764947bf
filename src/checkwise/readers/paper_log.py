"""The paper's extended records: metrics per domain beside DomainBed's accuracies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers.json_lines import Line, number, whole

FIELD = "per_domain_calibration"
CLASS_FIELD = "per_domain_class_calibration"
LOGGED_AS = {"cwece": "classwise_ece"}
CLASS_SIZE = ("n", "class_n", "count", "support")


@dataclass(frozen=True)
class PaperMetrics:
    """Metric → domain index → one value per record, with names and counts where logged."""

    values: dict[str, dict[int, list[float]]]
    names: dict[int, str]
    counts: dict[int, int] | None
    notes: tuple[str, ...]


def read(
    lines: Sequence[Line], targets: Collection[int], metrics: Iterable[str], path: Path
) -> PaperMetrics | None:
    """Validation metrics of the source domains, or None for a log without any."""
    rows = [_source_entries(line, targets, path) for line in lines]
    indices = sorted(set().union(*rows))
    if not indices:
        return None
    for line, row in zip(lines, rows, strict=True):
        for index, worst in worst_class(_sources(line, CLASS_FIELD, targets)).items():
            if index in row:
                row[index] = {**row[index], "worst_class_accuracy": worst}
    values: dict[str, dict[int, list[float]]] = {}
    notes: list[str] = []
    for metric in dict.fromkeys([*METRICS, *metrics]):
        name = LOGGED_AS.get(metric, metric)
        there = [row.get(index, {}).get(name) is not None for row in rows for index in indices]
        if all(there):
            values[metric] = {
                index: [
                    number(line, name, path, row[index])
                    for line, row in zip(lines, rows, strict=True)
                ]
                for index in indices
            }
        elif any(there):
            notes.append(f"{metric} is missing in some records and is not read")
    return PaperMetrics(values, _names(rows, indices), _counts(lines, rows, path), tuple(notes))


def logged(lines: Sequence[Line]) -> set[int]:
    """The domains that the records are about, held out or not."""
    return {
        entry["domain_index"]
        for line in lines
        for entry in entries(line, FIELD)
        if type(entry.get("domain_index")) is int
    }


def target_names(lines: Sequence[Line], targets: Collection[int]) -> set[str]:
    """Names of held-out domains, to recognise one the caller gives; no value of theirs is read."""
    return {
        str(entry.get("domain_name"))
        for entry in entries(lines[0], FIELD)
        if not _is_source(entry, targets)
    }


def entries(line: Line, field: str) -> Iterator[dict[str, Any]]:
    """The entries of a record about domains, whatever their role."""
    logged = line.fields.get(field)
    for entry in logged if isinstance(logged, list) else []:
        if isinstance(entry, dict):
            yield entry


def _is_source(entry: dict[str, Any], targets: Collection[int]) -> bool:
    if entry.get("role") != "source":
        return False
    index = entry.get("domain_index")
    return not (type(index) in (int, float) and index in targets)


def _sources(line: Line, field: str, targets: Collection[int]) -> Iterator[dict[str, Any]]:
    """Validation entries of source domains: the only ones that leave this function."""
    for entry in entries(line, field):
        if entry.get("split") == "out" and _is_source(entry, targets):
            yield entry


def _source_entries(line: Line, targets: Collection[int], path: Path) -> dict[int, dict[str, Any]]:
    by_index: dict[int, dict[str, Any]] = {}
    for entry in _sources(line, FIELD, targets):
        index = whole(line, "domain_index", path, entry)
        if index in by_index:
            raise InputError(
                f"Expected one {FIELD} entry per domain, but {path} line {line.number} has two of "
                f"domain {index}: keep one.",
                code="ambiguous",
            )
        by_index[index] = entry
    return by_index


def worst_class(about_classes: Iterable[dict[str, Any]]) -> dict[int, float]:
    """Smallest accuracy over the classes present, per domain index."""
    accuracies: dict[int, list[float]] = {}
    for entry in about_classes:
        index, logged = entry.get("domain_index"), entry.get("class_accuracy")
        if type(index) is not int:
            continue
        if isinstance(logged, dict):
            logged = list(logged.values())
        elif not isinstance(logged, list):
            logged = [None if any(entry.get(n) == 0 for n in CLASS_SIZE) else logged]
        # A class without examples has no accuracy: null or NaN.
        present = [float(a) for a in logged if type(a) in (int, float) and abs(a) < 2**53]
        accuracies.setdefault(index, []).extend(present)
    return {index: min(present) for index, present in accuracies.items() if present}


def _names(rows: Sequence[dict[int, dict[str, Any]]], indices: Sequence[int]) -> dict[int, str]:
    """Logged names if they tell all domains apart at every step, else ``env{i}``."""
    logged = {
        (index, name if isinstance(name := entry.get("domain_name"), str) else "")
        for row in rows
        for index, entry in row.items()
    }
    names = {name for _, name in logged}
    if "" in names or not len(names) == len(logged) == len(indices):
        return {index: f"env{index}" for index in indices}
    return dict(sorted(logged))


def _counts(
    lines: Sequence[Line], rows: Sequence[dict[int, dict[str, Any]]], path: Path
) -> dict[int, int] | None:
    counts: dict[int, int] = {}
    for line, row in zip(lines, rows, strict=True):
        for index, entry in row.items():
            if entry.get("n") is None:
                return None
            n = whole(line, "n", path, entry)
            if counts.setdefault(index, n) != n:
                raise InputError(
                    f"Expected the same n at every step, but domain {index} has {counts[index]} "
                    f"and, in {path} line {line.number}, {n}: evaluate all checkpoints on the same "
                    "examples.",
                    code="differs",
                )
    return counts
