"""What other people's logs and tables say about held-out domains; only an import reads it.

The readers of these files give source validation and nothing else. This module reads what they
leave out. No message of it shows a value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics import METRICS, is_number
from checkwise.readers import (
    CLASS_FIELD,
    FIELD,
    LOGGED_AS,
    RUN_COLUMNS,
    Line,
    Request,
    Rows,
    Sheet,
    check_header,
    columns_read,
    domainbed_lines,
    entries,
    is_domainbed_log,
    is_swad_log,
    key_of,
    latest,
    open_csv,
    open_parquet,
    read_lines,
    sheet_of,
    sort_rows,
    swad_lines,
    worst_class,
)
from checkwise.records import (
    LARGEST_COUNT,
    LARGEST_DIFFERENCE,
    SOURCE,
    RunKey,
    looks_held_out,
    outside,
    targets_of,
    text_or_none,
    texts,
    whole_numbers,
)
from checkwise.store import live_journals

UNNAMED = "target"  # in a table without a column of domains


@dataclass(frozen=True)
class TargetRow:
    """One checkpoint on one held-out domain: the metrics that are finite, counts where logged."""

    values: Mapping[str, float]
    n: int | None = None
    correct: int | None = None
    split: str | None = None


ByStep: TypeAlias = dict[int, TargetRow]


@dataclass(frozen=True)
class BeyondSource:
    """What a file says of a run besides source validation: rows by held-out domain and step."""

    targets: dict[str, ByStep] = field(default_factory=dict)
    hparams: Mapping[str, Any] | None = None


def beyond_source(file: Path, request: Request) -> dict[RunKey | None, BeyondSource]:
    """What the readers leave out, by run; None where the file does not tell runs apart."""
    if live_journals(file):  # of a training, which is validated on sources alone
        return {}
    kind = file.suffix.lower()
    if kind == ".csv":
        return _of_table(open_csv(file, request), request)
    if kind in (".parquet", ".pq"):
        return _of_table(open_parquet(file), request)
    lines, notes = read_lines(file)
    if is_domainbed_log(lines[0]):
        runs = domainbed_lines(lines, file, request)
        return {key: _of_log(key, own, file, _domainbed) for key, own in runs.items()}
    if is_swad_log(lines[0]):
        runs = swad_lines(lines, file, request)
        return {key: _of_log(key, own, file, _swad) for key, own in runs.items()}
    return _of_table(sheet_of(lines, notes, file), request)


def _of_log(
    key: RunKey,
    lines: Sequence[Line],
    file: Path,
    logged: Callable[[Line, int, str], dict[str, Any]],
) -> BeyondSource:
    """The ``in`` split of every target, that DomainBed reports; ``out`` where it is alone."""
    records, _ = latest(lines, file)
    targets: dict[str, ByStep] = {}
    for domain in key.held_out:
        index = int(domain.removeprefix("env"))
        has_in = any(_without_gaps(logged(line, index, "in")) for line in records)
        split = "in" if has_in else "out"
        targets[domain] = {
            int(line.fields["step"]): _row(
                logged(line, index, split), split, f"{domain}, {file} line {line.number}"
            )
            for line in records
        }
    return BeyondSource(targets, _hparams(records[-1]))


def _hparams(line: Line) -> dict[str, Any] | None:
    """The hyperparameters that are plain values; JSON of ours has no NaN."""
    logged = line.fields.get("hparams")
    if not isinstance(logged, dict):
        return None
    plain = (str, bool, int, type(None))
    return {
        name: value
        for name, value in logged.items()
        if isinstance(value, plain) or (isinstance(value, float) and np.isfinite(value))
    }


def _domainbed(line: Line, index: int, split: str) -> dict[str, Any]:
    cells = {"accuracy": line.fields.get(f"env{index}_{split}_acc")}

    def of_target(field: str) -> Iterable[dict[str, Any]]:
        for entry in entries(line, field):
            if entry.get("domain_index") == index and entry.get("split") == split:
                yield entry

    for entry in of_target(FIELD):
        logged = {name: entry.get(LOGGED_AS.get(name, name)) for name in METRICS}
        cells |= _without_gaps(logged) | {"n": entry.get("n")}
    worst = worst_class(of_target(CLASS_FIELD)).get(index)
    return cells if worst is None else cells | {"worst_class_accuracy": worst}


def _swad(line: Line, index: int, split: str) -> dict[str, Any]:
    return {"accuracy": line.fields.get(f"env{index}_{split}")}


def _of_table(sheet: Sheet, request: Request) -> dict[RunKey | None, BeyondSource]:
    sources = sort_rows(sheet, request)
    rows = np.flatnonzero(~sources.keep)
    header = sheet.header(np.flatnonzero(sources.keep))
    reading = check_header(header, request, sheet.path)
    columns = sheet.columns(reading, rows)
    labels = {n: texts(columns, n, "", len(rows)).tolist() for n in RUN_COLUMNS if n in columns}
    roles = texts(columns, "role", SOURCE, len(rows)).tolist()
    domains = texts(columns, "domain", UNNAMED, len(rows)).tolist()
    steps = whole_numbers(columns["step"], "step").tolist() if len(rows) else []
    wanted = [name for name in columns if name in METRICS or name in ("n", "correct")]
    runs: dict[RunKey | None, BeyondSource] = {}
    others: list[str] = []
    for row, (domain, step) in enumerate(zip(domains, steps, strict=True)):
        cell = columns["held_out"][row] if "held_out" in columns else None
        targets = targets_of(cell, sources.domains, str(sheet.path))
        if targets and domain not in targets:  # a source of this run that the caller leaves out
            others += [domain] if looks_held_out(roles[row]) else []
            continue
        key = None
        if labels or targets:
            named = {name: column[row] for name, column in labels.items()}
            key = key_of(named, targets, sheet.path)
        where = f"{domain}, step {step} of {sheet.path}"
        by_step = runs.setdefault(key, BeyondSource()).targets.setdefault(domain, {})
        if step in by_step:
            raise InputError(
                f"Expected one row per step and domain, but got two for {where}: keep one (or add "
                "the run's columns, if the table holds several runs).",
                code="ambiguous",
            )
        by_step[step] = _row({name: columns[name][row] for name in wanted}, None, where)
    _warn_of_loss(sheet, others, _target_only(sheet, rows, reading, request))
    return runs


def _target_only(
    sheet: Sheet, rows: Rows, reading: Mapping[str, str], request: Request
) -> list[str]:
    """Metrics of the target's rows that no row of a source has."""
    columns = columns_read(sheet.header(rows), request, sheet.path)
    return [name for name in columns if name in METRICS and name not in reading]


