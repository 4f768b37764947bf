"""DomainBed's logs: which domains ``env{i}`` are sources; values of others stay unread."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import paper_log
from checkwise.readers.json_lines import JsonLines, Line, number, whole
from checkwise.readers.request import RESULTS_FILE, LoadedRun, Request, build, first_bytes
from checkwise.records import RunKey, Trajectory, check_held_out

CONSOLE_START = 1 << 16  # bytes
ENV = re.compile(r"env(0|[1-9][0-9]{0,3})")
SUFFIX = "_out_acc"
# Arguments that change what is measured; a re-run may differ in the others (device, folders).
SETTINGS = ("seed", "holdout_fraction", "uda_holdout_fraction", "task")


def is_domainbed_log(line: Line) -> bool:
    """Whether a log's first record is one of DomainBed's."""
    return paper_log.FIELD in line.fields or bool(domains_with([line], SUFFIX))


def is_console(path: Path) -> bool:
    """Whether a file begins like DomainBed's output on the console."""
    start = first_bytes(path, CONSOLE_START)
    return b"test_envs" in start and b"holdout_fraction" in start


def read(log: JsonLines, path: Path, request: Request) -> list[LoadedRun]:
    """The runs of one log: one, unless its folder was used for several configurations."""
    lines = list(log)
    is_unfinished = path.name == RESULTS_FILE and not (path.parent / "done").exists()
    unfinished = "there is no `done` file: the run may not have finished"
    notes = (*log.notes, *[unfinished] * is_unfinished)
    loaded = []
    for key, records in domainbed_lines(lines, path, request).items():
        # Weights in the folder are those of the run that wrote there last.
        weights = path.parent if records[-1] is lines[-1] else None
        trajectory = _trajectory(key, records, notes, path, weights, request)
        loaded.append(LoadedRun(key, trajectory, f"{path} line {records[0].number}", path))
    return loaded


def domainbed_lines(
    lines: Sequence[Line], path: Path, request: Request
) -> dict[RunKey, list[Line]]:
    """The records of every run of a log, by their arguments."""
    runs: dict[RunKey, list[Line]] = {}
    known = logged(lines) | paper_log.logged(lines)
    args, key = None, None
    for line in lines:
        if key is None or arguments(line, path) != args:
            args = arguments(line, path)
            targets = targets_of(indices(args.get("test_envs")), request, line, path, known)
            key = run_key(args, targets, seed="hparams_seed", path=path)
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
    lines, repeats = latest(lines, path)
    targets = {int(name.removeprefix("env")) for name in key.held_out}
    accuracy = accuracies(lines, SUFFIX, targets, path)
    extended = paper_log.read(lines, targets, request.metrics, path)
    values = {"accuracy": accuracy}
    names = {index: f"env{index}" for index in accuracy}
    counts: Mapping[int, int] | None = None
    remarks = [*notes, *repeats]
    if extended is None:
        remarks.append("this log has accuracies only")
    elif accuracy and set(extended.names) != set(accuracy):
        logged_for = ", ".join(extended.names.values())
        remarks += [
            *extended.notes,
            f"calibration was logged for {logged_for} only and is not read",
        ]
    else:
        remarks += extended.notes
        values |= extended.values
        names, counts = extended.names, extended.counts
    strangers = paper_log.target_names(lines, targets)
    kept = sources_left(request, names, targets, strangers, path)
    return assemble(
        lines,
        {m: {i: columns[i] for i in sorted(columns) if i in kept} for m, columns in values.items()},
        path,
        domains=list(kept.values()),
        counts=None if counts is None else [counts[index] for index in sorted(kept)],
        paths=None if weights is None else _weights(weights, [_step(line) for line in lines]),
        key=key,
        notes=remarks,
    )


def domains_with(lines: Sequence[Line], suffix: str) -> set[int]:
    """The domains that have a field like ``env0_out_acc``."""
    names = set().union(*(line.fields for line in lines))
    matches = (ENV.fullmatch(n.removesuffix(suffix)) for n in names if n.endswith(suffix))
    return {int(match[1]) for match in matches if match}


def logged(lines: Sequence[Line]) -> set[int]:
    """The domains that a log has fields for, by the names of the fields."""
    names = set().union(*(line.fields for line in lines))
    return {int(match[1]) for name in names if (match := ENV.match(name))}


def arguments(line: Line, path: Path) -> dict[str, Any]:
    """The ``args`` of a record."""
    args = line.fields.get("args", {})
    if not isinstance(args, dict):
        raise InputError(
            f"Expected args as an object, but got {args!r:.40} in {path} line {line.number}: "
            "give the log as it was written.",
            code="format",
        )
    return args


def indices(test_envs: Any) -> list[int] | None:
    """``test_envs`` as logged, or None where it is not a list of whole numbers."""
    is_list = isinstance(test_envs, list)
    if not is_list or any(type(index) is not int or index < 0 for index in test_envs):
        return None
    return list(test_envs)


