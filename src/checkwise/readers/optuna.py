"""Optuna's studies, as sqlite storage or live object: a trial is a run, what it reports its log.

The package ``optuna`` is not needed. A trial reports one number per step; its name is that of
``study.set_metric_names``, otherwise ``value``, which the caller has to give a meaning.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, Final

from checkwise.errors import InputError
from checkwise.metrics import METRICS
from checkwise.readers import log_runs, stores
from checkwise.readers.json_lines import NoRecordsError
from checkwise.readers.log import Log, Trainer
from checkwise.readers.request import LoadedRun, Request
from checkwise.readers.rows import log_of_records
from checkwise.words import printable, shown

VALUE: Final = "value"
OF_OPTUNA: Final = {
    "studies": ("study_id", "study_name"),
    "study_directions": ("study_id", "direction"),
    "trials": ("trial_id", "number", "study_id"),
    "trial_intermediate_values": ("trial_id", "step", "intermediate_value"),
}
_TYPED: Final = {"trial_intermediate_values": ("intermediate_value_type",)}  # since Optuna 3
_NOT_FINITE: Final = {"NAN": nan, "INF_POS": inf, "INF_NEG": -inf}


def recognises(path: Path) -> bool:
    """Whether a file is an sqlite database with Optuna's tables."""
    return path.is_file() and stores.has_tables(path, OF_OPTUNA)


def read(path: Path, request: Request) -> list[Log]:
    """A log for every trial that reported something."""
    logs: list[Log] = []
    rows = stores.read(path, _studies)
    for study, (direction, names, trials, told) in rows.items():
        prefix = f"{study}/" if len(rows) > 1 else ""
        sets = {f"study {other}/set": other for other in rows if other in (study, *request.sources)}
        said = {number: {**sets, **told.get(None, {}), **told.get(number, {})} for number in trials}
        logs += _logs(path, prefix, direction.lower(), names, trials, said, request)
    return _any(logs, str(path))


def read_study(study: Any, request: Request) -> list[LoadedRun]:
    """The runs of a live ``optuna.Study``."""
    trials = {trial.number: dict(trial.intermediate_values) for trial in study.trials}
    place = Path(printable(study.study_name))
    direction = study.directions[0].name.lower()
    sets = {f"study {study.study_name}/set": study.study_name, **_attributes(study.user_attrs)}
    said = {trial.number: {**sets, **_attributes(trial.user_attrs)} for trial in study.trials}
    logs = _logs(place, "", direction, study.metric_names or (), trials, said, request)
    return log_runs.read(_any(logs, str(place)), request, place)


def _studies(connection: sqlite3.Connection) -> dict[str, Any]:
    """Study → direction, names of metrics, trial → step → value, and what attributes say."""
    typed = not stores.lacking(connection, _TYPED)
    kind = "intermediate_value_type" if typed else "'FINITE'"
    named = {}
    if not stores.lacking(connection, {"study_system_attributes": ("key", "value_json")}):
        named = dict(
            stores.rows_of(
                connection,
                "SELECT study_id, value_json FROM study_system_attributes "
                "WHERE key = 'study:metric_names'",
            )
        )
    found: dict[str, Any] = {}
    for study, name, direction, number, step, value, type_ in stores.rows_of(
        connection,
        "SELECT s.study_id, s.study_name, d.direction, t.number, v.step, v.intermediate_value, "
        f"{kind} FROM trial_intermediate_values v JOIN trials t USING (trial_id) "
        "JOIN studies s USING (study_id) JOIN study_directions d USING (study_id) "
        "ORDER BY t.trial_id, v.step",
    ):
        names = _names(named.get(study))
        _, _, trials, _ = found.setdefault(str(name), (str(direction), names, {}, {}))
        trials.setdefault(number, {})[step] = _NOT_FINITE.get(type_, value)
    for name, number, key, value in _stored_attributes(connection):
        if str(name) in found:
            found[str(name)][-1].setdefault(number, {}).update(_attributes({key: _parsed(value)}))
    return found


def _stored_attributes(connection: sqlite3.Connection) -> list[Any]:
    """Study, trial (None for all of them), key and JSON of what users have written beside."""
    rows: list[Any] = []
    for table, number, trials in (
        ("study_user_attributes", "NULL", ""),
        ("trial_user_attributes", "t.number", "JOIN trials t USING (trial_id)"),
    ):
        if not stores.lacking(connection, {table: ("key", "value_json")}):
            rows += stores.rows_of(
                connection,
                f"SELECT s.study_name, {number}, a.key, a.value_json FROM {table} a {trials} "
                "JOIN studies s USING (study_id)",
            )
    return rows


def _attributes(told: Mapping[Any, Any]) -> dict[str, Any]:
    return {f"user_attrs/{key}": value for key, value in told.items()}


def _parsed(cell: Any) -> Any:
    """The value of a JSON text; the text itself where it is none."""
    try:
        return json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return cell


def _names(cell: Any) -> Sequence[str]:
    names = _parsed(cell)
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else ()


def _logs(
    path: Path,
    prefix: str,
    direction: str,
    names: Sequence[str],
    trials: Mapping[int, Mapping[int, Any]],
    said: Mapping[int, Mapping[str, Any]],
    request: Request,
) -> list[Log]:
    name = printable(names[0]) if names else VALUE
    told = [metric for metric, column in request.columns.items() if column == name]
    for metric in (metric for metric in told or [name] if metric in METRICS):
        wanted = "maximize" if METRICS[metric].direction == "higher" else "minimize"
        if wanted != direction:
            raise InputError(
                f"Expected a study that would {wanted} {metric}, but {path} would {direction} it: "
                "check what its trials report.",
                code="differs",
            )
    if name == VALUE and not told and any(trials.values()):
        meaning = "accuracy" if direction == "maximize" else "nll"
        raise InputError(
            f"Expected to know what the trials report, but {path} says only that they {direction} "
            f"a {VALUE}: name it with --column {meaning}={VALUE}, or by study.set_metric_names.",
            code="ambiguous",
        )
    trainer = Trainer("Optuna", validation=(name,))
    for number in trials:
        if type(number) is not int:
            raise InputError(
                f"Expected whole numbers of trials, but got {shown(number)} in {path}: delete that "
                "trial.",
                code="format",
            )
    logs = []
    for number, reported in sorted(trials.items()):
        if not reported:
            continue
        for step, value in reported.items():
            if type(step) is not int or type(value) not in (int, float):
                raise InputError(
                    f"Expected a number at every step of trial {shown(number)}, but got "
                    f"{shown(value)} at {shown(step)} in {path}: delete that row.",
                    code="format",
                )
        beside = said[number]
        records = [
            {**beside, "step": step, name: float(value)} for step, value in sorted(reported.items())
        ]
        logs.append(
            log_of_records(
                path, records, request, trainer=trainer, axes={"step": "step"}, without=beside,
                run=f"{prefix}trial {number}",
            )
        )  # fmt: skip
    return logs


def _any(logs: list[Log], where: str) -> list[Log]:
    if not logs:
        raise NoRecordsError(
            f"Expected a trial with intermediate values, but the study {where} has none: call "
            "trial.report(value, step) at every checkpoint.",
            code="empty",
        )
    return logs
