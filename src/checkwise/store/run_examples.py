"""What every validation example said in a run that saved its source logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from checkwise import metrics
from checkwise.calibrators.examples import Logits
from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.records.examples import Examples, Outcomes
from checkwise.store import layout
from checkwise.store.saved_logits import Groups, read_groups, read_logits


def saved_examples(folder: Path, run: Trajectory, *, second: bool = False) -> Examples | None:
    """The examples of a run, read when they are first asked for; None where none were saved.

    ``second`` asks for those of the second validation set, whole groups.
    """
    name_at = layout.groups_predictions_file if second else layout.source_predictions_file
    if not (folder / name_at(0)).parent.is_dir():
        return None
    held_out = run.key.held_out if run.key else ()
    read = partial(_logits, folder, name_at, held_out=held_out)
    groups = partial(_groups, folder, name_at, int(run.steps[0]))
    steps, diverged = run.steps.tolist(), run.diverged.tolist()
    return Examples(
        domains=run.domains,
        steps=run.steps,
        outcomes=partial(_outcomes, read, groups, run.domains, steps, diverged),
        logits=read,
    )


def _logits(
    folder: Path, name_at: Callable[[int], str], step: int, *, held_out: tuple[str, ...]
) -> Logits:
    name = name_at(step)
    logits = read_logits(folder, name, what=f"source logits of step {step}", advice=_advice)
    if set(logits) & set(held_out):
        raise InputError(
            f"Expected source domains only, but got a held-out one in {folder / name}: the file "
            "does not belong to this run."
        )
    return logits


def _groups(folder: Path, name_at: Callable[[int], str], step: int) -> Groups:
    what = f"groups of the examples of step {step}"
    return read_groups(folder, name_at(step), what=what, advice=_advice)


def _advice() -> str:
    return "`checkwise verify` says what happened to it"


def _outcomes(
    read: partial[Logits],
    groups: partial[Groups],
    domains: tuple[str, ...],
    steps: list[int],
    diverged: list[bool],
) -> Outcomes:
    """Correctness and NLL of every checkpoint, one file at a time."""
    correct: dict[str, list[np.ndarray]] = {name: [] for name in domains}
    nll: dict[str, list[np.ndarray]] = {name: [] for name in domains}
    labels: dict[str, np.ndarray] = {}
    for step, lost in zip(steps, diverged, strict=True):
        logits = read(step)
        for name in domains:
            if name not in logits:
                raise InputError(
                    f"Expected logits of {name!r} at step {step}, but its file has only "
                    f"{', '.join(logits)}: `checkwise verify` says what happened to it."
                )
            z, y = logits[name]
            if not np.array_equal(labels.setdefault(name, y), y):
                raise InputError(
                    f"Expected the labels of {name!r} to be the same at every step, but they "
                    f"change at step {step}: `checkwise verify` says what happened to them."
                )
            rows = None if lost else metrics.per_example(logits=z, labels=y)
            correct[name].append(np.zeros(len(y), bool) if rows is None else rows.correct)
            nll[name].append(np.full(len(y), np.nan) if rows is None else rows.nll)
    group_of = groups()
    grouped = all(name in group_of for name in domains)
    return Outcomes(
        correct=tuple(np.stack(correct[name]) for name in domains),
        labels=tuple(labels[name] for name in domains),
        nll=tuple(np.stack(nll[name]) for name in domains),
        groups=tuple(group_of[name] for name in domains) if grouped else None,
    )