def _warn_of_loss(sheet: Sheet, others: Sequence[str], metrics: Sequence[str]) -> None:
    if others:
        warnings.warn(
            f"{len(others)} rows of {', '.join(sorted(set(others)))} with the role of a target are "
            f"left out: the column `held_out` of {sheet.path} does not name them. Join the names "
            "there with + to import them.",
            CheckwiseWarning,
            stacklevel=2,
        )
    if metrics:
        warnings.warn(
            f"{', '.join(metrics)} of held-out domains are left out: only rows of the target in "
            f"{sheet.path} have them.",
            CheckwiseWarning,
            stacklevel=2,
        )


def _row(logged: Mapping[str, Any], split: str | None, where: str) -> TargetRow:
    """Checked numbers; what is empty or not finite is left out, as nothing can be said of it."""
    numbers: dict[str, float] = {}
    for name, cell in _without_gaps(logged).items():
        if not is_number(cell):
            raise _refusal("a number", name, where)
        value = float(cell)
        if not np.isfinite(value):
            continue
        if outside(np.array([value]), name)[0]:
            if 0 <= value <= 100:
                raise _refusal(
                    "a fraction between 0 and 1", name, where, do="divide by 100, as a percentage"
                )
            raise _refusal("a fraction or an error of 0 or more", name, where)
        numbers[name] = value
    counts = {name: numbers.pop(name) for name in ("n", "correct") if name in numbers}
    for name, count in counts.items():
        if not 0 <= count <= LARGEST_COUNT or count != int(count):
            raise _refusal("a whole number", name, where)
    row = TargetRow(numbers, split=split, **{name: int(count) for name, count in counts.items()})
    _check_counts(row, where)
    return row


def _check_counts(row: TargetRow, where: str) -> None:
    if row.n == 0:
        raise _refusal("at least 1", "n", where)
    if row.n is None or row.correct is None:
        return
    accuracy = row.values.get("accuracy", row.correct / row.n)
    if row.correct > row.n or abs(row.correct / row.n - accuracy) > LARGEST_DIFFERENCE:
        raise InputError(
            f"Expected n, correct and accuracy that fit each other on the held-out domain {where}, "
            "but they do not (the values are not shown): check these columns.",
            code="differs",
        )


def _without_gaps(logged: Mapping[str, Any]) -> dict[str, Any]:
    return {n: cell for n, cell in logged.items() if cell is not None and text_or_none(cell) != ""}


def _refusal(
    expected: str, name: str, where: str, *, do: str = "correct it, or leave it empty"
) -> InputError:
    return InputError(
        f"Expected {expected} as {name} on the held-out domain {where}, but it is none (the value "
        f"is not shown): {do}.",
        code="held-out",
    )
