"""Methods beyond choosing a checkpoint: averaging, recalibration, other validation protocols.

Each table needs results that are made first (`checkwise study derive`, saved logits, VREx's
training terms); without them it is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study import (
    Differences,
    Outcome,
    Pool,
    by_units,
    columns_over,
    contrasts,
    marked,
    pair,
    scale,
)
from checkwise.study.inference import cluster_means, numbered
from checkwise.study.tables.means_and_changes import (
    MAIN,
    Pair,
    beside_cells,
    changes,
    leading_cell,
    mean_or_nan,
    means,
)
from checkwise.study.tables.table import Cell, Table, table
from checkwise.study.tables.typeset import BY_BLOCK
from checkwise.study.tables.worst_domain import WHD
from checkwise.words import counted

FloatArray = NDArray[np.float64]

HARD = ("target_accuracy", "target_nll", "target_hard_ece", "target_hard_cwece")
AVERAGED = ("swad", "swad-nobn", "swad-as-described")
LODO = ("source-acc", "ac-nc", "lodo-acc", "ac-lodo")
WC = "target_worst_class_accuracy"
HUGE_NLL = 100.0


def swad(pool: Pool) -> Table:
    """Averaged weights beside chosen checkpoints; single runs can carry the mean NLL."""
    present = [name for name in AVERAGED if _has_results(pool, name)]
    if not present:
        pool.outcomes(AVERAGED[0])  # the error names what is missing
    rules = ("source-acc", "ac-nc", *present)
    groups = pool.groups(["dataset"])
    cells = list(means(pool, rules, MAIN, groups))
    for group in groups:
        for rule in rules:
            nll = pool.columns(rule)["target_nll"][group.keep]
            nll = nll[np.isfinite(nll)]
            row, count = (*group.labels, rule), float((nll > HUGE_NLL).sum())
            cells.append(Cell(row, "nll_above_100", count, len(nll), group.role))
    return table(
        "swad",
        "Averaging the checkpoints of the loss valley, beside choosing one",
        ("dataset", "rule"),
        cells,
        note="swad re-estimates BatchNorm statistics; swad-nobn keeps those of its first endpoint.",
    )


def temperature(pool: Pool) -> Table:
    """Source-fitted temperature scaling; data set × algorithm cells weigh equally."""
    rules = ("source-acc", "source-acc+ts", "ac-nc", "ac-nc+ts")
    cells = []
    columns = {rule: pool.columns(rule) for rule in rules}
    for role in pool.by_role():
        groups = [g.keep & role.keep for g in pool.groups(["dataset", "algorithm"])]
        groups = [keep for keep in groups if keep.any()]
        for rule in rules:
            for measure in MAIN:
                by_cell = [_finite_mean(columns[rule][measure][keep]) for keep in groups]
                mean, factor = scale(measure) * float(np.mean(by_cell)), scale(measure)
                row, n = (rule,), int(role.keep.sum())
                cells.append(Cell(row, measure, mean, n, role.role, factor))
                if rule.endswith("+ts") and measure != "target_accuracy":
                    raw = columns[rule.removesuffix("+ts")][measure]
                    before = [_finite_mean(raw[keep]) for keep in groups]
                    better = sum(b < a for a, b in zip(before, by_cell, strict=True))
                    name = measure.replace("target_", "improved_")
                    cells.append(Cell(row, name, better, len(groups), role.role, unit="cells"))
    return table(
        "temperature",
        "One temperature fitted on source validation after choosing",
        ("rule",),
        cells,
        note="Means of data set × algorithm cells; improved: cells that scaling improves.",
    )


def temperature_changes(pool: Pool) -> Table:
    """Does choosing still matter after scaling? And with the best temperature in hindsight?"""
    pairs = [
        Pair((f"(ac-nc − source-acc) after {what}",), f"ac-nc+{suffix}", f"source-acc+{suffix}")
        for suffix, what in (("ts", "scaling"), ("ts-oracle", "oracle scaling (not deployable)"))
    ]
    return table(
        "temperature-changes",
        "ac-nc − source-acc after temperature scaling, paired by run",
        ("contrast",),
        changes(pool, pairs, MAIN, pool.by_role()),
        signed=True,
    )


def pair_s(pool: Pool) -> Table:
    """PAIR-s style selection on VREx's runs."""
    rules = ("source-acc", "pair-last10", "pair-valfilter", "ac-nc")
    vrex = [g for g in pool.groups(["dataset", "algorithm"]) if g.labels[1] == "VREx"]
    if not vrex:
        raise InputError(
            "Expected runs of VREx, but there are none: PAIR needs its penalty.", code="unsupported"
        )
    return table(
        "pair",
        "Selection in the style of PAIR, VREx only",
        ("dataset", "algorithm", "rule"),
        means(pool, rules, (*MAIN, WHD, WC), vrex),
        note="Not a reproduction of PAIR under its own training.",
    )


