"""From a trainer's log to trajectories, with everything said that was decided on the way."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.readers import evaluations as units
from checkwise.readers.checkpoint_files import Checkpoints, find_checkpoints, steps_to_choose_from
from checkwise.readers.counts import possible, rounding
from checkwise.readers.evaluations import LARGEST_STEP, Evaluations, evaluations
from checkwise.readers.header import LOG_THEM, Reading, how_to_map, read_header
from checkwise.readers.log import HISTORY, KERAS, LIGHTNING, OTHER, ULTRALYTICS, FloatArray, Log
from checkwise.readers.request import LoadedRun, Request, build
from checkwise.records import ONLY_DOMAIN, RunKey, Trajectory, check_cells
from checkwise.words import counted, listed, shortened

SETS_SHOWN = 3
MOST_TRIED = 1000  # numbers of examples
TITLES = {"nll": "NLL"}
ASSUMED = "cross-entropy, assumed"
BREAKS_IT = (
    "label smoothing, class weights and added penalties would make the loss something else than NLL"
)


def read(logs: Sequence[Log], request: Request, where: Path) -> list[LoadedRun]:
    """The runs of the logs of a place; what cannot be read is added to ``request.left_out``."""
    runs: list[LoadedRun] = []
    for log in logs:
        try:
            runs += _read_log(log, request, where)
        except InputError as error:
            named = log.run and log.run not in str(error)
            request.left_out.append(
                InputError(f"{error} (run {log.run})", code=error.code) if named else error
            )
    return runs


def _read_log(log: Log, request: Request, place: Path) -> list[LoadedRun]:
    where = f"{log.path}, run {log.run}" if log.run else str(log.path)
    told = check_cells(log.said(), where, sources=request.sources, one_set=True)
    request = replace(request, sources=tuple(n for n in request.sources if n not in told))
    reading = read_header(log, request)
    columns = [column for per_set in reading.columns.values() for column in per_set.values()]
    columns += reading.counts.values()
    columns = [part for column in columns for part in reading.sums.get(column, (column,))]
    runs = evaluations(log.columns([*dict.fromkeys(columns)]), where, closing=log.trainer.closing)
    runs = [replace(run, values={**run.values, **_sums(run, reading)}) for run in runs]
    found = find_checkpoints(
        log.path, log.trainer, runs[-1].steps, runs[-1].epochs,
        pattern=request.checkpoints, told=log.files,
    )  # fmt: skip
    # A run that was appended has written over the checkpoints of the one before.
    note = f"checkpoints are those of the last run in {log.path.name}"
    before = Checkpoints({}, (note,), ahead=found.ahead)
    loaded = []
    for number, run in enumerate(runs, start=1):
        parts = [f"{log.path.name} holds {len(runs)} runs one after the other"] * (len(runs) > 1)
        checkpoints = found if number == len(runs) else before
        trajectory = build(_trajectory, where, log, run, reading, request, parts, checkpoints)
        part = f"part {number}" if len(runs) > 1 else ""
        # The log's place is name enough, where it holds one run.
        key = RunKey.by_place(f"{log.run} {part}".strip()) if log.run else None
        loaded.append(LoadedRun(key, trajectory, str(place), log.path, part))
    return loaded


def _sums(run: Evaluations, reading: Reading) -> dict[str, FloatArray]:
    """The losses that are logged in parts."""
    return {
        name: np.array(np.sum([run.values[part] for part in parts], axis=0).round(12))
        for name, parts in reading.sums.items()
    }


def _trajectory(
    log: Log,
    run: Evaluations,
    reading: Reading,
    request: Request,
    parts: Iterable[str],
    checkpoints: Checkpoints,
) -> Trajectory:
    values, in_units = _values(log, run, reading)
    steps, unsaved = steps_to_choose_from(
        run.steps, checkpoints, include_unsaved=request.include_unsaved
    )
    rows = np.isin(run.steps, steps)
    diverged = ~np.all([np.isfinite(table).all(axis=1) for table in values.values()], axis=0)
    counts = _told_counts(request.n, reading, values, diverged, str(log.path))
    counts = counts or _logged_counts(run, reading) or _timed_counts(log, reading, values, diverged)
    ahead = max(checkpoints.ahead, -min(run.steps))
    beside = f"validation columns that are not read: {shortened(reading.beside)}"
    not_read = [beside] if reading.beside else []
    return Trajectory(
        steps=[step + ahead for step in steps],
        domains=reading.domains,
        values={metric: table[rows] for metric, table in values.items()},
        diverged=diverged[rows],
        counts=counts,
        correct=_correct(values, counts, diverged[rows], rows),
        paths=[checkpoints.files.get(step) for step in steps] if checkpoints.files else None,
        columns=_columns(reading, values),
        logged=[step + ahead for step in run.steps],
        names_ahead=0 if checkpoints.files else _ahead(log, run),
        own_best=_own_best(log, run, reading, ahead),
        call=log.call,
        notes=(
            _mapping(log, reading, values),
            *([BREAKS_IT] if reading.assumed and "nll" in values else []),
            *parts, *log.notes, *reading.notes, *run.notes,
            *_counted(run, ahead), *in_units,
            *checkpoints.notes, *unsaved, *not_read,
        ),
    )  # fmt: skip


def _own_best(log: Log, run: Evaluations, reading: Reading, ahead: int) -> tuple[str, int] | None:
    """What the trainer itself calls its best, and its step."""
    if log.best is not None:
        return log.best.name, log.best.step + ahead
    by_name = {name: run.values[_first(per_set)] for name, per_set in reading.columns.items()
               if name in ("mAP50", "mAP50-95")}  # fmt: skip
    masks = any("95(" in name and "(B)" not in name for name in log.header)
    if log.trainer.name != ULTRALYTICS.name or len(by_name) < 2 or masks:
        return None
    # It keeps the last of equals, by the one score now and by a tenth of the other before.
    one, both = by_name["mAP50-95"], 0.1 * by_name["mAP50"] + 0.9 * by_name["mAP50-95"]
    if not np.isfinite(both).all():
        return None
    last, before = (int(np.flatnonzero(v == v.max())[-1]) for v in (one, both))
    return ("best.pt", run.steps[last] + ahead) if last == before else None


def _ahead(log: Log, run: Evaluations) -> int:
    """How much more the trainer's own names of checkpoints count than this log."""
    if run.by == "epoch":
        return log.trainer.ahead if log.trainer in (KERAS, HISTORY) and run.steps[0] == 0 else 0
    return log.trainer.ahead if log.trainer is LIGHTNING and log.axes.get("step") == "step" else 0


