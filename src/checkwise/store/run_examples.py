"""Reads the logits of one checkpoint from a run's folder, if they are as they were written."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import Groups, Logits
from checkwise.records import Examples, Outcomes, Trajectory
from checkwise.store import layout
from checkwise.store.done import read_recorded
from checkwise.store.predictions_folder import open_npz


def read_logits(folder: Path, name: str, *, what: str, advice: Callable[[], str]) -> Logits:
    """``<domain>.logits`` and ``<domain>.labels`` of one of a run's files, by domain.

    ``advice`` says what to do where there is no such file.
    """
    arrays = read_arrays(folder, name, (".logits", ".labels"), what=what, advice=advice)
    domains = sorted(n.removesuffix(".logits") for n in arrays if n.endswith(".logits"))
    return {d: (arrays[f"{d}.logits"], arrays[f"{d}.labels"]) for d in domains}


def read_groups(folder: Path, name: str, *, what: str, advice: Callable[[], str]) -> Groups:
    """``<domain>.groups`` of the same file: the site or patient of every example, as numbers.

    Empty where the data set has no groups.
    """
    arrays = read_arrays(folder, name, (".groups",), what=what, advice=advice)
    return {n.removesuffix(".groups"): codes.astype(np.int64) for n, codes in arrays.items()}


def read_arrays(
    folder: Path, name: str, endings: tuple[str, ...], *, what: str, advice: Callable[[], str]
) -> dict[str, NDArray[Any]]:
    """The arrays of one of a run's files whose names end so."""
    path = folder / name
    try:
        with open_npz(io.BytesIO(read_recorded(folder, name))) as (headers, arrays):
            return {n: arrays[n] for n in headers if n.endswith(endings)}
    except FileNotFoundError:
        raise InputError(
            f"Expected {what}, but there is no {path.name} in {path.parent}: {advice()}.",
            code="missing",
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {what}, but got: {error} in {path}: the file is damaged; "
            "`checkwise study status --verify` says what to do.",
            code="damaged",
        ) from None


# Domain → correct [n], NLL [n], labels [n].
SavedOutcomes: TypeAlias = dict[
    str, tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]
]


def read_outcomes(folder: Path, name_at: Callable[[int], str], step: int) -> SavedOutcomes:
    """The outcomes of one step by domain."""
    name = name_at(step)
    arrays = read_arrays(
        folder,
        name,
        (".correct", ".nll", ".labels"),
        what=f"outcomes of step {step}",
        advice=lambda: "`checkwise study status --verify` says what happened to it",
    )
    domains = sorted(n.removesuffix(".correct") for n in arrays if n.endswith(".correct"))
    found: SavedOutcomes = {}
    for domain in domains:
        labels, nll = arrays.get(f"{domain}.labels"), arrays.get(f"{domain}.nll")
        bits = arrays[f"{domain}.correct"]
        if (
            labels is None
            or nll is None
            or labels.ndim != 1
            or nll.shape != labels.shape
            or bits.dtype != np.uint8
            or bits.shape != ((len(labels) + 7) // 8,)
        ):
            raise InputError(
                f"Expected a bit, an NLL and a label per example of {domain!r}, but got other "
                f"arrays in {folder / name}: `checkwise study status --verify` says what "
                "happened to it.",
                code="damaged",
            )
        correct = np.unpackbits(bits, count=len(labels)).astype(np.bool_)
        found[domain] = (correct, nll.astype(np.float64), labels.astype(np.int64))
    return found


def saved_examples(folder: Path, run: Trajectory, *, second: bool = False) -> Examples | None:
    """The examples of a run, read when they are first asked for; None where none were saved.

    ``second`` asks for those of the second validation set, whole groups.
    """
    name_at = layout.groups_predictions_file if second else layout.source_predictions_file
    saved_at = partial(layout.outcomes_file, second=second)
    has_logits = (folder / name_at(0)).parent.is_dir()
    has_outcomes = (folder / saved_at(0)).parent.is_dir()
    if not has_logits and not has_outcomes:
        return None
    held_out = run.key.held_out if run.key else ()
    read = partial(_logits, folder, name_at, held_out=held_out)
    groups = partial(_groups, folder, saved_at if has_outcomes else name_at, int(run.steps[0]))
    rows = run.domains, run.steps.tolist(), run.diverged.tolist()
    computed = partial(_from_logits, read, *rows)
    saved = partial(_saved, partial(read_outcomes, folder, saved_at), *rows)
    return Examples(
        domains=run.domains,
        steps=run.steps,
        outcomes=partial(_with_groups, saved if has_outcomes else computed, groups, run.domains),
        logits=read if has_logits else None,
    )


def _logits(
    folder: Path, name_at: Callable[[int], str], step: int, *, held_out: tuple[str, ...]
) -> Logits:
    name = name_at(step)
    logits = read_logits(folder, name, what=f"source logits of step {step}", advice=_advice)
    if set(logits) & set(held_out):
        raise InputError(
            f"Expected source domains only, but got a held-out one in {folder / name}: the file "
            "does not belong to this run.",
            code="held-out",
        )
    return logits


def _groups(folder: Path, name_at: Callable[[int], str], step: int) -> Groups:
    what = f"groups of the examples of step {step}"
    return read_groups(folder, name_at(step), what=what, advice=_advice)


def _advice() -> str:
    return "`checkwise study status --verify` says what happened to it"


Row = tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]  # correct, NLL, labels


