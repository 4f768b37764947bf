"""What rules may look at besides a run's own source validation, and the rules that do.

- ``lodo``: inner runs on the domains they left out; see ``lodo``.
- ``training terms``: logged training losses and penalties of VREx and IRM, for PAIR.
- ``recalibrated``: source validation with the ECE of candidates after calibrating each.
- ``refined``: source validation with the NLL that is left after calibrating each checkpoint.

PAIR: after Chen et al. (2023), who score a model by a preference over its objectives. Here the
objectives of a checkpoint are the means, over the updates since the last record, of the
cross-entropy (``nll``) and of the penalty before its weight. The score, smaller is better, is

    loss_weight · nll + |penalty|

with loss_weight = 1e-6, as released: the preference leans to the penalty. The absolute value is
there because IRM's estimate of a squared gradient can be negative.

- ``pair-last10``: among the last ten records, those whose score lies in the best tenth of the run's
  score range; of these the highest validation accuracy. Where none of the ten does, the filter is
  dropped and the highest validation accuracy of the ten is taken.
- ``pair-valfilter``: among the records within ``delta_pp`` points of the best validation accuracy
  (the feasible set of the ac- rules), the best score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkwise.calibrators import TS, Calibrator, get_calibrator
from checkwise.errors import InputError
from checkwise.metrics import Logits
from checkwise.records import REFINED, RunKey, Trajectory, with_refined
from checkwise.selection import (
    DELTA_PP,
    Choice,
    Columns,
    Points,
    Ranking,
    Rule,
    accuracy_constrained,
    get_rule,
    wald,
)
from checkwise.store import SOURCE_FILE, read_records
from checkwise.study.lodo import lodo_trajectories
from checkwise.study.runs import Runs

if TYPE_CHECKING:
    from checkwise.study.method_table import Method

Validation: TypeAlias = Literal["source", "lodo", "training terms", "recalibrated", "refined"]
ALGORITHMS = ("VREx", "IRM")
LOSS, PENALTY = "train_nll", "train_penalty"
LAST = 10
TOP = 0.1


def with_training_terms(run: Trajectory, folder: Path) -> Trajectory:
    """The run with logged loss and penalty as columns; where they are not finite it diverged."""
    records = read_records(Path(folder), SOURCE_FILE)
    terms = [record.get("train") or {} for record in records]
    if not all("penalty" in term and "nll" in term for term in terms):
        raise InputError(
            f"Expected the loss and penalty of every update, but got none in {folder}: PAIR needs "
            f"runs of {' or '.join(ALGORITHMS)} that checkwise trained.",
            code="missing",
        )
    loss = np.array([_number(term["nll"]) for term in terms])
    penalty = np.array([_number(term["penalty"]) for term in terms])
    infinite = ~(np.isfinite(loss) & np.isfinite(penalty))
    pooled = {**run.pooled, LOSS: loss, PENALTY: penalty}
    return replace(run, pooled=pooled, diverged=run.diverged | infinite)


def preference_score(table: Columns, loss_weight: float) -> NDArray[np.float64]:
    """loss_weight · nll + |penalty|."""
    return np.asarray(loss_weight * table[LOSS] + np.abs(table[PENALTY]))


def last10(table: Columns, *, loss_weight: float = 1e-6) -> Ranking:
    """Highest validation accuracy among the last ten records with a score near the run's best."""
    score, usable = preference_score(table, loss_weight), ~table["diverged"]
    best, worst = score[usable].min(), score[usable].max()
    late = np.zeros(len(score), dtype=bool)
    late[np.flatnonzero(usable)[-LAST:]] = True
    near = late & (score <= best + TOP * (worst - best))
    return Ranking(table["order"].astype(np.float64), near if near.any() else late)


def valfilter(table: Columns, *, loss_weight: float = 1e-6, delta_pp: Points = DELTA_PP) -> Ranking:
    """Best score among the records within ``delta_pp`` of the best validation accuracy."""
    return Ranking(preference_score(table, loss_weight), table.within(delta_pp))


