"""A run's class-wise calibration errors under other settings, from its saved source logits."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
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
# What other builds of the metrics may differ by; the same build repeats itself to 1e-9 or better.
RELATIVE: Final = 1e-5
ABSOLUTE: Final = 1e-6


def rebinned(folder: Path, run: Trajectory, keep: BoolArray) -> Trajectory:
    """The marked checkpoints with NLL and one class-wise error per variant, by its name.

    Every file of logits is read once.

    Raises:
        InputError: the logits are not those that the records were made of: they do not give the
            recorded number correct, NLL and CwECE.
    """
    recorded = part_of(run, keep, ("nll", "cwece"))
    found = [_measured(folder, recorded, t) for t in range(len(recorded))]
    values = {
        name: np.array([[domain[name] for domain in domains] for domains in found])
        for name in ("nll", *VARIANTS)
    }
    part = part_of(run, keep, ())
    return replace(part, values={"accuracy": part.values["accuracy"], **values})


def _measured(folder: Path, run: Trajectory, t: int) -> list[dict[str, float]]:
    """Every variant at one checkpoint, by domain."""
    logits = source_logits(folder, int(run.steps[t]))
    if set(logits) != set(run.domains):
        raise _foreign(folder, run, t, f"domains {', '.join(logits)}")
    return [_errors(folder, run, t, e, logits) for e in range(len(run.domains))]


def _errors(folder: Path, run: Trajectory, t: int, e: int, logits: Logits) -> dict[str, float]:
    z, y = logits[run.domains[e]]
    soft = {
        name: metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth)
        for name, (bins, bandwidth) in SOFT.items()
    }
    usual = next(iter(soft.values()))
    setting = (run.bins or USUAL[0], run.bandwidth or USUAL[1])
    as_recorded = next((soft[name] for name, other in SOFT.items() if other == setting), None)
    if as_recorded is None:
        as_recorded = metrics.evaluate(logits=z, labels=y, bins=setting[0], bandwidth=setting[1])
    if unlike := _unlike(run, t, e, as_recorded):
        raise _foreign(folder, run, t, unlike)
    return {
        "nll": usual.nll,
        **{name: report.cwece for name, report in soft.items()},
        HARD: usual.hard_cwece,
        DEBIASED: debiased_cwece(z, y, USUAL[0]),
    }


def _unlike(run: Trajectory, t: int, e: int, found: metrics.Report) -> str:
    """What logits give that the journal says otherwise; empty where they agree."""
    where = f"of {run.domains[e]!r}, recorded as"
    if run.correct is not None and found.correct != run.correct[t, e]:
        return f"{found.correct} correct {where} {run.correct[t, e]},"
    for name, value in (("nll", found.nll), ("cwece", found.cwece)):
        recorded = float(run.values[name][t, e])
        if not isclose(value, recorded, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            return f"{name} {value:.6g} {where} {recorded:.6g},"
    return ""


def _foreign(folder: Path, run: Trajectory, t: int, what: str) -> InputError:
    step = int(run.steps[t])
    return InputError(
        f"Expected the logits that the journal of {run.key} was made of, but got at step {step} "
        f"{what} in {folder / layout.source_predictions_file(step)}: `checkwise verify` says what "
        "to do."
    )
