"""What saved predictions take on disk, and what half precision changes.

``python -m studies.simulations.sure_sizes COHORT…`` reads the source logits of cohorts and writes
``sure-sizes.csv``, one row per run; ``tests/docs`` checks the sentences of docs/sure.md against it.
Nothing held out is read.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

import checkwise as cw
from checkwise.metrics import halved, per_example
from checkwise.store import write_npz
from studies.page import DATA as STUDY_DATA

DATA = STUDY_DATA / "sure-sizes.csv"
Kind = Literal["logits", "half", "outcomes"]
KINDS: tuple[Kind, ...] = ("outcomes", "half", "logits")


def bytes_of(saved: dict[str, tuple[Any, Any]], kind: Kind) -> int:
    """The file of one checkpoint, as a run writes it."""
    arrays: dict[str, Any] = {}
    for name, (logits, labels) in saved.items():
        if kind == "outcomes":
            rows = per_example(logits=logits, labels=labels)
            arrays |= {f"{name}.correct": np.packbits(rows.correct), f"{name}.nll": rows.nll}
        else:
            arrays[f"{name}.logits"] = halved(logits) if kind == "half" else logits
        arrays[f"{name}.labels"] = labels
    content = io.BytesIO()
    write_npz(content, arrays)
    return len(content.getvalue())


def row_of(cohort: Path, run: cw.Trajectory) -> dict[str, Any]:
    assert run.examples is not None
    sizes = dict.fromkeys(KINDS, 0)
    half: dict[int, Any] = {}
    for step in run.steps.tolist():
        saved = run.examples.logits(step)
        for kind in KINDS:
            sizes[kind] += bytes_of(saved, kind)
        half[step] = {name: (z.astype(np.float16), y) for name, (z, y) in saved.items()}
    rounded = cw.Trajectory.from_predictions(half)
    gaps = [np.abs(rounded.values[name] - run.values[name]).max() for name in ("nll", "cwece")]
    return {
        "cohort": cohort.name,
        "run": str(run.key),
        "examples": sum(one.shape[1] for one in run.examples.correct),
        "checkpoints": len(run),
        **{f"{kind}_bytes": size for kind, size in sizes.items()},
        "largest_gap": f"{max(gaps):.3g}",
        "same_choice": int(
            cw.select(rounded, guard=False).step == cw.select(run, guard=False).step
        ),
    }


def main() -> None:
    rows = [
        row_of(cohort, cw.load(done.parent))
        for cohort in map(Path, sys.argv[1:])
        for done in sorted((cohort / "runs").glob("*/done"))
    ]
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
