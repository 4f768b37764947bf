"""Which domains ``env{i}`` of a DomainBed-style log are sources; values of others stay unread."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.errors import InputError
from checkwise.readers import paper_log
from checkwise.readers.json_lines import JsonLines, Line, number, whole
from checkwise.readers.request import LoadedRun, Request, build, first_bytes
from checkwise.records import RunKey, Trajectory, check_held_out

ENV = re.compile(r"env(0|[1-9][0-9]{0,3})")


def indices(test_envs: Any) -> tuple[int, ...] | None:
    """``test_envs`` as logged, or None where it is not a list of whole numbers."""
    if not isinstance(test_envs, list):
        return None
    if any(type(index) is not int or index < 0 for index in test_envs):
        return None
    return tuple(sorted(set(test_envs)))


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


def logged(lines: Sequence[Line]) -> set[int]:
    """The domains that a log has fields for, by the names of the fields."""
    names = set().union(*(line.fields for line in lines))
    return {int(match[1]) for name in names if (match := ENV.match(name))}


def targets_from(
    request: Request, line: Line, path: Path, known: Collection[int]
) -> tuple[int, ...]:
    """The held-out domains that the caller names, for a log that does not name them."""
    named = [match for name in request.held_out if (match := ENV.fullmatch(name))]
    if not named:
        raise InputError(
            f"Expected args.test_envs to say which domain is the target, but {path} line "
            f"{line.number} has none: name it with --held-out env0, in Python held_out='env0'.",
            code="missing",
        )
    check_held_out([match[0] for match in named], [f"env{i}" for i in sorted(known)], str(path))
    return tuple(sorted({int(match[1]) for match in named}))


def check_targets(targets: Collection[int], known: Collection[int], line: Line, path: Path) -> None:
    """Refuse targets that are not a domain of the log.

    A target without fields is not a mistake by itself: they may have been removed. But domains are
    numbered from 0 without gaps, so a number beyond them all names nothing.
    """
    size = len({*known, *targets})
    for target in targets:
        if target not in known and target >= size:
            raise InputError(
                f"Expected args.test_envs to name a domain of the log, which has "
                f"{', '.join(f'env{i}' for i in sorted(known))}, but got {target} in {path} line "
                f"{line.number}: correct args.test_envs.",
                code="format",
            )


def run_key(args: Mapping[str, Any], targets: Iterable[int], *, seed: str, path: Path) -> RunKey:
    """The key of a run from its arguments; ``seed`` is the argument to use without hparams_seed.

    Targets keep the name ``env{i}``: their own records, which may hold a name, are not read.
    """

    def seed_of(name: str) -> int:
        value = args.get(name)
        if value is None:
            return 0
        if type(value) is not int:
            raise InputError(
                f"Expected a whole number as args.{name}, but got {value!r:.40} in {path}.",
                code="format",
            )
        return value

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
    names = set().union(*(line.fields for line in lines))
    known = {
        int(match[1])
        for name in names
        if name.endswith(suffix) and (match := ENV.fullmatch(name.removesuffix(suffix)))
    }
    return {
        index: [number(line, f"env{index}{suffix}", path) for line in lines]
        for index in sorted(known - set(targets))
    }


def left_out(
    request: Request,
    sources: Mapping[int, str],
    targets: Iterable[int],
    target_names: Iterable[str],
    path: Path,
) -> set[int]:
    """Source domains that the caller holds out as well; an unknown name is refused."""
    aliases = {i: (name, f"env{i}") for i, name in sources.items()}
    others = sorted({f"env{index}" for index in targets} | set(target_names))
    known = dict.fromkeys([*sources.values(), *others, *(alias for _, alias in aliases.values())])
    check_held_out(request.held_out, known, str(path))
    out = {i for i, names in aliases.items() if set(names) & set(request.held_out)}
    if sources and out == set(sources):
        raise InputError(
            f"No source domain of {path} is left after --held-out: hold out fewer.", code="empty"
        )
    return out


# Arguments that change what is measured; a re-run may differ in the others (device, folders).
SETTINGS = ("seed", "holdout_fraction", "uda_holdout_fraction", "task")


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
    settings: dict[str, Any] = {}
    if isinstance(args, dict):
        settings.update({name: args.get(name) for name in SETTINGS})
    if isinstance(hparams, dict):
        settings.update({f"hparams.{name}": value for name, value in hparams.items()})
    return settings


CONSOLE_START = 1 << 16  # bytes
LOG = "results.jsonl"
SUFFIX = "_out_acc"


def is_domainbed_log(line: Line) -> bool:
    """Whether a log's first record is one of DomainBed's."""
    return paper_log.FIELD in line.fields or any(
        name.endswith(SUFFIX) and ENV.fullmatch(name.removesuffix(SUFFIX)) for name in line.fields
    )


def is_console(path: Path) -> bool:
    """Whether a file begins like DomainBed's output on the console."""
    start = first_bytes(path, CONSOLE_START)
    return b"test_envs" in start and b"holdout_fraction" in start


def read(log: JsonLines, path: Path, request: Request) -> list[LoadedRun]:
    """The runs of one log: one, unless its folder was used for several configurations."""
    lines = list(log)
    notes = (*log.notes, *_unfinished(path))
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
            targets = indices(args.get("test_envs"))
            if targets is None:
                targets = targets_from(request, line, path, known)
            check_targets(targets, known, line, path)
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
    out = left_out(request, names, targets, strangers, path)
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
