"""Tidy tables of metrics: CSV, Parquet or JSON lines, one row per step and domain.

Text is turned into numbers cell by cell and after target rows are gone, so a cell is read the same
whatever stands in the rows around it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.integrations.found import Found, Request, build, read_bytes
from checkwise.integrations.jsonl import Line
from checkwise.metrics import METRICS
from checkwise.records import RunKey, Trajectory
from checkwise.records.columns import ONLY_DOMAIN, source_rows, texts

KEY_COLUMNS = ("dataset", "algorithm", "held_out", "hparams_seed", "trial_seed")
OTHER_COLUMNS = ("run", "step", "domain", "role", "n", "correct", "diverged", "path")
REQUIRED = ("step", "accuracy")
# Columns by which a journal of checkwise on a held-out domain is known; it names no domain.
HELD_OUT_JOURNAL = {"step", "diverged", "split", "n", "correct"}

Columns = dict[str, NDArray[np.object_]]


def read_csv(path: Path, request: Request) -> list[Found]:
    """The runs of a comma-separated file whose first line names the columns."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Expected UTF-8 text, but {path} is not (byte {error.start}): save it as UTF-8 CSV."
        ) from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    cells: list[list[str]] = []
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(header, path)
        for row in rows:
            if len(row) == len(header):
                cells.append(row)
            elif row:
                raise InputError(
                    f"Expected {len(header)} cells as in the first line, but {path} line "
                    f"{rows.line_num} has {len(row)}: complete that line or remove it."
                )
    except csv.Error as error:
        raise InputError(
            f"Expected comma-separated values, but {path} line {rows.line_num} is not ({error}): "
            "check its quotes."
        ) from None
    wanted = _wanted(header, request, path)
    columns = {n: _objects([row[header.index(n)].strip() for row in cells]) for n in wanted}
    return _runs(columns, path, request, ())


def read_parquet(path: Path, request: Request) -> list[Found]:
    """The runs of a Parquet file; columns nobody asked for stay on disk."""
    import pyarrow.parquet as pq

    data = io.BytesIO(read_bytes(path))
    try:
        names = list(pq.read_schema(data).names)
    except Exception as error:
        raise _not_parquet(path, error) from None
    _check_header(names, path)
    wanted = _wanted(names, request, path)
    try:
        table = pq.read_table(data, columns=wanted)
        columns = {name: _objects(table.column(name).to_pylist()) for name in wanted}
    except Exception as error:
        raise _not_parquet(path, error) from None
    return _runs(columns, path, request, ())


def _not_parquet(path: Path, error: Exception) -> InputError:
    """Damage surfaces as a dozen kinds of error; all mean the same to the caller."""
    reason = str(error).partition("\n")[0][:80]
    return InputError(
        f"Expected a Parquet file, but {path} cannot be read as one ({reason}): write it again."
    )


def read_records(
    lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> list[Found]:
    """The runs of a file of JSON lines, each one row."""
    header = list(dict.fromkeys(name for line in lines for name in line.fields))
    _check_header(header, path)
    wanted = _wanted(header, request, path)
    columns = {n: _objects([line.fields.get(n) for line in lines]) for n in wanted}
    return _runs(columns, path, request, notes)


def _check_header(names: Sequence[str], path: Path) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        shown = ", ".join(names[:12])[:200] or "nothing"
        raise InputError(
            f"Expected columns step and accuracy (and domain, nll, ece, cwece, n where you have "
            f"them), but {path} has {shown}: name the columns in the first line, or in each JSON "
            "record."
        )
    if set(names) >= HELD_OUT_JOURNAL and "domain" not in names:
        raise InputError(
            f"Expected source validation, but {path} has the columns of checkwise's results on a "
            "held-out domain (diverged, split): give the folder of the run; in a table of your own "
            "rename `split`."
        )


def _wanted(names: Sequence[str], request: Request, path: Path) -> list[str]:
    for name in request.metrics:
        # A registered metric may be missing: the rule that wants it says what to do.
        if name not in names and name not in METRICS:
            raise InputError(f"Expected a column {name!r}, but {path} has none: check the name.")
    known = dict.fromkeys([*KEY_COLUMNS, *OTHER_COLUMNS, *METRICS, *request.metrics])
    wanted = [name for name in known if name in names]
    for name in wanted:
        if list(names).count(name) > 1:
            raise InputError(f"Column {name!r} appears twice in {path}: keep one of them.")
    return wanted


def _objects(cells: Sequence[Any]) -> NDArray[np.object_]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def _runs(columns: Columns, path: Path, request: Request, notes: Iterable[str]) -> list[Found]:
    """Rows of source domains, split by the columns that tell runs apart."""
    rows = len(columns["step"])
    if not rows:
        raise InputError(f"Expected at least one row, but {path} holds only column names.")
    columns = _only_sources(columns, rows, path, request)
    keyed = [name for name in KEY_COLUMNS if name in columns]
    labels = [name for name in ("run", *keyed) if name in columns]
    groups: dict[tuple[str, ...], list[int]] = {}
    parts = [_text(columns, name) for name in labels]
    for row in range(len(columns["step"])):
        groups.setdefault(tuple(part[row] for part in parts), []).append(row)
    found = []
    for label, members in groups.items():
        named = dict(zip(labels, label, strict=True))
        key = _key(named, keyed, path) if labels else None
        where = f"{path}, run {'/'.join(label)}" if labels else str(path)
        taken = {name: column[members] for name, column in columns.items()}
        trajectory = build(
            Trajectory.from_frame, where, taken,
            metrics=request.metrics, key=key, notes=tuple(notes),
        )  # fmt: skip
        found.append(Found(key, trajectory, where))
    return found


def _only_sources(columns: Columns, rows: int, path: Path, request: Request) -> Columns:
    """Leave out targets: by role, by the caller's word, or as the run's own held-out domain."""
    domain = texts(columns, "domain", list(columns), rows, ONLY_DOMAIN)
    role = texts(columns, "role", list(columns), rows, "source")
    try:
        keep = source_rows(domain, role, request.held_out)
    except InputError as error:
        raise InputError(f"{error} ({path})") from None
    if "domain" in columns and "held_out" in columns:
        targets = _text(columns, "held_out")
        own = [name in _held_out(given) for name, given in zip(domain, targets, strict=True)]
        keep &= ~np.array(own)
        if not keep.any():
            raise InputError(
                f"Every row of {path} belongs to a held-out domain: nothing to select on."
            )
    return {name: column[keep] for name, column in columns.items() if name != "role"}


def _text(columns: Columns, name: str) -> list[str]:
    found: list[str] = texts(columns, name, list(columns), len(columns["step"]), "").tolist()
    return found


def _held_out(given: str) -> tuple[str, ...]:
    """One name, or several joined by "+" as in a printed run key."""
    return tuple(dict.fromkeys([given, *given.split("+")])) if given else ()


def _key(named: Mapping[str, str], keyed: Sequence[str], path: Path) -> RunKey:
    if not keyed:
        return RunKey(named["run"], "run", (), 0, 0)
    seeds = {}
    for name in ("hparams_seed", "trial_seed"):
        given = named.get(name) or "0"
        try:
            seeds[name] = int(given.removesuffix(".0"))  # pandas writes 0.0 beside a gap
        except ValueError:
            raise InputError(
                f"Expected a whole number as {name}, but got {given!r:.40} in {path}: "
                "fix that cell."
            ) from None
    return RunKey(
        dataset=named.get("dataset") or named.get("run") or path.stem,
        algorithm=named.get("algorithm") or "unknown",
        held_out=tuple(name for name in named.get("held_out", "").split("+") if name),
        **seeds,
    )
