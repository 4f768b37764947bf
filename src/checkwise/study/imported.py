"""Runs of other people's logs and tables, with what those say about held-out domains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkwise.errors import CheckwiseWarning, InputError
from checkwise.metrics import METRICS
from checkwise.readers import LoadedRun, Request, find_runs, input_files
from checkwise.records import RunKey, Trajectory, same_name
from checkwise.store import (
    HELDOUT_FOLDER,
    ORIGIN,
    RUNS_FOLDER,
    SOURCE_FILE,
    Fingerprint,
    check_new,
    encode_line,
    fingerprint,
    heldout_file,
    new_folder,
    write_bytes,
)
from checkwise.study.folder import (
    ROLES,
    Origin,
    is_cohort,
    mark_done,
    open_cohort,
    origin_of,
    write_cohort,
    write_run,
)
from checkwise.study.target_rows import BeyondSource, ByStep, TargetRow, beyond_source

EMPTY: Final = TargetRow({})


@dataclass(frozen=True)
class ForeignRun:
    """One run of other people's files: source validation, and held-out rows by domain and step."""

    key: RunKey
    trajectory: Trajectory
    targets: Mapping[str, ByStep]
    file: Path
    hparams: Mapping[str, Any] | None

    @property
    def gaps(self) -> int:
        """Checkpoints that lack the accuracy on a held-out domain."""
        return sum(
            any("accuracy" not in rows.get(step, EMPTY).values for rows in self.targets.values())
            for step in self.trajectory.steps.tolist()
        )


def read_runs(path: Path, request: Request) -> list[ForeignRun]:
    loaded = find_runs(path, request)
    for run in loaded.values():
        if run.file is None:
            raise InputError(
                f"Expected logs or a table to import, but {run.where} is a folder of predictions "
                "or a run of checkwise: write metrics of all domains into a table with a column "
                "`role`, or give the study itself.",
                code="unsupported",
            )
        if "accuracy" not in run.trajectory.metrics:
            raise InputError(
                f"Expected runs with accuracy to import, but {run.where} carries only "
                f"{', '.join(run.trajectory.metrics)}: comparisons are about accuracy; add it, or "
                "choose a checkpoint with `checkwise select`.",
                code="missing",
            )
    files = dict.fromkeys(run.file for run in loaded.values() if run.file is not None)
    beyond = {file: beyond_source(file, request) for file in files}
    runs: list[ForeignRun] = []
    without: list[LoadedRun] = []
    for key, run in loaded.items():
        assert run.file is not None
        rest = beyond[run.file].pop(run.key, BeyondSource())
        held_out = key.held_out or tuple(sorted(rest.targets))
        if not held_out:
            without.append(run)
            continue
        _check_names(held_out, run)
        runs.append(
            ForeignRun(
                key=replace(key, held_out=held_out),
                trajectory=run.trajectory,
                targets={domain: rest.targets.get(domain, {}) for domain in held_out},
                file=run.file,
                hparams=rest.hparams,
            )
        )
    _check_all_taken(beyond)
    if runs and without:
        warnings.warn(
            f"{len(without)} of {len(loaded)} runs in {path} are left out: they hold out no domain "
            f"(first: {without[0].where}).",
            CheckwiseWarning,
            stacklevel=2,
        )
    return runs


def _check_all_taken(beyond: Mapping[Path, Mapping[RunKey | None, BeyondSource]]) -> None:
    """Refuse rows of a target that belong to no run: their run would look unmeasured."""
    for file, rest in beyond.items():
        for key in rest:
            named = "rows without a run" if key is None else f"those of {key}"
            raise InputError(
                f"Expected rows of a target to belong to a run with source rows, but in {file} "
                f"{named} do not: write the columns that tell runs apart, and `held_out`, in the "
                "rows of the target as in those of the sources.",
                code="missing",
            )


def _check_names(held_out: Sequence[str], run: LoadedRun) -> None:
    for domain in held_out:
        if any(same_name(domain, source) for source in run.trajectory.domains):
            raise InputError(
                f"Expected held-out domains with names of their own, but {domain!r} is also a "
                f"source domain of {run.where}: rename it in the rows of the target.",
                code="ambiguous",
            )


OUTSIDE_THE_SEAL: Final = (
    "The held-out values were imported from files that anyone could read before: the log of "
    "registrations cannot show that nobody looked there first."
)

Progress = Callable[[int, int], None]


def import_cohort(
    path: Path,
    out: Path,
    request: Request,
    *,
    role: str = "evaluation",
    name: str | None = None,
    progress: Progress | None = None,
) -> tuple[ForeignRun, ...]:
    if role not in ROLES:
        raise InputError(f"Expected --role development or evaluation, but got {role!r}.")
    if is_cohort(out):
        raise InputError(
            f"Expected a new folder, but {out} is a study already: `checkwise study compare "
            f"{out}` uses what was imported before; to import again, choose another folder.",
            code="exists",
        )
    check_new(out)
    if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
        raise InputError(
            f"Expected a folder outside {path}, whose runs are read, but {out} is inside it: "
            "choose another.",
            code="outside",
        )
    files = _fingerprints(path)
    runs = read_runs(path, request)
    if _fingerprints(path) != files:
        raise InputError(
            f"Expected files that stay as they are, but {path} changed while it was read: run the "
            "same command again when nothing writes there.",
            code="busy",
        )
    measured = _measured(path, runs)
    with new_folder(out) as place:
        write_cohort(
            place,
            name=name or (path.resolve().name if path.is_dir() else path.stem),
            roles=dict.fromkeys(sorted({run.key.dataset for run in runs}), role),
            study={ORIGIN: _origin(path, files, request).as_dict()},
            metrics={"target": list(measured)},
            keys=[run.key for run in runs],
        )
        for done, run in enumerate(runs, start=1):
            _write_run(place, path, run, measured, files)
            if progress:
                progress(done, len(runs))
    return tuple(runs)


