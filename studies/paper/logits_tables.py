"""What needs logits on the runs of the paper's design.

Temperatures come from the kept outcomes, the rest from tables that were computed where the logits
lay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from checkwise.study import scale
from checkwise.study.inference import trimmed_mean
from checkwise.study.tables import markdown
from checkwise.words import number
from studies.paper import single_runs
from studies.paper.beside import grid
from studies.paper.cohorts import there
from studies.paper.effects import effect
from studies.paper.kept_tables import CAMERA_TRAPS, NAMES, read
from studies.paper.outcomes import Outcomes

COHORTS = ("taicam-frozen", "officehome-erm", "pacs-erm")
RULES = ("source-acc", "ac-nc")
SCALED = {"`ts`": "+ts", "`ts-soften`": "+ts-soften", "`ts-oracle`": "+ts-oracle"}
SCALING = {"raw": "", **SCALED}
ERRORS = ("target_nll", "target_ece", "target_cwece")
SHOWN = ("target_nll", "target_accuracy", "target_ece", "target_cwece")
NAMED = {"target_nll": "NLL", "target_ece": "ECE", "target_cwece": "CwECE"}


def parts() -> dict[str, str]:
    """Every table by name."""
    return {
        "levels": levels(),
        "cells": cells(),
        "changes": changes(),
        **{name: markdown(read(name, CAMERA_TRAPS)) for name in NAMES},
    }


def _by_data() -> Iterator[tuple[str, Outcomes]]:
    return ((described.data, kept) for described, kept in there(COHORTS))


def levels() -> str:
    """Both rules before and after scaling, and how many runs get better."""
    rows = [
        (
            *(described.data, described.role, f"`{rule}`", title, str(len(kept.keys))),
            *_errors(kept, f"{rule}{plus}"),
            *(_better(kept, rule, plus) if plus else [""] * len(ERRORS)),
        )
        for described, kept in there(COHORTS)
        for rule in RULES
        for title, plus in SCALING.items()
    ]
    header = (
        *("data", "role", "rule", "probabilities", "runs"),
        *("NLL", "NLL, median", "NLL, 5%-trimmed", "ECE", "CwECE"),
        *(f"runs better in {NAMED[metric]}" for metric in ERRORS),
    )
    return grid(header, rows, 4)


def _errors(kept: Outcomes, recipe: str) -> Iterator[str]:
    nll, *others = (kept.values[recipe][metric] for metric in ERRORS)
    yield from (number(float(f(nll)), 3) for f in (np.mean, np.median, trimmed_mean))
    for metric, values in zip(ERRORS[1:], others, strict=True):
        yield number(scale(metric) * float(values.mean()), 2)


def _better(kept: Outcomes, rule: str, plus: str) -> list[str]:
    """Of all runs, those in which scaling lowers each error."""
    table = kept.differences(f"{rule}{plus}", rule, ERRORS)
    return [str(int(count)) for count in (table.values < 0).sum(axis=0)]


def cells() -> str:
    """In how many cells of data set and algorithm scaling lowers the mean of each error."""
    groups = list(_groups())
    rows = [
        (f"`{rule}`", title, str(len(groups)), *_better_cells(groups, rule, plus))
        for rule in RULES
        for title, plus in SCALED.items()
    ]
    header = ("rule", "probabilities", "cells", *(f"better in {NAMED[m]}" for m in ERRORS))
    return grid(header, rows, 2)


def _groups() -> Iterator[tuple[Outcomes, np.ndarray]]:
    """The runs of one algorithm on one data set."""
    for _, kept in _by_data():
        for algorithm in sorted({key.algorithm for key in kept.keys}):
            yield kept, np.array([key.algorithm == algorithm for key in kept.keys])


def _better_cells(
    groups: Sequence[tuple[Outcomes, np.ndarray]], rule: str, plus: str
) -> Iterator[str]:
    changed = [
        kept.differences(f"{rule}{plus}", rule, ERRORS, keep).values.mean(axis=0)
        for kept, keep in groups
    ]
    yield from (str(int(count)) for count in (np.stack(changed) < 0).sum(axis=0))


def changes() -> str:
    """`ac-nc` − `source-acc` before and after the same scaling of both."""
    rows = [
        (described.data, described.role, title, *_change(kept, plus))
        for described, kept in there(COHORTS)
        for title, plus in SCALING.items()
    ]
    header = (
        *("data", "role", "both", "domains, runs", "NLL", single_runs.COLUMN),
        *("runs better / same / worse", "accuracy, points", "ECE", "CwECE"),
    )
    return grid(header, rows, 4)


def _change(kept: Outcomes, plus: str) -> tuple[str, ...]:
    sides = (f"ac-nc{plus}", f"source-acc{plus}")
    nll, *others = (effect(kept, *sides, metric) for metric in SHOWN)
    return (
        *(f"{len(nll.names)}, {nll.runs}", str(nll), single_runs.spread(kept, *sides)),
        single_runs.typical(kept, *sides)[-1],
        *map(str, others),
    )
