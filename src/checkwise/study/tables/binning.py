"""How far the choices of ac-nc depend on the way that calibration errors are binned."""

from __future__ import annotations

import numpy as np

from checkwise.records import RunKey, Trajectory
from checkwise.selection import select_many
from checkwise.study.chosen import columns_of
from checkwise.study.paired import between
from checkwise.study.pool import Pool
from checkwise.study.rebinned import VARIANTS, rebinned
from checkwise.study.tables.cells import MAIN, paired_cells
from checkwise.study.tables.table import Cell, Table, table
from checkwise.weights.logits import saved_at

REFERENCES = ("ac-nc", "source-acc")


def binning(pool: Pool) -> Table:
    """ac-nc with class-wise errors of other settings − ac-nc as recorded, and − source-acc."""
    runs = _measured(pool)
    keep = np.array([key in runs for key in pool.keys])
    cells: list[Cell] = []
    for variant in VARIANTS if runs else ():
        mine = columns_of(pool, select_many(runs, "ac", objectives=("nll", variant)))
        for scope in pool.scopes():
            used = scope.keep & keep
            for reference in REFERENCES:
                theirs, row = pool.columns(reference), (variant, reference)
                moved = (mine["step"] != theirs["step"])[used]
                count = float(moved.sum())
                cells.append(Cell(row, "choices_changed", count, len(moved), scope.role))
                found = between(variant, reference, pool.keys, MAIN, mine, theirs)
                cells += paired_cells(found.among(used), row, scope.role)
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
    chosen = select_many({key: pool.trajectory(key) for key in pool.keys}, "ac-nc")
    found = {}
    for key in pool.keys:
        run, folder = pool.trajectory(key), pool.folder(key)
        feasible = chosen[key].ranking.eligible
        if saved_at(folder, run.steps[feasible].tolist()):
            found[key] = rebinned(folder, run, feasible)
    return found
