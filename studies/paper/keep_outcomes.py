"""Compute what every recipe gives on every run of a cohort, where its weights and logits lie.

    python -m studies.paper.keep_outcomes COHORT... [--data NAME=PATH]

Averages are made first if they are missing. Recipes that were kept before are kept, if the
journals are still the same. Held-out results are opened: register before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkwise.calibrators import TS_LIMIT
from checkwise.errors import MissingMetricError
from checkwise.records import RunKey, Trajectory
from checkwise.selection import select
from checkwise.study import Cohort, Method, Outcome, Pool, Predictions, Targets
from checkwise.study.baselines import OpenRuns, derive
from checkwise.study.figures import count_confident_errors, count_shared_errors
from checkwise.study.folder import open_cohort
from checkwise.study.tables import inside_feasible
from studies.paper import saved_outputs
from studies.paper.kept_tables import fingerprint
from studies.paper.outcomes import HARD, METRICS, file_of, keep, record_of
from studies.paper.recipes import JOURNALS_ONLY, of_cohort

BESIDE = ("source_accuracy", "source_nll", "step", "temperature")
WITH_HARD = ("source-acc", "ac-nc", "lodo-acc", "ac-lodo")
DECIMALS = 7
REFERENCE, RULE, ORACLE = "source-acc", "ac-nc", "source-acc+ts-oracle"
CONFIDENT = ("confident_errors", "confident_share")  # of predictions with confidence ≥ 0.9
SHARED = ("shared_errors_raised", "shared_errors_lowered")  # where the two choices differ
RANKS = (  # inside the feasible set
    *("accuracy_rho", "utility_rho", "utility_given_step"),
    *("nll_rho", "nll_given_step", "nll_by_step"),
)
Values = dict[str, dict[str, list[Any]]]


def compute(folder: Path, roots: Mapping[str, str]) -> dict[str, Any]:
    """Every recipe on every run that has it."""
    cohort = Cohort.open(folder)
    name, keys, journals = cohort.name, sorted(cohort.usable), fingerprint(folder)
    rows, before = of_cohort(name), _before(name, journals)
    values: Values = {}
    opening = saved_outputs.opening(folder, roots)
    for title, row in rows.items():
        values[title] = before.get(title) or _row(cohort, row, title, keys, opening)
        print(f"{name}: {title}", flush=True)
    if not set(RANKS) <= set(values[RULE]):
        _add_ranks(values[RULE], cohort, keys)
    if name not in JOURNALS_ONLY and CONFIDENT[0] not in values[RULE]:
        values[REFERENCE]["errors"] = [_errors(cohort.usable[key]) for key in keys]
        values[ORACLE]["temperature"] = [_best_temperature(folder, cohort, key) for key in keys]
        _add_predictions(values, folder, cohort, keys)
    return {
        "cohort": name,
        "role": cohort.role,
        "journals": journals,
        "trained": _trained(folder, cohort),
        "runs": [key.as_dict() for key in keys],
        "values": values,
    }


def _trained(folder: Path, cohort: Cohort) -> dict[str, Any]:
    """What was trained; the time of a run is that between its first file and its last."""
    runs = open_cohort(folder).runs.values()
    ends = [[(run / name).stat().st_mtime for name in ("run.json", "done")] for run in runs]
    seconds = [round(last - first) for first, last in ends]
    return {
        "runs": len(cohort.runs),
        "records": sum(len(run.steps) for run in cohort.usable.values()),
        "diverged_records": cohort.n_diverged,
        "runs_lost": len(cohort.wrecked),
        "seconds": seconds,
        "median_seconds": round(float(np.median(seconds))),
        "wall_minutes": round((max(map(max, ends)) - min(map(min, ends))) / 60),
    }


def _before(name: str, journals: str) -> Values:
    if not file_of(name).exists():
        return {}
    record = record_of(name)
    return record["values"] if record["journals"] == journals else {}


def _row(
    cohort: Cohort, row: Method, name: str, keys: Sequence[RunKey], opening: OpenRuns
) -> dict[str, list[Any]]:
    if row.recipe is not None:
        derive(cohort.path, row.name, row.recipe, opening=opening)
    outcomes = {each.key: each for each in _outcomes(cohort, row)}
    # Of a second validation set the row of a run holds no results: those of the first mislead.
    beside = BESIDE if row.split is None else [c for c in BESIDE if not c.startswith("source_")]
    columns = (*METRICS, *(HARD if name in WITH_HARD else ()), *beside)
    found = {column: [_value(outcomes.get(key), column) for key in keys] for column in columns}
    return {column: v for column, v in found.items() if any(x is not None for x in v)}


def _outcomes(cohort: Cohort, row: Method) -> Iterable[Outcome]:
    try:
        return cohort.outcomes(row, held_out=True)
    except MissingMetricError:  # pair- rows have nothing to read where an algorithm has no penalty
        return ()


def _value(outcome: Outcome | None, column: str) -> float | None:
    if outcome is None:
        return None
    if column == "temperature":
        value = None if outcome.calibration is None else outcome.calibration.temperature
    else:
        value = outcome.row.get(column)
    return None if value is None else _kept(value)


def _kept(value: float) -> float | None:
    return round(float(value), DECIMALS) if np.isfinite(value) else None


def _best_temperature(folder: Path, cohort: Cohort, key: RunKey) -> float | None:
    """What is best on the target itself, for the choice of source-acc."""
    targets = Targets(open_cohort(folder).runs[key], key.held_out)
    step = select(cohort.usable[key], REFERENCE, guard=False).step
    logits = {k: v for name in key.held_out for k, v in targets.logits(name, step).items()}
    fitted = TS_LIMIT.fit(logits, force=True)
    return None if fitted.temperature is None else _kept(fitted.temperature)


def _errors(run: Trajectory) -> int | None:
    """Validation errors at the best checkpoint."""
    state = select(run, REFERENCE, guard=False).saturation
    return None if state is None else state.errors


def _add_ranks(row: dict[str, list[Any]], cohort: Cohort, keys: Sequence[RunKey]) -> None:
    """How well source reliability orders the feasible checkpoints on the target."""
    ranks = inside_feasible(Pool([cohort]))
    for name in RANKS:
        row[name] = [_kept(getattr(ranks[key], name)) for key in keys]


def _add_predictions(values: Values, folder: Path, cohort: Cohort, keys: Sequence[RunKey]) -> None:
    """What two choices do with single examples: confident errors, and errors that they share."""
    runs = open_cohort(folder).runs
    for rule in (REFERENCE, RULE):
        values[rule].update({column: [] for column in CONFIDENT})
    values[RULE].update({column: [] for column in SHARED})
    for key in keys:
        targets = Targets(runs[key], key.held_out)
        both = {rule: _predicted(targets, cohort, key, rule) for rule in (REFERENCE, RULE)}
        for rule, one in zip(both, count_confident_errors(both), strict=True):
            for column, value in zip(CONFIDENT, (one.rate, one.coverage), strict=True):
                values[rule][column].append(_kept(value))
        wrong = count_shared_errors(both[REFERENCE], both[RULE])
        shares = (wrong.share_raised(), wrong.share_lowered())
        differ = both[REFERENCE].step != both[RULE].step and wrong.shared > 0
        for column, value in zip(SHARED, shares, strict=True):
            values[RULE][column].append(_kept(value) if differ else None)


def _predicted(targets: Targets, cohort: Cohort, key: RunKey, rule: str) -> Predictions:
    """The choice of a rule on every held-out example."""
    step = select(cohort.usable[key], rule, guard=False).step
    pairs = [targets.logits(name, step)[name] for name in key.held_out]
    logits, labels = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return Predictions(step, "+".join(key.held_out), logits, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohorts", nargs="+", type=Path)
    parser.add_argument("--data", action="append", default=[])
    asked = parser.parse_args()
    roots = dict(item.split("=", 1) for item in asked.data)
    for cohort in asked.cohorts:
        keep(compute(cohort, roots))


if __name__ == "__main__":
    main()
