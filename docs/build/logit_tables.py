"""Tables that need saved logits, which are not packed: computed once, kept as their numbers.

``python docs/build/logit_tables.py PACS OFFICEHOME`` computes them from two cohorts and keeps
them with a fingerprint of the source journals that they belong to.
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

from checkwise.store.registration import source_hashes
from checkwise.study import Cohort
from checkwise.study.pool import Pool
from checkwise.tables import Cell, Table, build

FILE = Path(__file__).parents[1] / "study" / "data" / "logits.json"
NAMES = ("temperature", "temperature-changes", "cross-fit", "binning", "risk-coverage")


def fingerprint(cohort: Path) -> str:
    """One hash for all source journals of a cohort."""
    text = json.dumps(source_hashes(cohort), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def compute(folders: Sequence[Path]) -> dict[str, Any]:
    """The numbers of every table, plain values for JSON."""
    cohorts = [Cohort.open(folder) for folder in folders]
    pool = Pool(cohorts)
    return {
        "journals": {each.name: fingerprint(each.path) for each in cohorts},
        "tables": {name: _plain(build(name, pool)) for name in NAMES},
    }


def read(name: str) -> Table:
    """A table from the kept numbers."""
    values = json.loads(FILE.read_text())["tables"][name]
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
    if len(sys.argv) != 3:
        sys.exit("Expected two cohort folders, PACS and OfficeHome, with saved logits.")
    FILE.write_text(json.dumps(compute([Path(each) for each in sys.argv[1:]]), indent=1) + "\n")


if __name__ == "__main__":
    main()