def _counted(run: Evaluations, ahead: int) -> list[str]:
    """What steps count, where the log leaves it open."""
    epochs = "steps are epochs" if run.by == "epoch" else "steps are counted"
    if ahead:
        more = "more" if ahead > 0 else "less"
        return [f"{epochs} as in the names of checkpoints, {abs(ahead)} {more} than in the log"]
    return [f"{epochs}, from {run.steps[0]} as in the log"] * (run.by == "epoch")


def _values(
    log: Log, run: Evaluations, reading: Reading
) -> tuple[dict[str, FloatArray], tuple[str, ...]]:
    """Metric → [T, E] in the units of a trajectory, and what to say about them."""
    values: dict[str, FloatArray] = {}
    notes: list[str] = []
    for metric, per_set in reading.columns.items():
        columns = [run.values[per_set[domain]] for domain in reading.domains]
        table = units.shortest(np.column_stack(columns))
        if metric == "accuracy":
            names = [per_set[domain] for domain in reading.domains]
            table, said = units.fractions(table, names, log.trainer, str(log.path))
            inverted = [name in reading.inverted for name in names]
            table = np.where(inverted, units.complements(table), table)
            notes += said
        values[metric] = table
    reason = units.no_cross_entropy(values)
    if reason:
        column = _first(reading.columns["nll"])
        notes.append(f"{column} {reason}, so it is no plain cross-entropy")
        if reading.assumed:
            del values["nll"]
            notes[-1] += ": not read"
    if not values:
        option = how_to_map(["accuracy"], reading.beside)
        raise InputError(
            f"Expected a validation accuracy or loss, but {_first(reading.columns['nll'])} in "
            f"{log.path} is no cross-entropy: "
            f"{f'name another column with {option}' if option else LOG_THEM}.",
            code="unsupported",
        )
    return values, tuple(notes)


def _told_counts(
    n: int | Mapping[str, int] | None,
    reading: Reading,
    values: Mapping[str, FloatArray],
    diverged: NDArray[np.bool_],
    where: str,
) -> list[int] | None:
    """The numbers of examples that the caller gives, if the accuracies can be of so many."""
    if n is None:
        return None
    domains = reading.domains
    per_set = n if isinstance(n, Mapping) else {domains[0]: n}
    if set(per_set) != set(domains):
        raise InputError(
            f"Expected the number of examples of {listed(list(domains))}, but got "
            f"{listed([str(name) for name in per_set])}: give --n NAME=NUMBER,… for every set.",
            code="missing",
        )
    for e, domain in enumerate(domains):
        for accuracy in values["accuracy"][~diverged, e] if "accuracy" in values else ():
            if not possible(float(accuracy), per_set[domain]):
                raise InputError(
                    f"Expected accuracies of {per_set[domain]} examples, as --n says, but "
                    f"{reading.columns['accuracy'][domain]} in {where} has {accuracy:.10g}, and "
                    f"{per_set[domain]} × {accuracy:.10g} is no whole number: check --n.",
                    code="differs",
                )
    return [per_set[domain] for domain in domains]


