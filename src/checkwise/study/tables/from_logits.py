"""Tables that read saved logits: halves of validation, risk at equal coverage, other bins.

Choosing Θ and ranking inside it on the same examples could favour checkpoints that fit those
examples by chance. So one half of the validation examples forms Θ and the other half ranks it;
halves swap roles, and results are averaged over the two choices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkwise import metrics
from checkwise.errors import InputError
from checkwise.metrics import Logits, class_wise_gap, probabilities
from checkwise.records import RunKey, Trajectory
from checkwise.selection import Selection, select, select_many
from checkwise.store import read_run, source_predictions_file
from checkwise.study import (
    Method,
    Pool,
    RunColumns,
    as_columns,
    columns_over,
    marked,
    pair,
    read_heldout,
)
from checkwise.study.data import seed_hash
from checkwise.study.folder import has_sealed_logits
from checkwise.study.inference import risk_coverage
from checkwise.study.tables.cells import MAIN, mean_cell, paired_cells
from checkwise.study.tables.table import Cell, plain_cells

SPLIT_SEED = 20260926
COVERAGES = (1.0, 0.8, 0.5)
REFERENCES = ("ac-nc", "source-acc")

USUAL: Final = (15, 0.1)  # B and h
OTHERS: Final = ((10, 0.1), (30, 0.1), (15, 0.05), (15, 0.2))
SOFT: Final = {f"B = {b}, h = {h:g}": (b, h) for b, h in (USUAL, *OTHERS)}
HARD: Final = f"{USUAL[0]} hard bins"
DEBIASED: Final = f"{USUAL[0]} hard bins, debiased"
VARIANTS: Final = (*SOFT, HARD, DEBIASED)
# What other builds of the metrics may differ by; the same build repeats itself to 1e-9 or better.
RELATIVE: Final = 1e-5
ABSOLUTE: Final = 1e-6

BoolArray = NDArray[np.bool_]


def available(folder: Path, run: Trajectory) -> bool:
    return read_run(folder).saved_at(run.steps[~run.diverged].tolist())


def crossfitted_steps(folder: Path, run: Trajectory, rule: str = "ac-nc") -> tuple[int, int]:
    """The choices of a rule with either half forming the feasible set."""
    steps = run.steps[~run.diverged].tolist()
    saved = {int(step): read_run(folder).predictions().logits(int(step)) for step in steps}
    first = {domain: _half(run.key, domain, len(y)) for domain, (_, y) in saved[steps[0]].items()}
    halves = []
    for side in (True, False):
        part = {
            step: {d: (z[first[d] == side], y[first[d] == side]) for d, (z, y) in domains.items()}
            for step, domains in saved.items()
        }
        halves.append(Trajectory.from_predictions(part, **run.metric_settings))
    chosen = [
        select(_joined(filters, ranks, run.key), rule, guard=False).step
        for filters, ranks in (halves, halves[::-1])
    ]
    return chosen[0], chosen[1]


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


def cross_fit(pool: Pool) -> Iterator[Cell]:
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
    for group in pool.by_role() if fitted else ():
        for reference in REFERENCES[::-1]:
            row = f"cross-fitted ac-nc − {reference}"
            changes = pair(row, reference, pool.keys, MAIN, columns, pool.columns(reference))
            yield from paired_cells(changes.among(group.keep & keep), (row,), group.role)


def part_of(run: Trajectory, keep: BoolArray, metrics: Collection[str]) -> Trajectory:
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
    """Choices with the held-out results at their steps, as columns like those of a rule."""

    def row(key: RunKey) -> dict[str, Any]:
        if key not in selections:
            return {}
        chosen = selections[key]
        at = int(np.searchsorted(pool.trajectory(key).steps, chosen.step))
        return {
            "step": chosen.step,
            "eligible": int(chosen.ranking.eligible.sum()),
            "gap_pp": chosen.gap_pp,
            **{f"target_{name}": values[at] for name, values in pool.target(key).items()},
        }

    return as_columns([row(key) for key in pool.keys])


def risk_coverages(pool: Pool) -> Iterator[Cell]:
    reference, rule = (
        {key: _curve(pool, row, key) for key in pool.keys} for row in (pool.reference, pool.rule)
    )
    for group in pool.groups(["dataset"]):
        keys = [k for k in marked(pool.keys, group.keep) if reference[k] and rule[k]]
        if not keys:
            continue
        sides = [np.array([list(side[k].values()) for k in keys]) for side in (reference, rule)]
        names = list(rule[keys[0]])
        for row, values in zip((pool.reference, pool.rule), sides, strict=True):
            risks = zip(names, values.T, strict=True)
            means = {name: 100 * float(np.mean(risk.tolist())) for name, risk in risks}
            labels = (*group.labels, row.label)
            yield from plain_cells(labels, means, len(keys), group.role, 100)
        for name, change in zip(names, (100 * (sides[1] - sides[0])).T, strict=True):
            labels = (*group.labels, pool.contrast)
            yield mean_cell(labels, name, change, keys, group.role, 100)


def _curve(pool: Pool, rule: Method, key: RunKey) -> dict[str, float]:
    """Risks of a rule's choice in a run; empty without its held-out logits."""
    folder, step = pool.folder(key), int(pool.columns(rule)["step"][pool.keys.index(key)])
    if not all(has_sealed_logits(folder, domain, step) for domain in key.held_out):
        return {}
    examples = [read_heldout(folder, domain, step).examples for domain in key.held_out]
    curves = [risk_coverage(of.confidence, of.correct) for of in examples]
    at = {f"risk_{100 * c:.0f}": np.mean([curve.at(c) for curve in curves]) for c in COVERAGES}
    area = np.mean([curve.area for curve in curves])
    return {name: float(risk) for name, risk in {"risk_area": area, **at}.items()}


