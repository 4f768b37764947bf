"""Methods beyond choosing a checkpoint: averaging, recalibration, other validation protocols.

Each table needs results that are made first (`checkwise study derive`, saved logits, VREx's
training terms); without them it is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from checkwise.errors import InputError
from checkwise.records import RunKey
from checkwise.study import (
    Differences,
    FloatArray,
    Group,
    Outcome,
    Pool,
    columns_over,
    contrasts,
    marked,
    pair,
    scale,
)
from checkwise.study.inference import cluster_means, numbered
from checkwise.study.tables.cells import MAIN, beside_cells, leading_cell, mean_or_nan, means
from checkwise.study.tables.table import Cell
from checkwise.study.tables.typeset import BY_BLOCK
from checkwise.words import counted

HARD = ("target_accuracy", "target_nll", "target_hard_ece", "target_hard_cwece")
AVERAGED = ("swad", "swad-nobn", "swad-as-described")
SCALED = ("source-acc", "source-acc+ts", "ac-nc", "ac-nc+ts")
HUGE_NLL = 100.0


def swad(pool: Pool) -> Iterator[Cell]:
    present = [name for name in AVERAGED if _has_results(pool, name)]
    if not present:
        pool.outcomes(AVERAGED[0])  # the error names what is missing
    rules, groups = ("source-acc", "ac-nc", *present), pool.groups(["dataset"])
    yield from means(pool, rules, MAIN, groups)
    for group in groups:
        for rule in rules:
            nll = pool.columns(rule)["target_nll"][group.keep]
            nll = nll[np.isfinite(nll)]
            row, count = (*group.labels, rule), float((nll > HUGE_NLL).sum())
            yield Cell(row, "nll_above_100", count, len(nll), group.role)


def _has_results(pool: Pool, name: str) -> bool:
    try:
        return bool(pool.outcomes(name))
    except InputError:
        return False


def temperature(pool: Pool) -> Iterator[Cell]:
    """Source-fitted temperature scaling; data set × algorithm cells weigh equally."""
    columns = {rule: pool.columns(rule) for rule in SCALED}
    for role in pool.by_role():
        groups = [g.keep & role.keep for g in pool.groups(["dataset", "algorithm"])]
        groups = [keep for keep in groups if keep.any()]
        by_cell = {
            (rule, m): [_finite_mean(columns[rule][m][keep]) for keep in groups]
            for rule in SCALED
            for m in MAIN
        }
        for (rule, measure), found in by_cell.items():
            mean, n = scale(measure) * float(np.mean(found)), int(role.keep.sum())
            yield Cell((rule,), measure, mean, n, role.role, scale(measure))
            if rule.endswith("+ts") and measure != "target_accuracy":
                before = by_cell[rule.removesuffix("+ts"), measure]
                better = sum(after < b for b, after in zip(before, found, strict=True))
                name = measure.replace("target_", "improved_")
                yield Cell((rule,), name, better, len(groups), role.role, unit="cells")


def _finite_mean(values: FloatArray) -> float:
    return mean_or_nan(values[np.isfinite(values)])


def penalised_runs(pool: Pool) -> list[Group]:
    """The runs of VREx, by data set: PAIR's selection needs its penalty."""
    vrex = [g for g in pool.groups(["dataset", "algorithm"]) if g.labels[1] == "VREx"]
    if not vrex:
        raise InputError(
            "Expected runs of VREx, but there are none: PAIR needs its penalty.", code="unsupported"
        )
    return vrex


def with_inner_runs(pool: Pool) -> list[Group]:
    """Algorithms and data sets that were validated on domains left out."""
    inner = pool.outcomes("lodo-acc").keys()
    groups = pool.groups(["algorithm", "dataset"])
    return [g for g in groups if not inner.isdisjoint(marked(pool.keys, g.keep))]


def lodo_changes(pool: Pool) -> Iterator[Cell]:
    """Contrasts in both scopes, per role: paired differences, and beside them by block of seeds."""
    for group in pool.by_role():
        kept = set(marked(pool.keys, group.keep))
        for scope, name in (("run", "fixed"), ("hparams-acc", "selected")):
            outcomes = {}
            for rule in ("ac-nc", "ac-lodo", "lodo-acc"):
                mine = {k: one for k, one in pool.outcomes(rule, scope=scope).items() if k in kept}
                # Where hyperparameters are selected, runs share the trial seed alone.
                outcomes[rule] = (
                    mine
                    if scope == "run"
                    else {replace(key, hparams_seed=0): one for key, one in mine.items()}
                )
            for rule in ("ac-nc", "ac-lodo"):
                row = (name, f"{rule} − lodo-acc")
                yield from _lodo_cells(outcomes[rule], outcomes["lodo-acc"], row, group.role)


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
    found = cluster_means(blocks, numbered(range(len(blocks)), "block"))
    low, high = found.interval()
    over = counted(len(blocks), "block")
    for k, c in enumerate(contrasts(table)):
        yield leading_cell(c, row, role)
        mean, *ends = (c.scale * float(of[k]) for of in (found.mean, low, high))
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
    rows = [
        np.mean([np.mean(cells[cell], axis=0) for cell in sorted(cells)], axis=0)
        for _, cells in sorted(blocks.items())
        if set(cells) == every
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(table.metrics))
