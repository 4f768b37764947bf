"""How much choices depend on the bins of the class-wise calibration error."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.calibrators.examples import Logits
from checkwise.errors import InputError
from checkwise.metrics.debiased import class_wise_gap
from checkwise.metrics.probabilities import probabilities
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select_many
from checkwise.store import layout
from checkwise.store.logits import saved_at, source_logits
from checkwise.study.compare import pair
from checkwise.study.pool import Pool
from checkwise.tables.means_and_changes import MAIN, paired_cells
from checkwise.tables.partial_runs import columns_of, part_of
from checkwise.tables.table import Cell, Table, table

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
    remeasured = [_remeasured(folder, recorded, t) for t in range(len(recorded))]
    values = {
        name: np.array([[domain[name] for domain in domains] for domains in remeasured])
        for name in ("nll", *VARIANTS)
    }
    part = part_of(run, keep, ())
    return replace(part, values={"accuracy": part.values["accuracy"], **values})


def _remeasured(folder: Path, run: Trajectory, t: int) -> list[dict[str, float]]:
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
    if disagreement := _disagreement(run, t, e, as_recorded):
        raise _foreign(folder, run, t, disagreement)
    return {
        "nll": usual.nll,
        **{name: report.cwece for name, report in soft.items()},
        HARD: usual.hard_cwece,
        DEBIASED: class_wise_gap(probabilities(z), y, USUAL[0]),
    }


def _disagreement(run: Trajectory, t: int, e: int, report: metrics.Report) -> str:
    """What the journal records otherwise than the logits give; empty where they agree."""
    where = f"of {run.domains[e]!r}, recorded as"
    if run.correct is not None and report.correct != run.correct[t, e]:
        return f"{report.correct} correct {where} {run.correct[t, e]},"
    for name, value in (("nll", report.nll), ("cwece", report.cwece)):
        recorded = float(run.values[name][t, e])
        if not isclose(value, recorded, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            return f"{name} {value:.6g} {where} {recorded:.6g},"
    return ""


def _foreign(folder: Path, run: Trajectory, t: int, what: str) -> InputError:
    step = int(run.steps[t])
    return InputError(
        f"Expected the logits that the journal of {run.key} was made of, but got at step {step} "
        f"{what} in {folder / layout.source_predictions_file(step)}: "
        "`checkwise study status --verify` says what to do.",
        code="damaged",
    )


REFERENCES = ("ac-nc", "source-acc")


def binning(pool: Pool) -> Table:
    """ac-nc with class-wise errors of other settings − ac-nc as recorded, and − source-acc."""
    runs = _measured(pool)
    keep = np.array([key in runs for key in pool.keys])
    cells: list[Cell] = []
    for variant in VARIANTS if runs else ():
        of_variant = columns_of(
            pool,
            select_many(
                runs,
                "ac",
                guard=False,
                objectives=("nll", variant),
                directions={variant: "lower"},
            ),
        )
        for group in pool.by_role():
            used = group.keep & keep
            for reference in REFERENCES:
                of_reference, row = pool.columns(reference), (variant, reference)
                moved = (of_variant["step"] != of_reference["step"])[used]
                count = float(moved.sum())
                cells.append(Cell(row, "choices_changed", count, len(moved), group.role))
                changes = pair(variant, reference, pool.keys, MAIN, of_variant, of_reference)
                cells += paired_cells(changes.among(used), row, group.role)
    return table(
        "binning",
        "ac-nc ranked by NLL and another class-wise calibration error − the reference",
        ("error", "reference"),
        cells,
        note=f"{len(runs)} of {len(pool)} runs have the source logits of every feasible "
        "checkpoint. The reference ac-nc is ranked by the recorded CwECE, and target results are "
        "the recorded ones. Hard bins: absolute gaps, frequent classes weigh more; debiased: "
        "squared gaps less their share of chance, classes weigh alike.",
        signed=True,
    )


def _measured(pool: Pool) -> dict[RunKey, Trajectory]:
    """Runs with saved logits: their feasible checkpoints, all that ac-nc compares."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    selections = select_many(runs, "ac-nc", guard=False)
    measured = {}
    for key in pool.keys:
        run, folder = pool.trajectory(key), pool.folder(key)
        feasible = selections[key].ranking.eligible
        if saved_at(folder, run.steps[feasible].tolist()):
            measured[key] = rebinned(folder, run, feasible)
    return measured
