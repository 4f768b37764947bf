"""Derive: averages and ensembles of the trained runs, and their comparison."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ask import Side

METHODS = ("mean-probs", "mean-probs-3", "mean-weights", "ac-nc-mean-weights", "swad")


def answers(side: Side) -> Iterator[tuple[str, object]]:
    cohort = Path("derived")
    shutil.copytree("trained", cohort)
    for method in METHODS:
        yield method, side.run("derive", cohort, "--method", method, "--workers", "1", "--json")
    rules = "mean-probs,mean-weights,ac-nc-mean-weights,ac-nc,source-acc"
    yield "compared", side.run("compare", cohort, "--json", "--rules", rules)
