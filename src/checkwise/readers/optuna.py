"""Optuna's studies, as sqlite storage or live object: a trial is a run, what it reports its log.

The package ``optuna`` is not needed. A trial reports one number per step; its name is that of
``study.set_metric_names``, otherwise ``value``, which the caller has to give a meaning.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers import log_runs, stores
from checkwise.readers.columns import spells
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import LoadedRun, NoRecordsError, Request
from checkwise.readers.rows import log_of_records
from checkwise.words import printable, shown

VALUE: Final = "value"
OF_OPTUNA: Final = {"trials": ("number",), "trial_intermediate_values": ("intermediate_value",)}
_REQUIRED: Final = {
    "studies": ("study_id", "study_name"),
    "study_directions": ("study_id", "direction"),
    "study_system_attributes": ("study_id", "key", "value_json"),
    "study_user_attributes": ("study_id", "key", "value_json"),
    "trials": ("trial_id", "number", "study_id"),
    "trial_user_attributes": ("trial_id", "key", "value_json"),
    "trial_intermediate_values": (
        "trial_id", "step", "intermediate_value", "intermediate_value_type",
    ),
}  # fmt: skip
_NOT_FINITE: Final = {"NAN": nan, "INF_POS": inf, "INF_NEG": -inf}


@dataclass
class _Study:
    """Trial → step → what it reported, and what users wrote beside, of all trials under None."""

    name: str
    direction: str
    metrics: Any = ()
    trials: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    said: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def say(self, trial: Any, attributes: Mapping[Any, Any]) -> None:
        """Add attributes that a user has written."""
        beside = {f"user_attrs/{key}": value for key, value in attributes.items()}
        self.said.setdefault(trial, {}).update(beside)


def recognises(path: Path) -> bool:
    """Whether a file is an sqlite database with Optuna's tables."""
    return path.is_file() and stores.has_tables(path, OF_OPTUNA)


def read(path: Path, request: Request) -> list[Log]:
    """A log for every trial that reported something."""
    stores.check_columns(path, _REQUIRED, "upgrade it with `optuna storage upgrade`")
    return _logs(path, stores.read(path, _studies), request)


def read_study(study: Any, request: Request) -> list[LoadedRun]:
    """The runs of a live ``optuna.Study``."""
    found = _Study(study.study_name, study.directions[0].name, study.metric_names or ())
    found.say(None, study.user_attrs)
    for trial in study.trials:
        found.trials[trial.number] = dict(trial.intermediate_values)
        found.say(trial.number, trial.user_attrs)
    place = Path(printable(study.study_name))
    return log_runs.read(_logs(place, [found], request), request, place)


def _studies(connection: sqlite3.Connection) -> list[_Study]:
    """The studies with values."""
    studies: dict[Any, _Study] = {}
    for number, name, direction, trial, step, value, kind in stores.rows_of(
        connection,
        "SELECT s.study_id, s.study_name, d.direction, t.number, v.step, v.intermediate_value, "
        "v.intermediate_value_type FROM trial_intermediate_values v JOIN trials t USING (trial_id) "
        "JOIN studies s USING (study_id) JOIN study_directions d USING (study_id) "
        "ORDER BY t.trial_id, v.step",
    ):
        study = studies.setdefault(number, _Study(str(name), str(direction)))
        study.trials.setdefault(trial, {})[step] = _NOT_FINITE.get(kind, value)
    for number, trial, key, value in stores.rows_of(
        connection,
        "SELECT study_id, 'names', key, value_json FROM study_system_attributes "
        "WHERE key = 'study:metric_names' "
        "UNION ALL SELECT study_id, NULL, key, value_json FROM study_user_attributes "
        "UNION ALL SELECT study_id, number, key, value_json FROM trial_user_attributes "
        "JOIN trials USING (trial_id)",
    ):
        if number in studies and trial == "names":
            studies[number].metrics = _parsed(value)
        elif number in studies:
            studies[number].say(trial, {key: _parsed(value)})
    return [*studies.values()]


def _parsed(cell: Any) -> Any:
    """The value of a JSON text; the text itself where it is none."""
    try:
        return json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return cell


def _logs(path: Path, studies: Sequence[_Study], request: Request) -> list[Log]:
    names = [study.name for study in studies]
    logs = []
    for study in studies:
        # What the caller calls a source may be the name of a study, of which each says its own.
        sets = {f"study {n}/set": n for n in names if n in (study.name, *request.sources)}
        metric = _metric(path, study, request)
        for number, reported in study.trials.items():
            if not reported:
                continue
            _check(path, number, reported)
            beside = {**sets, **study.said.get(None, {}), **study.said.get(number, {})}
            records = [{**beside, "step": k, metric: float(v)} for k, v in sorted(reported.items())]
            logs.append(
                log_of_records(
                    path,
                    records,
                    request,
                    trainer=Trainer("Optuna", validation=(metric,)),
                    axes={"step": "step"},
                    without=beside,
                    run=f"{study.name}/trial {number}" if len(studies) > 1 else f"trial {number}",
                )
            )
    if not logs:
        raise NoRecordsError(
            f"Expected a trial with intermediate values, but the study {path} has none: call "
            "trial.report(value, step) at every checkpoint.",
            code="empty",
        )
    return logs


def _metric(path: Path, study: _Study, request: Request) -> str:
    """What its trials report, which has to be better in the direction of the study."""
    named = isinstance(study.metrics, Sequence) and study.metrics and study.metrics[0]
    name = printable(named) if isinstance(named, str) else VALUE
    direction = study.direction.lower()
    told = [metric for metric, column in request.columns.items() if column == name]
    for metric in told or [metric for metric in METRICS if spells(name, metric)]:
        wanted = "maximize" if METRICS[metric].direction == "higher" else "minimize"
        if wanted != direction:
            raise InputError(
                f"Expected a study that would {wanted} {metric}, but {path} would {direction} it: "
                "check what its trials report.",
                code="differs",
            )
    if name == VALUE and not told and any(study.trials.values()):
        meaning = "accuracy" if direction == "maximize" else "nll"
        raise InputError(
            f"Expected to know what the trials report, but {path} says only that they {direction} "
            f"a {VALUE}: name it with --column {meaning}={VALUE}, or by study.set_metric_names.",
            code="ambiguous",
        )
    return name


def _check(path: Path, number: Any, reported: Mapping[Any, Any]) -> None:
    """Refuse what no Optuna writes: numbers of trials and steps are whole."""
    for step, value in reported.items():
        if type(number) is not int or type(step) is not int or type(value) not in (int, float):
            raise InputError(
                "Expected whole numbers of trials and steps and a number at each, but got "
                f"{shown(value)} at step {shown(step)} of trial {shown(number)} in {path}: delete "
                "that row.",
                code="format",
            )