def lodo(pool: Pool) -> Table:
    """Leave-one-domain-out validation, every run by itself; hard-bin metrics."""
    keys = pool.outcomes("lodo-acc").keys()
    groups = [
        group
        for group in pool.groups(["algorithm", "dataset"])
        if any(pool.keys[i] in keys for i in np.flatnonzero(group.keep).tolist())
    ]
    return table(
        "lodo",
        "Leave-one-domain-out validation beside source validation",
        ("algorithm", "dataset", "rule"),
        means(pool, LODO, HARD, groups),
        note="Hard-bin metrics: never beside the soft-bin ones of other tables.",
    )


def lodo_changes(pool: Pool) -> Table:
    """Contrasts in both scopes, per role: paired differences, and beside them by block of seeds."""
    cells: list[Cell] = []
    for group in pool.by_role():
        kept = set(marked(pool.keys, group.keep))
        for scope, name in (("run", "fixed"), ("hparams-acc", "selected")):
            outcomes = {
                rule: _sharing_seeds(pool.outcomes(rule, scope=scope), kept, scope) for rule in LODO
            }
            for rule, reference in (("ac-nc", "lodo-acc"), ("ac-lodo", "lodo-acc")):
                row = (name, f"{rule} − {reference}")
                cells += _lodo_cells(outcomes[rule], outcomes[reference], row, group.role)
    return table(
        "lodo-changes",
        "Leave-one-domain-out contrasts",
        ("hyperparameters", "contrast"),
        cells,
        note="By block: t intervals over blocks of seeds, each a mean over data set × algorithm "
        "cells, which weigh alike. Where hyperparameters are selected, a block is a trial: three "
        "give wide intervals. By held-out domain: every domain counts once.",
        signed=True,
    )


def _sharing_seeds(
    outcomes: Mapping[RunKey, Outcome], kept: Collection[RunKey], scope: str
) -> dict[RunKey, Outcome]:
    """The results on some runs, under keys whose seeds are those that runs share.

    Where hyperparameters are selected, that is the trial seed alone.
    """
    mine = {key: outcome for key, outcome in outcomes.items() if key in kept}
    if scope == "run":
        return mine
    return {replace(key, hparams_seed=0): outcome for key, outcome in mine.items()}


def _lodo_cells(
    of_rule: Mapping[RunKey, Outcome],
    of_reference: Mapping[RunKey, Outcome],
    row: tuple[str, ...],
    role: str,
) -> Iterator[Cell]:
    keys = sorted(of_rule.keys() & of_reference.keys())
    if not keys:
        return
    sides = (columns_over(of_rule, keys), columns_over(of_reference, keys))
    table = pair("rule", "reference", keys, HARD, *sides)
    blocks = seed_blocks(table)
    means = cluster_means(blocks, numbered(range(len(blocks)), "block"))
    low, high = means.interval()
    over = counted(len(blocks), "block")
    for k, c in enumerate(by_units(table, contrasts(table))):
        yield leading_cell(c, row, role)
        mean, *ends = (c.scale * float(of[k]) for of in (means.mean, low, high))
        yield Cell(row, c.metric + BY_BLOCK, mean, c.n, role, c.scale, ends[0], ends[1], over=over)
        yield from beside_cells(c, row, role)


def seed_blocks(table: Differences) -> FloatArray:
    """Differences [blocks, measures], as stored: means over held-out domains, then over cells.

    A block is a (hparams seed, trial seed); only those count that every data set × algorithm has.
    """
    blocks: dict[tuple[int, int], dict[tuple[str, str], list[FloatArray]]] = {}
    for key, change in zip(table.keys, table.of_rule - table.of_reference, strict=True):
        of_block = blocks.setdefault((key.hparams_seed, key.trial_seed), {})
        of_block.setdefault((key.dataset, key.algorithm), []).append(change)
    every = {cell for cells in blocks.values() for cell in cells}
    complete = [cells for _, cells in sorted(blocks.items()) if set(cells) == every]
    rows = [
        np.mean([np.mean(cells[cell], axis=0) for cell in sorted(cells)], axis=0)
        for cells in complete
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(table.metrics))


def _finite_mean(values: FloatArray) -> float:
    return mean_or_nan(values[np.isfinite(values)])


def _has_results(pool: Pool, name: str) -> bool:
    try:
        return bool(pool.outcomes(name))
    except InputError:
        return False