def binning(pool: Pool) -> Iterator[Cell]:
    """ac-nc with class-wise errors of other settings − ac-nc as recorded, and − source-acc."""
    runs = {
        key: rebinned(pool.folder(key), pool.trajectory(key), feasible)
        for key, feasible in _with_logits(pool).items()
    }
    keep = np.array([key in runs for key in pool.keys])
    for variant in VARIANTS if runs else ():
        ranked: dict[str, Any] = {"objectives": ("nll", variant), "directions": {variant: "lower"}}
        of_variant = columns_of(pool, select_many(runs, "ac", guard=False, **ranked))
        for group in pool.by_role():
            used = group.keep & keep
            for reference in REFERENCES:
                of_reference, row = pool.columns(reference), (variant, reference)
                moved = (of_variant["step"] != of_reference["step"])[used]
                yield Cell(row, "choices_changed", float(moved.sum()), len(moved), group.role)
                changes = pair(variant, reference, pool.keys, MAIN, of_variant, of_reference)
                yield from paired_cells(changes.among(used), row, group.role)


def about_binning(pool: Pool) -> str:
    """How many runs have what it needs, and what the errors are."""
    return (
        f"{len(_with_logits(pool))} of {len(pool)} runs have the source logits of every feasible "
        "checkpoint. The reference ac-nc is ranked by the recorded CwECE, and target results are "
        "the recorded ones. Hard bins: absolute gaps, frequent classes weigh more; debiased: "
        "squared gaps less their share of chance, classes weigh alike."
    )


def _with_logits(pool: Pool) -> dict[RunKey, BoolArray]:
    """Runs with saved logits of their feasible checkpoints, all that ac-nc compares; and those."""
    feasible = {key: one.ranking.eligible for key, one in pool.selections("ac-nc").items()}
    return {
        key: keep
        for key, keep in feasible.items()
        if read_run(pool.folder(key)).saved_at(pool.trajectory(key).steps[keep].tolist())
    }


def rebinned(folder: Path, run: Trajectory, keep: BoolArray) -> Trajectory:
    """The marked checkpoints with NLL and one class-wise error per variant, by its name."""
    recorded = part_of(run, keep, ("nll", "cwece"))
    remeasured = []
    for t in range(len(recorded)):
        logits = read_run(folder).predictions().logits(int(recorded.steps[t]))
        if set(logits) != set(run.domains):
            raise _foreign(folder, recorded, t, f"domains {', '.join(logits)}")
        domains = range(len(run.domains))
        remeasured.append([_errors(folder, recorded, t, e, logits) for e in domains])
    values = {
        name: np.array([[domain[name] for domain in domains] for domains in remeasured])
        for name in ("nll", *VARIANTS)
    }
    part = part_of(run, keep, ())
    return replace(part, values={"accuracy": part.values["accuracy"], **values})


def _errors(folder: Path, run: Trajectory, t: int, e: int, logits: Logits) -> dict[str, float]:
    z, y = logits[run.domains[e]]
    setting = (run.bins or USUAL[0], run.bandwidth or USUAL[1])
    reports = {
        (bins, bandwidth): metrics.evaluate(logits=z, labels=y, bins=bins, bandwidth=bandwidth)
        for bins, bandwidth in dict.fromkeys((*SOFT.values(), setting))
    }
    if disagreement := _disagreement(run, t, e, reports[setting]):
        raise _foreign(folder, run, t, disagreement)
    return {
        "nll": reports[USUAL].nll,
        **{name: reports[bins_and_width].cwece for name, bins_and_width in SOFT.items()},
        HARD: reports[USUAL].hard_cwece,
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
        f"{what} in {folder / source_predictions_file(step)}: "
        "`checkwise study status --verify` says what to do.",
        code="damaged",
    )