def _from_logits(
    read: Callable[[int], Logits], domains: Sequence[str], steps: list[int], diverged: list[bool]
) -> Outcomes:
    """Correctness and NLL of every checkpoint from its logits, one file at a time."""

    def row(step: int, name: str, lost: bool, logits: Logits) -> Row:
        z, y = _of_domain(logits, name, step)
        if lost:
            return np.zeros(len(y), bool), np.full(len(y), np.nan), y
        rows = metrics.per_example(logits=z, labels=y)
        return rows.correct, rows.nll, y

    return _stacked(read, row, domains, steps, diverged)


def _saved(
    read: Callable[[int], SavedOutcomes],
    domains: Sequence[str],
    steps: list[int],
    diverged: list[bool],
) -> Outcomes:
    """The same as it was saved."""

    def row(step: int, name: str, lost: bool, saved: SavedOutcomes) -> Row:
        found: Row = _of_domain(saved, name, step)
        return found

    return _stacked(read, row, domains, steps, diverged)


Saved = TypeVar("Saved")


def _stacked(
    read: Callable[[int], Saved],
    row: Callable[[int, str, bool, Saved], Row],
    domains: Sequence[str],
    steps: list[int],
    diverged: list[bool],
) -> Outcomes:
    rows: dict[str, list[Row]] = {name: [] for name in domains}
    for step, lost in zip(steps, diverged, strict=True):
        saved = read(step)
        for name in domains:
            rows[name].append(row(step, name, lost, saved))
            if not np.array_equal(rows[name][0][2], rows[name][-1][2]):
                raise InputError(
                    f"Expected the labels of {name!r} to be the same at every step, but they "
                    f"change at step {step}: `checkwise study status --verify` says "
                    "what happened to them.",
                    code="damaged",
                )
    return Outcomes(
        correct=tuple(np.stack([correct for correct, _, _ in rows[name]]) for name in domains),
        labels=tuple(rows[name][0][2] for name in domains),
        nll=tuple(np.stack([nll for _, nll, _ in rows[name]]) for name in domains),
    )


def _of_domain(saved: Mapping[str, Any], name: str, step: int) -> Any:
    if name not in saved:
        raise InputError(
            f"Expected the examples of {name!r} at step {step}, but its file has only "
            f"{', '.join(saved)}: `checkwise study status --verify` says what happened to it.",
            code="damaged",
        )
    return saved[name]


def _with_groups(
    outcomes: Callable[[], Outcomes], groups: Callable[[], Groups], domains: Sequence[str]
) -> Outcomes:
    group_of = groups()
    if not all(name in group_of for name in domains):
        return outcomes()
    return replace(outcomes(), groups=tuple(group_of[name] for name in domains))
