"""Cross-fitted selection: one half of the validation examples forms Θ, the other half ranks it.

Choosing Θ and ranking inside it on the same examples could favour checkpoints that fit those
examples by chance. Halves swap roles, and results are averaged over the two choices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import METRICS, Logits, class_wise_gap, probabilities
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, select, select_many
from checkwise.store import layout, read_run
from checkwise.study import (
    Group,
    Method,
    Pool,
    Row,
    RunColumns,
    as_columns,
    columns_over,
    has_heldout,
    label,
    pair,
    read_heldout,
)
from checkwise.study.data import seed_hash
from checkwise.study.inference import risk_coverage
from checkwise.study.tables.means_and_changes import MAIN, mean_cell, mean_or_nan, paired_cells
from checkwise.study.tables.table import Cell, Table, table

SPLIT_SEED = 20260926

BoolArray = NDArray[np.bool_]
Pair = tuple[NDArray[np.float32], NDArray[np.int64]]


def crossfitted_steps(folder: Path, run: Trajectory, rule: str = "ac-nc") -> tuple[int, int]:
    """The choices of a rule with either half forming the feasible set.

    Needs source logits of every checkpoint that did not diverge.
    """
    steps = run.steps[~run.diverged].tolist()
    saved = {int(step): read_run(folder).predictions().logits(int(step)) for step in steps}
    first = {domain: _half(run.key, domain, len(y)) for domain, (_, y) in saved[steps[0]].items()}
    halves = []
    for side in (True, False):
        part = {
            step: {d: _rows(pair, first[d] == side) for d, pair in domains.items()}
            for step, domains in saved.items()
        }
        halves.append(Trajectory.from_predictions(part, **run.metric_settings))
    chosen = [
        select(_joined(filters, ranks, run.key), rule, guard=False).step
        for filters, ranks in (halves, halves[::-1])
    ]
    return chosen[0], chosen[1]


def available(folder: Path, run: Trajectory) -> bool:
    """Whether the source logits of every checkpoint were saved."""
    return read_run(folder).saved_at(run.steps[~run.diverged].tolist())


def _joined(filters: Trajectory, ranks: Trajectory, key: RunKey | None) -> Trajectory:
    """Accuracy of one half beside the reliability of the other."""
    return Trajectory(
        steps=filters.steps,
        domains=filters.domains,
        values={**ranks.values, "accuracy": filters.values["accuracy"]},
        counts=filters.counts,
        correct=filters.correct,
        key=key,
    )


def _half(key: RunKey | None, domain: str, n: int) -> BoolArray:
    """A random half of n examples, the same at every step of a run."""
    order = np.random.default_rng(seed_hash(SPLIT_SEED, str(key), domain)).permutation(n)
    return np.asarray(order < n // 2)


def _rows(pair: Pair, keep: BoolArray) -> Pair:
    logits, labels = pair
    return logits[keep], labels[keep]


def cross_fit(pool: Pool) -> Table:
    """ac-nc with Θ and ranking from different halves of the validation examples."""
    usual = pool.outcomes("ac-nc")
    fitted = {}
    for key in pool.keys:
        run, folder = pool.trajectory(key), pool.folder(key)
        if available(folder, run):
            steps = crossfitted_steps(folder, run)
            fitted[key] = pool.at_steps(replace(usual[key], steps=steps))
    keep = np.array([key in fitted for key in pool.keys])
    columns = columns_over(fitted, pool.keys)
    cells: list[Cell] = []
    for group in pool.by_role() if fitted else ():
        for reference in ("source-acc", "ac-nc"):
            row = f"cross-fitted ac-nc − {reference}"
            of_reference = pool.columns(reference)
            changes = pair(row, reference, pool.keys, MAIN, columns, of_reference)
            cells += paired_cells(changes.among(group.keep & keep), (row,), group.role)
    return table(
        "cross-fit",
        "Θ from one half of the validation examples, ranking from the other, both ways",
        ("contrast",),
        cells,
        note="Only runs with saved source logits. Θ from half the examples is noisier.",
        signed=True,
    )


FloatArray = NDArray[np.float64]
Among = Literal["all", "feasible"]


def oracle(pool: Pool, metric: str, among: Among = "all") -> FloatArray:
    """The best target value of any checkpoint, or of any feasible one, per run (fractions)."""
    runs = {key: pool.trajectory(key) for key in pool.keys}
    selections = select_many(runs, "ac-nc", guard=False) if among == "feasible" else {}
    best = np.full(len(pool), np.nan)
    higher = METRICS[metric].direction == "higher"
    for i, key in enumerate(pool.keys):
        values = pool.target(key)[metric]
        values = values[selections[key].ranking.eligible] if among == "feasible" else values
        values = values[np.isfinite(values)]
        if len(values):
            best[i] = values.max() if higher else values.min()
    return best


def regret(pool: Pool, rule: Row, metric: str, among: Among = "all") -> FloatArray:
    """How far the rule's choice falls short of the oracle's, per run (fractions).

    It is negative only where the rule chose outside of what the oracle looked at.

    Args:
        pool: the runs.
        rule: whose choices.
        metric: ``nll``, ``accuracy`` …, on the target.
        among: the oracle looks at all checkpoints, or at the feasible ones only.
    """
    chosen, best = pool.columns(rule)[f"target_{metric}"], oracle(pool, metric, among)
    return best - chosen if METRICS[metric].direction == "higher" else chosen - best


def regrets(pool: Pool) -> Table:
    """Mean shortfall to the best checkpoint in hindsight."""
    rules: tuple[Row, ...] = ("source-acc", "ac-nc", "ac-mean", "pure-nll")
    oracles: tuple[tuple[str, Among], ...] = (("any checkpoint", "all"), ("in Θ", "feasible"))
    groups = [
        *pool.groups(["dataset"]),
        *(Group(("all",), group.role, group.keep) for group in pool.by_role()),
    ]
    cells = []
    for measure in MAIN:
        metric = measure.removeprefix("target_")
        for name, among in oracles:
            for rule in rules:
                shortfall = regret(pool, rule, metric, among)
                for group in groups:
                    values = shortfall[group.keep & np.isfinite(shortfall)]
                    mean = mean_or_nan(values)
                    row = (*group.labels, name, label(rule))
                    factor = METRICS[metric].scale
                    n = len(values)
                    cells.append(
                        Cell(row, f"regret_{metric}", factor * mean, n, group.role, factor)
                    )
                    if metric == "nll":
                        median = float(np.median(values)) if n else float("nan")
                        cells.append(Cell(row, "regret_nll_median", median, n, group.role))
    return table(
        "regret",
        "Shortfall to the best checkpoint in hindsight (not deployable: it looks at the target)",
        ("dataset", "oracle", "rule"),
        cells,
        note="pure-nll may lie outside Θ, and then its shortfall to the best in Θ can be negative.",
    )


def part_of(run: Trajectory, keep: NDArray[np.bool_], metrics: Collection[str]) -> Trajectory:
    """The marked checkpoints of a run, with its accuracy and those of the metrics that it has."""
    wanted = {"accuracy", *metrics}
    return replace(
        run,
        steps=run.steps[keep],
        values={name: values[keep] for name, values in run.values.items() if name in wanted},
        pooled={name: values[keep] for name, values in run.pooled.items() if name in wanted},
        correct=None if run.correct is None else run.correct[keep],
        diverged=run.diverged[keep],
        paths=None,
        examples=None if run.examples is None else run.examples.subset(run.steps[keep].tolist()),
    )


def columns_of(pool: Pool, selections: Mapping[RunKey, Selection]) -> RunColumns:
    """Choices with the held-out results at their steps, as columns like those of a rule.

    ``step``, ``eligible``, ``gap_pp`` and ``target_<metric>`` (fractions); nan for a run without a
    choice.
    """
    return as_columns(
        [_row(pool, selections[key]) if key in selections else {} for key in pool.keys]
    )


def _row(pool: Pool, selection: Selection) -> dict[str, Any]:
    key = selection.run
    assert key is not None  # the runs of a cohort have keys
    at = int(np.searchsorted(pool.trajectory(key).steps, selection.step))
    return {
        "step": selection.step,
        "eligible": int(selection.ranking.eligible.sum()),
        "gap_pp": selection.gap_pp,
        **{f"target_{name}": values[at] for name, values in pool.target(key).items()},
    }


COVERAGES = (1.0, 0.8, 0.5)


def risk_coverages(pool: Pool) -> Table:
    """Error rate at equal coverage and the area under the curve, means over runs."""
    both = (pool.reference, pool.rule)
    curves = {row.label: [_curve(pool, row, i) for i in range(len(pool))] for row in both}
    cells = []
    for group in pool.groups(["dataset"]):
        at = [
            i
            for i in np.flatnonzero(group.keep).tolist()
            if all(curve[i] is not None for curve in curves.values())
        ]
        for rule, curve in curves.items():
            rows = [curve[i] or {} for i in at]
            for measure in rows[0] if rows else ():
                mean = 100 * float(np.mean([row[measure] for row in rows]))
                row = (*group.labels, rule)
                cells.append(Cell(row, measure, mean, len(rows), group.role, 100))
        if at:
            keys = [pool.keys[i] for i in at]
            cells += _changes(curves, at, keys, group, pool.contrast)
    return table(
        "risk-coverage",
        "Target error rate among the most confident predictions, means over runs",
        ("dataset", "rule"),
        cells,
        note="Only runs with saved held-out logits at both choices.",
    )


def _curve(pool: Pool, rule: Method, i: int) -> dict[str, float] | None:
    key = pool.keys[i]
    step, folder = pool.columns(rule)["step"][i], pool.folder(key)
    if not all(has_heldout(folder, domain, int(step)) for domain in key.held_out):
        return None
    curves = []
    for domain in key.held_out:
        examples = read_heldout(folder, domain, int(step)).examples
        curves.append(risk_coverage(examples.confidence, examples.correct))
    return {
        "risk_area": float(np.mean([curve.area for curve in curves])),
        **{
            f"risk_{100 * c:.0f}": float(np.mean([curve.at(c) for curve in curves]))
            for c in COVERAGES
        },
    }


def _changes(
    curves: Mapping[str, list[dict[str, float] | None]],
    at: list[int],
    keys: Sequence[RunKey],
    group: Group,
    contrast: str,
) -> list[Cell]:
    reference, rule = ([curve[i] or {} for i in at] for curve in curves.values())
    names = list(rule[0])
    values = np.array(
        [
            [100 * (after[name] - before[name]) for name in names]
            for before, after in zip(reference, rule, strict=True)
        ]
    )
    row = (*group.labels, contrast)
    return [
        mean_cell(row, name, values[:, k], keys, group.role, 100) for k, name in enumerate(names)
    ]


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
    logits = read_run(folder).predictions().logits(int(run.steps[t]))
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
        if read_run(folder).saved_at(run.steps[feasible].tolist()):
            measured[key] = rebinned(folder, run, feasible)
    return measured