def targets_of(
    test_envs: list[int] | None, request: Request, line: Line, path: Path, known: Collection[int]
) -> tuple[int, ...]:
    """The held-out domains as logged, or else as the caller names them.

    A target without fields is not a mistake by itself: they may have been removed. But domains are
    numbered from 0 without gaps, so a number beyond them all names nothing.
    """
    if test_envs is None:
        named = [match for name in request.held_out if (match := ENV.fullmatch(name))]
        if not named:
            raise InputError(
                f"Expected args.test_envs to say which domain is the target, but {path} line "
                f"{line.number} has none: name it with --held-out env0, in Python held_out='env0'.",
                code="missing",
            )
        known_names = [f"env{i}" for i in sorted(known)]
        check_held_out([match[0] for match in named], known_names, str(path))
        test_envs = [int(match[1]) for match in named]
    targets = tuple(sorted(set(test_envs)))
    size = len({*known, *targets})
    for target in targets:
        if target not in known and target >= size:
            raise InputError(
                f"Expected args.test_envs to name a domain of the log, which has "
                f"{', '.join(f'env{i}' for i in sorted(known))}, but got {target} in {path} line "
                f"{line.number}: correct args.test_envs.",
                code="format",
            )
    return targets


def run_key(args: Mapping[str, Any], targets: Iterable[int], *, seed: str, path: Path) -> RunKey:
    """The key of a run from its arguments; ``seed`` is the argument to use without hparams_seed.

    Targets keep the name ``env{i}``: their own records, which may hold a name, are not read.
    """

    def seed_of(name: str) -> int:
        value = args.get(name)
        if value is not None and type(value) is not int:
            raise InputError(
                f"Expected a whole number as args.{name}, but got {value!r:.40} in {path}.",
                code="format",
            )
        return value or 0

    return RunKey(
        dataset=str(args.get("dataset") or "unknown"),
        algorithm=str(args.get("algorithm") or "unknown"),
        held_out=tuple(f"env{index}" for index in targets),
        hparams_seed=seed_of("hparams_seed" if "hparams_seed" in args else seed),
        trial_seed=seed_of("trial_seed"),
    )


def accuracies(
    lines: Sequence[Line], suffix: str, targets: Iterable[int], path: Path
) -> dict[int, list[float]]:
    """Accuracy per source domain and record, from fields like ``env0_out_acc``."""
    known = domains_with(lines, suffix)
    return {
        index: [number(line, f"env{index}{suffix}", path) for line in lines]
        for index in sorted(known - set(targets))
    }


def sources_left(
    request: Request,
    sources: Mapping[int, str],
    targets: Iterable[int],
    target_names: Iterable[str],
    path: Path,
) -> dict[int, str]:
    """Source domains that the caller does not hold out as well; an unknown name is refused."""
    others = sorted({f"env{index}" for index in targets} | set(target_names))
    known = dict.fromkeys([*sources.values(), *others, *(f"env{i}" for i in sources)])
    check_held_out(request.held_out, known, str(path))
    kept = {i: n for i, n in sources.items() if not {n, f"env{i}"} & set(request.held_out)}
    if sources and not kept:
        raise InputError(
            f"No source domain of {path} is left after --held-out: hold out fewer.", code="empty"
        )
    request.expects_log(path, kept.values())
    return kept


def latest(lines: Sequence[Line], path: Path) -> tuple[list[Line], tuple[str, ...]]:
    """One record per step in order of steps: the last one logged, as its weights are the ones
    still on disk."""
    by_step: dict[int, Line] = {}
    repeated: set[int] = set()
    for line in lines:
        step = whole(line, "step", path)
        if step in by_step:
            _check_same_settings(by_step[step], line, path)
            repeated.add(step)
        by_step[step] = line
    ordered = [by_step[step] for step in sorted(by_step)]
    if not repeated:
        return ordered, ()
    note = (
        f"{len(repeated)} of {len(ordered)} steps were logged more than once (a re-run); "
        "the last record of each is read"
    )
    last = whole(lines[-1], "step", path)
    if last < max(by_step):
        note += f"; steps after {last} come from an earlier attempt"
    return ordered, (note,)


def _check_same_settings(before: Line, after: Line, path: Path) -> None:
    old, new = _settings(before), _settings(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            raise InputError(
                f"Expected one configuration per run, but {path} line {before.number} has {name} = "
                f"{old.get(name)!r:.40} and line {after.number} has {new.get(name)!r:.40} at the "
                "same step: keep the lines of one of them.",
                code="ambiguous",
            )


def _settings(line: Line) -> dict[str, Any]:
    args, hparams = line.fields.get("args"), line.fields.get("hparams")
    settings = {name: args.get(name) for name in SETTINGS} if isinstance(args, dict) else {}
    if isinstance(hparams, dict):
        settings |= {f"hparams.{name}": value for name, value in hparams.items()}
    return settings


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
    finite = {
        metric: np.isfinite(array).reshape(len(lines), -1).all(axis=1)
        for metric, array in {**arrays, **means}.items()
    }
    lost = ~np.logical_and.reduce([*finite.values()])
    reasons = [
        f"step {_step(lines[t])} diverged: "
        f"{', '.join(metric for metric, ok in finite.items() if not ok[t])} not finite"
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


def _weights(folder: Path, steps: Sequence[int]) -> list[str | None] | None:
    """Where the weights are, by name only; DomainBed's are pickles and are never opened."""
    files = [folder / f"model_step{step}.pkl" for step in steps]
    paths = [str(file) if file.is_file() else None for file in files]
    if paths[-1] is None and (folder / "model.pkl").is_file():
        paths[-1] = str(folder / "model.pkl")
    return paths if any(paths) else None
