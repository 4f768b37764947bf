"""Tables that need saved logits, which are not packed: computed once, kept as their numbers.

    python -m studies.paper.kept_tables SET COHORT...

computes the tables of one set from its cohorts, where their logits lie, and keeps them with a
fingerprint of the source journals that they belong to.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

from checkwise.study import Cohort, Pool
from checkwise.study.folder import source_hashes
from checkwise.study.tables import Cell, Table, build
from studies.page import DATA

FIRST_STUDY, CAMERA_TRAPS = "first-study", "camera-traps"
# Of the camera traps the runs of ERM alone were trained again for their logits.
SETS = {FIRST_STUDY: ("pacs-frozen", "officehome-frozen"), CAMERA_TRAPS: ("taicam-frozen",)}
NAMES = ("temperature", "temperature-changes", "cross-fit", "binning", "risk-coverage")


def file_of(which: str) -> Path:
    """Where the tables of a set are kept."""
    return DATA / f"logits-{which}.json"


def fingerprint(cohort: Path, runs: Sequence[str] | None = None) -> str:
    """One hash for the source journals of a cohort, of all runs or of some folders."""
    hashes = source_hashes(cohort)
    kept = hashes if runs is None else {name: hashes[name] for name in runs}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def compute(folders: Sequence[Path]) -> dict[str, Any]:
    """The numbers of every table, plain values for JSON."""
    cohorts = [Cohort.open(folder) for folder in folders]
    pool = Pool(cohorts)
    return {
        "journals": {each.name: fingerprint(each.path) for each in cohorts},
        "tables": {name: _plain(build(name, pool)) for name in NAMES},
    }


def read(name: str, which: str = FIRST_STUDY) -> Table:
    """A table from the kept numbers."""
    values = json.loads(file_of(which).read_text())["tables"][name]
    cells = [
        Cell(**{**cell, "row": tuple(cell["row"]), **_numbers(cell)}) for cell in values["cells"]
    ]
    return Table(**{**values, "labels": tuple(values["labels"]), "cells": tuple(cells)})


def _plain(table: Table) -> dict[str, Any]:
    values = asdict(table)
    for cell in values["cells"]:
        for name in ("value", "low", "high"):
            cell[name] = None if isnan(cell[name]) else round(cell[name], 9)
    return values


def _numbers(cell: dict[str, Any]) -> dict[str, float]:
    return {
        name: float("nan") if cell[name] is None else float(cell[name])
        for name in ("value", "low", "high")
    }


def main() -> None:
    which, *folders = sys.argv[1:] or [""]
    if which not in SETS or len(folders) != len(SETS[which]):
        takes = "; ".join(f"{name} {' '.join(cohorts)}" for name, cohorts in SETS.items())
        sys.exit(f"Expected a set and the folders of its cohorts with saved logits: {takes}.")
    kept = compute([Path(each) for each in folders])
    if tuple(kept["journals"]) != SETS[which]:
        sys.exit(f"Expected {' '.join(SETS[which])}, but got {' '.join(kept['journals'])}.")
    file_of(which).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
