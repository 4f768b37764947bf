"""A run's class-wise calibration errors under other settings, from its saved source logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.records import Trajectory
from checkwise.store import layout
from checkwise.study.chosen import part_of
from checkwise.study.debiased import debiased_cwece
from checkwise.weights.logits import Logits, source_logits

BoolArray = NDArray[np.bool_]

USUAL: Final = (15, 0.1)  # B and h
OTHERS: Final = ((10, 0.1), (30, 0.1), (15, 0.05), (15, 0.2))
SOFT: Final = {f"B = {b}, h = {h:g}": (b, h) for b, h in (USUAL, *OTHERS)}
HARD: Final = f"{USUAL[0]} hard bins"
DEBIASED: Final = f"{USUAL[0]} hard bins, debiased"
VARIANTS: Final = (*SOFT, HARD, DEBIASED)


def saved(folder: Path, run: Trajectory, keep: BoolArray) -> bool:
    """Whether the source logits of the marked checkpoints were kept."""
    steps = run.steps[keep].tolist()
    return all((folder / layout.source_predictions_file(step)).is_file() for step in steps)


def rebinned(folder: Path, run: Trajectory, keep: BoolArray) -> Trajectory:
    """The marked checkpoints with NLL and one class-wise error per variant, by its name.

    Every file of logits is read once.

    Raises:
        InputError: the logits are not those that the records were made of.
    """
    part = part_of(run, keep, ())
    found = [_measured(folder, part, t) for t in range(len(part))]
    values = {
        name: np.array([[domain[name] for domain in domains] for domains in found])
        for name in ("nll", *VARIANTS)
    }
    return replace(part, values={"accuracy": part.values["accuracy"], **values})


def _measured(folder: Path, run: Trajectory, t: int) -> list[dict[str, float]]:
    """Every variant at one checkpoint, by domain."""
    logits = source_logits(folder, int(run.steps[t]))
    if set(logits) != set(run.domains):
        raise _foreign(folder, run, t, f"domains {', '.join(logits)}")
    return [_errors(folder, run, t, e, logits) for e in range(len(run.domains))]


def _errors(folder: Path, run: Trajectory, t: int, e: int, logits: Logits) -> dict[str, float]:
    domain = run.domains[e]
    z, y = logits[domain]
    soft = {
        name: metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth)
        for name, (bins, bandwidth) in SOFT.items()
    }
    usual = next(iter(soft.values()))
    if run.correct is not None and usual.correct != run.correct[t, e]:
        raise _foreign(folder, run, t, f"{usual.correct} correct of {domain!r}")
    return {
        "nll": usual.nll,
        **{name: report.cwece for name, report in soft.items()},
        HARD: usual.hard_cwece,
        DEBIASED: debiased_cwece(z, y, USUAL[0]),
    }


def _foreign(folder: Path, run: Trajectory, t: int, what: str) -> InputError:
    path = folder / layout.source_predictions_file(int(run.steps[t]))
    return InputError(
        f"Expected the logits that {folder / layout.SOURCE} was made of, but got {what} in {path}: "
        "`checkwise verify` says what to do."
    )