def check_unchanged(cohort: Path, path: Path, request: Request) -> None:
    """Refuse a cohort that was imported from something else than what ``path`` is now."""
    before = origin_of(open_cohort(cohort))
    now = _origin(path, _fingerprints(path), request)
    told = {"held_out": "--held-out", "sources": "--source", "columns": "--column"}
    other = [
        option
        for fact, option in told.items()
        if getattr(now, fact) and getattr(now, fact) != getattr(before, fact, None)
    ]
    if before is not None and now.files == before.files and not other:
        return
    what = f"{other[0]} was another then" if other else f"the files of {path} changed since"
    raise InputError(
        f"Expected what {cohort} was imported from, but {what}: `checkwise study import {path} "
        f"-o DIR` imports it again (`checkwise study compare {cohort}` shows what was imported).",
        code="differs",
    )


def importable(path: Path) -> bool:
    """Whether a path that is no cohort holds logs or a table."""
    return not is_cohort(path) and bool(input_files(path))


def _measured(path: Path, runs: Sequence[ForeignRun]) -> tuple[str, ...]:
    names = {
        name
        for run in runs
        for rows in run.targets.values()
        for row in rows.values()
        for name in row.values
    }
    if "accuracy" not in names:
        raise InputError(
            f"Expected results on held-out domains beside source validation, but {path} has none: "
            "give a DomainBed or SWAD log with the fields of its test_envs, or a table with rows "
            "of the target (a column `role` or `held_out`, or `checkwise study import` with "
            "--held-out).",
            code="missing",
        )
    return tuple(name for name in METRICS if name in names)


def _fingerprints(path: Path) -> dict[str, Fingerprint]:
    """Size and SHA-256 of every file that is read, by its name below ``path``."""
    return {
        _below(path, file): fingerprint(file.resolve().parent, file.resolve().name)
        for file in input_files(path)
    }


def _origin(path: Path, files: Mapping[str, Fingerprint], request: Request) -> Origin:
    return Origin(
        path.resolve().name, dict(files), request.held_out, request.sources, dict(request.columns)
    )


def _below(path: Path, file: Path) -> str:
    return file.relative_to(path if path.is_dir() else path.parent).as_posix()


def _write_run(
    cohort: Path,
    path: Path,
    run: ForeignRun,
    measured: Sequence[str],
    files: Mapping[str, Fingerprint],
) -> None:
    folder = cohort / RUNS_FOLDER / str(run.key)
    (folder / HELDOUT_FOLDER).mkdir(parents=True)
    steps = run.trajectory.steps.tolist()
    file, identity = _below(path, run.file), run.trajectory.identity
    measured_by = {name: METRICS[name] for name in run.trajectory.metrics}
    own = {name: one.direction for name, one in measured_by.items() if one.function is not None}
    config: dict[str, Any] = {
        ORIGIN: {
            "file": file,
            "sha256": files[file]["sha256"],
            **({} if identity == str(run.key) else {"identity": identity}),
            "notes": list(run.trajectory.notes),
        },
        "record_steps": steps,
        **({} if run.hparams is None else {"hparams": dict(run.hparams)}),
        **({"metrics": own} if own else {}),
    }
    write_run(folder, run.key, config)
    write_bytes(folder / SOURCE_FILE, b"".join(map(encode_line, _source_lines(run.trajectory))))
    for domain, rows in run.targets.items():
        lines = _target_lines(steps, rows, measured)
        write_bytes(folder / heldout_file(domain), b"".join(map(encode_line, lines)))
    mark_done(folder, steps[-1])


def _source_lines(run: Trajectory) -> list[dict[str, Any]]:
    """The lines of ``source.jsonl``; counts that nobody knows are null."""
    lines = []
    for t, step in enumerate(run.steps.tolist()):
        lost = bool(run.diverged[t])

        def told(value: Any, lost: bool = lost) -> Any:
            return None if lost else value.item()

        domains = {
            domain: {
                "n": None if run.counts is None else int(run.counts[e]),
                "correct": None if run.correct is None else told(run.correct[t, e]),
                **{name: told(values[t, e]) for name, values in run.values.items()},
            }
            for e, domain in enumerate(run.domains)
        }
        means = {name: told(values[t]) for name, values in run.pooled.items()}
        pooled = {"pooled": means} if means else {}
        lines.append({"step": step, "diverged": lost, "domains": domains, **pooled})
    return lines


def _target_lines(
    steps: Sequence[int], rows: ByStep, measured: Sequence[str]
) -> list[dict[str, Any]]:
    """The lines of a held-out journal, one for every step of the source; gaps are null."""
    by_step = [rows.get(step, EMPTY) for step in steps]
    counts = {
        name: all(getattr(row, name) is not None for row in by_step) for name in ("n", "correct")
    }
    return [
        {
            "step": step,
            "diverged": False,
            "split": row.split,
            **{name: getattr(row, name) if known else None for name, known in counts.items()},
            **{name: row.values.get(name) for name in measured},
        }
        for step, row in zip(steps, by_step, strict=True)
    ]
