"""DomainBed's ``results.jsonl``, plain or with the paper's calibration records.

DomainBed logs accuracies only. Its ``loss``, ``nll`` and ``penalty`` are means over training
minibatches: they say nothing about validation and are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import environments, paper_log, restarts
from checkwise.readers.json_lines import Line
from checkwise.readers.request import LoadedRun, Request, build
from checkwise.records import RunKey, Trajectory
from checkwise.store.safe_read import open_regular

CONSOLE_START = 1 << 16  # bytes
LOG = "results.jsonl"
SUFFIX = "_out_acc"


def recognises(line: Line) -> bool:
    """Whether a log's first record is one of DomainBed's."""
    return paper_log.FIELD in line.fields or any(
        name.endswith(SUFFIX) and environments.ENV.fullmatch(name.removesuffix(SUFFIX))
        for name in line.fields
    )


def is_console(path: Path) -> bool:
    """Whether a file begins like DomainBed's output on the console."""
    with open_regular(path) as file:
        start = file.read(CONSOLE_START)
    return b"test_envs" in start and b"holdout_fraction" in start


def read(
    lines: Sequence[Line], notes: Iterable[str], path: Path, request: Request
) -> list[LoadedRun]:
    """The runs of one log: one, unless its folder was used for several configurations."""
    runs = lines_by_run(lines, path, request)
    notes = (*notes, *_unfinished(path))
    loaded = []
    for key, records in runs.items():
        # Weights in the folder are those of the run that wrote there last.
        weights = path.parent if records[-1] is lines[-1] else None
        trajectory = _trajectory(key, records, notes, path, weights, request)
        loaded.append(LoadedRun(key, trajectory, f"{path} line {records[0].number}", path))
    return loaded


def lines_by_run(lines: Sequence[Line], path: Path, request: Request) -> dict[RunKey, list[Line]]:
    """The records of every run of a log, by their arguments."""
    runs: dict[RunKey, list[Line]] = {}
    known = environments.logged(lines) | paper_log.logged(lines)
    args, key = None, None
    for line in lines:
        if key is None or environments.arguments(line, path) != args:
            args = environments.arguments(line, path)
            targets = environments.indices(args.get("test_envs"))
            if targets is None:
                targets = environments.targets_from(request, line, path, known)
            environments.check_targets(targets, known, line, path)
            key = environments.run_key(args, targets, seed="hparams_seed", path=path)
        runs.setdefault(key, []).append(line)
    return runs


def _trajectory(
    key: RunKey,
    lines: Sequence[Line],
    notes: Iterable[str],
    path: Path,
    weights: Path | None,
    request: Request,
) -> Trajectory:
    lines, repeats = restarts.latest(lines, path)
    targets = {int(name.removeprefix("env")) for name in key.held_out}
    accuracy = environments.accuracies(lines, SUFFIX, targets, path)
    extended = paper_log.read(lines, targets, request.metrics, path)
    values = {"accuracy": accuracy}
    names = {index: f"env{index}" for index in accuracy}
    counts, remarks = None, [*notes, *repeats]
    if extended is None:
        remarks.append("this log has accuracies only")
    else:
        remarks += extended.notes
        if accuracy and set(extended.names) != set(accuracy):
            remarks.append(
                f"calibration was logged for {', '.join(extended.names.values())} only and is not "
                "read"
            )
        else:
            values |= extended.values
            names, counts = extended.names, extended.counts
    strangers = paper_log.target_names(lines, targets)
    out = environments.left_out(request, names, targets, strangers, path)
    request.expects_log(path, [name for index, name in names.items() if index not in out])
    return assemble(
        lines,
        {metric: _without(columns, out) for metric, columns in values.items()},
        path,
        domains=[name for index, name in names.items() if index not in out],
        counts=None if counts is None else list(_without(counts, out).values()),
        paths=None if weights is None else _weights(weights, [_step(line) for line in lines]),
        key=key,
        notes=remarks,
    )


def assemble(
    lines: Sequence[Line],
    values: Mapping[str, Mapping[int, Sequence[float]]],
    path: Path,
    *,
    domains: Sequence[str],
    notes: Sequence[str],
    pooled: Mapping[str, Sequence[float]] | None = None,
    **facts: Any,
) -> Trajectory:
    """The trajectory of these records; a step with a value that is not finite has diverged."""
    if not domains or not values["accuracy"]:
        raise InputError(
            f"Expected the validation accuracy of at least one source domain, but {path} line "
            f"{lines[0].number} has none: check args.test_envs.",
            code="empty",
        )
    arrays = {
        metric: np.array([columns[index] for index in sorted(columns)]).T
        for metric, columns in values.items()
    }
    means = {metric: np.array(column) for metric, column in (pooled or {}).items()}
    finite = {metric: np.isfinite(array) for metric, array in {**arrays, **means}.items()}
    lost = ~np.logical_and.reduce(
        [ok.all(axis=1) if ok.ndim == 2 else ok for ok in finite.values()]
    )
    reasons = [
        f"step {_step(lines[t])} diverged: "
        f"{', '.join(metric for metric, ok in finite.items() if not ok[t].all())} not finite"
        for t in np.flatnonzero(lost).tolist()
    ]
    return build(
        Trajectory,
        str(path),
        steps=[_step(line) for line in lines],
        domains=domains,
        values=arrays,
        pooled=means,
        diverged=lost,
        notes=(*notes, *reasons),
        **facts,
    )


def _step(line: Line) -> int:
    return int(line.fields["step"])


def _without(columns: Mapping[int, Any], out: Iterable[int]) -> dict[int, Any]:
    return {index: columns[index] for index in sorted(columns) if index not in set(out)}


def _unfinished(path: Path) -> tuple[str, ...]:
    if path.name != LOG or (path.parent / "done").exists():
        return ()
    return ("there is no `done` file: the run may not have finished",)


def _weights(folder: Path, steps: Sequence[int]) -> list[str | None] | None:
    """Where the weights are, by name only; DomainBed's are pickles and are never opened."""
    files = [folder / f"model_step{step}.pkl" for step in steps]
    paths = [str(file) if file.is_file() else None for file in files]
    if paths[-1] is None and (folder / "model.pkl").is_file():
        paths[-1] = str(folder / "model.pkl")
    return paths if any(paths) else None