def _logged_counts(run: Evaluations, reading: Reading) -> list[int] | None:
    """The number of examples of every set, where the log has it and it never changes."""
    if set(reading.counts) != set(reading.domains):
        return None
    logged = [np.unique(run.values[reading.counts[domain]]) for domain in reading.domains]
    if not all(len(values) == 1 and values[0] >= 1 and values[0] % 1 == 0 for values in logged):
        return None
    return [int(values[0]) for values in logged]


def _timed_counts(
    log: Log, reading: Reading, values: Mapping[str, FloatArray], diverged: NDArray[np.bool_]
) -> list[int] | None:
    """Seconds × examples a second, where one whole number fits all of them and the accuracies.

    transformers rounds the one to 4 decimals and the other to 3.
    """
    if set(reading.speeds) != set(reading.domains) or "accuracy" not in values:
        return None
    counts = []
    for e, domain in enumerate(reading.domains):
        try:
            points = log.columns(reading.speeds[domain]).values()
            seconds, speed = (np.array([float(cell) for cell in one.cells]) for one in points)
        except (TypeError, ValueError, OverflowError):  # a cell that is no number
            return None
        if not len(seconds) or seconds.shape != speed.shape:
            return None
        off_seconds, off_speed = 5e-5 + 1e-7 * seconds, 5e-4 + 1e-7 * speed  # of 32 bits
        low = ((seconds - off_seconds) * (speed - off_speed)).max()
        high = ((seconds + off_seconds) * (speed + off_speed)).min()
        if not (0 < low <= high < LARGEST_STEP) or high - low > MOST_TRIED:
            return None
        accuracies = values["accuracy"][~diverged, e].tolist()
        fitting = [
            n
            for n in range(max(1, ceil(low)), floor(high) + 1)
            if all(possible(accuracy, n) for accuracy in accuracies)
        ]
        if len(fitting) != 1:
            return None
        counts += fitting
    return counts


def _correct(
    values: Mapping[str, FloatArray],
    counts: Sequence[int] | None,
    diverged: NDArray[np.bool_],
    rows: NDArray[np.bool_],
) -> NDArray[np.int64] | None:
    """How many predictions were right, where rounded accuracies leave no doubt about it."""
    if counts is None or "accuracy" not in values:
        return None
    accuracy = np.where(diverged[:, None], 0.0, values["accuracy"][rows])
    clear = all(
        possible(value, n) and rounding(value) * n < 0.5
        for row in accuracy.tolist()
        for value, n in zip(row, counts, strict=True)
    )
    return np.rint(accuracy * np.array(counts)).astype(np.int64) if clear else None


def _mapping(log: Log, reading: Reading, read: Container[str]) -> str:
    """``Keras: accuracy ← val_acc, NLL ← val_loss (cross-entropy, assumed …)``."""
    parts = []
    for metric in (metric for metric in reading.columns if metric in read):
        per_set = reading.columns[metric]
        inverted = reading.inverted if metric == "accuracy" else ()
        names = [f"1 − {one}" if one in inverted else one for one in per_set.values()]
        column = ", ".join(names[:SETS_SHOWN])
        if len(names) > SETS_SHOWN:
            column += f" and {counted(len(names) - SETS_SHOWN, 'more set')}"
        if metric in reading.told:
            column += " (by --column)"
        if metric == "nll" and reading.assumed:
            column += f" ({ASSUMED})"
        parts.append(f"{TITLES.get(metric, metric)} ← {column}")
    named = log.path.name if log.trainer in (OTHER, HISTORY) else log.trainer.name
    return f"{named}: {', '.join(parts)}"


def _columns(reading: Reading, values: Mapping[str, Any]) -> dict[str, str]:
    if reading.domains == (ONLY_DOMAIN,):
        return {metric: _first(reading.columns[metric]) for metric in values}
    return {
        f"{metric}[{domain}]": column
        for metric in values
        for domain, column in reading.columns[metric].items()
    }


def _first(per_set: Mapping[str, str]) -> str:
    return next(iter(per_set.values()))