PAIR_LAST10 = Rule(
    "pair-last10",
    "low penalty among the last ten, highest accuracy (VREx, IRM)",
    last10,
    needs=(LOSS, PENALTY),
    stackable=False,
)
PAIR_VALFILTER = Rule(
    "pair-valfilter",
    "near the best accuracy, lowest penalty (VREx, IRM)",
    valfilter,
    needs=(LOSS, PENALTY),
    stackable=False,
)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def wald_recalibrated(
    table: Columns, *, threshold_pp: Points | None = None, delta_pp: Points = DELTA_PP
) -> Ranking:
    """The lowest mean source ECE, after recalibration, among accurate checkpoints."""
    if threshold_pp is not None:
        return wald(table, threshold_pp=threshold_pp)
    return Ranking(table.error("ece"), table.within(delta_pp))


WALD_RECALIBRATED = Rule(
    "wald-recalibrated",
    "smallest ece after scaling each accurate checkpoint",
    wald_recalibrated,
    needs=("ece",),
    stackable=False,
)
WALD_ISOTONIC = replace(
    WALD_RECALIBRATED,
    name="wald-isotonic",
    summary="smallest ece after isotonic regression on each accurate checkpoint",
)


def with_recalibrated_ece(
    run: Trajectory,
    logits_at: Callable[[int], Logits],
    choice: Choice | None = None,
    *,
    calibrator: Calibrator = TS,
    threshold_pp: Points | None = None,
    delta_pp: Points = DELTA_PP,
) -> Trajectory:
    """The run with the ECE of every candidate as it is after calibration; others keep theirs."""
    candidates = wald_recalibrated(
        Columns.of(run, choice), threshold_pp=threshold_pp, delta_pp=delta_pp
    ).eligible
    ece = run.values["ece"].copy()
    for t in candidates.nonzero()[0].tolist():
        logits = logits_at(int(run.steps[t]))
        after = calibrator.fit(logits, force=True).metrics(logits, **run.metric_settings)
        ece[t] = [after[domain]["ece"] for domain in run.domains]
    return replace(run, values={**run.values, "ece": ece})


def _smallest_refined(table: Columns) -> Ranking:
    """The smallest NLL after calibration over the whole run, whatever the accuracy."""
    return Ranking(table.error(REFINED), ~table["diverged"])


REFINE = Rule(
    "refine",
    "smallest NLL after each checkpoint's own temperature, which it is deployed with",
    _smallest_refined,
    needs=(REFINED,),
    needs_accuracy=False,
)
AC_REFINE = Rule(
    "ac-refine",
    "within delta_pp of the best accuracy, then as refine",
    partial(accuracy_constrained, objectives=(REFINED,)),
    needs=(REFINED,),
    constrained=True,
)

_HARD = ("nll", "hard_cwece")
LODO_ACC = replace(
    get_rule("source-acc"),
    name="lodo-acc",
    summary="highest accuracy of inner runs on domains left out",
)
AC_LODO = Rule(
    "ac-lodo",
    "near that, nearest to the best nll and hard_cwece on them",
    partial(accuracy_constrained, objectives=_HARD),
    needs=_HARD,
)


def validation_of(
    method: Method, path: Path, runs: Runs, choice: Choice
) -> Mapping[RunKey, Trajectory]:
    """The trajectories that a method's rule chooses from, for the usable runs of a cohort."""
    assert method.rule is not None
    if method.validation == "source":
        return runs.usable
    if method.validation == "lodo":
        return lodo_trajectories(path, runs.usable, runs.folder)
    if method.validation == "training terms":
        return _with_terms(path, runs, method.rule)
    logits_of = {key: partial(runs.logits, key) for key in runs.usable}
    if method.validation == "refined":
        return {
            key: with_refined(run, logits_of[key], groups=runs.groups(key))
            for key, run in runs.usable.items()
        }
    assert method.calibrator is not None
    calibrator = get_calibrator(method.calibrator)
    return {
        key: with_recalibrated_ece(
            run, logits_of[key], choice, calibrator=calibrator, **method.params
        )
        for key, run in runs.usable.items()
    }


def _with_terms(path: Path, runs: Runs, rule: Rule) -> dict[RunKey, Trajectory]:
    trajectories = {
        key: with_training_terms(run, runs.folder(key))
        for key, run in runs.usable.items()
        if key.algorithm in ALGORITHMS
    }
    if not trajectories:
        raise InputError(
            f"Expected runs of {' or '.join(ALGORITHMS)} for {rule.name}, but {path} has none: it "
            "needs a penalty in the training log.",
            code="unsupported",
        )
    return trajectories
