"""Lists of values, one for every epoch or tree: ``History.history``, ``evals_result``, your own.

What stands beside the lists is named and not read; where it calls the values those of a test, the
caller is asked. Lists in two levels are sets with metrics each, where the outer names say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkwise.errors import InputError
from checkwise.readers.columns import Side, has_validation, is_training_set, side, tokens
from checkwise.readers.json_lines import flattened
from checkwise.readers.log import HISTORY, KERAS, OTHER, TREES, Log
from checkwise.readers.request import Request
from checkwise.readers.rows import has_axis, log_of_rows, trainer_of
from checkwise.records import TRAINING_WORDS, VALIDATION_WORDS, Columns, looks_held_out
from checkwise.words import listed, shortened, shown

Path_ = tuple[str, ...]
_SETS: Final = {*TRAINING_WORDS, *VALIDATION_WORDS, "test", "learn"}
# What boosted trees call their metrics, without parameters; and how each library says the same.
_TREES: Final = {
    "XGBoost": "merror mlogloss error logloss aucpr",
    "LightGBM": "multi_error multi_logloss binary_error binary_logloss l1 l2 auc_mu cross_entropy "
    "average_precision",
    "CatBoost": "MultiClass Logloss CrossEntropy Accuracy ZeroOneLoss AUC F1 TotalF1 MCC RMSE MAE "
    "MAPE R2 BalancedAccuracy PRAUC Kappa",
    "": "auc rmse mae mape map ndcg",
}
_EPOCH: Final = re.compile(r"(?:epoch)?[ _-]?([0-9]{1,9})", re.IGNORECASE)
_UNREAD: Final = (Side.HELD_OUT, Side.TRAINING)
SAME: Final = {
    "error": "error_rate", "ZeroOneLoss": "error_rate", "MultiClass": "nll", "CrossEntropy": "nll",
    "cross_entropy": "nll",
}  # fmt: skip
CALLS: Final = {
    "XGBoost": "predict(…, iteration_range=(0, {step}))",
    "LightGBM": "predict(…, num_iteration={step})",
    "CatBoost": "predict(…, ntree_end={step})",
}
# What the scikit-learn classes of XGBoost and LightGBM call the first eval_set, whatever it is.
_FIRST_SETS: Final = ("validation_0", "valid_0")
CALLS_OF_ALL: Final = "iteration_range=(0, {step}) in XGBoost, num_iteration={step} in LightGBM"


def plain(value: Any) -> Any:
    """A history with lists where it has arrays, and strings as names."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def has_lists(document: Any) -> bool:
    """Whether there is any list."""
    return isinstance(document, Mapping) and bool(_parted(document)[0])


def is_history(document: Any) -> bool:
    """Whether a JSON value holds lists, and some say that they are of validation."""
    if not isinstance(document, Mapping):
        return False
    names, called = _names(_parted(document)[0])
    return bool(called) or has_validation(names, OTHER)


def open_history(document: Mapping[str, Any], path: Path, request: Request) -> Log:
    """The log that lists of values are."""
    lists, beside = _parted(document)
    if not lists:
        raise InputError(
            f"Expected lists of values, one for every epoch, but {path} has none: give the log of "
            "the training.",
            code="empty",
        )
    names, called = _names(lists)
    columns = dict(zip(names, lists.values(), strict=True))
    if len(columns) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InputError(
            f"Expected every list once, but {path} has two that are called {shown(twice)}: keep "
            "the one that counts.",
            code="ambiguous",
        )
    told = {n for n in names if n in called and called[n][0] in request.held_out}
    sides = {n: Side.HELD_OUT if n in told else _side(n, called) for n in names}
    length = _length({n: v for n, v in columns.items() if sides[n] is Side.VALIDATION}, path)
    length = length or max(map(len, columns.values()))
    others = [n for n, v in columns.items() if len(v) != length and sides[n] not in _UNREAD]
    # What is never read may have any length, and changes nothing.
    aligned = {n: [*v, *[None] * length][:length] for n, v in columns.items() if n not in others}
    library = _library({metric for _, metric in called.values()}) if called else None
    if not has_axis([*aligned]):
        axis, first = ("epoch", 0) if library is None else ("step", 1)
        aligned[axis] = list(range(first, first + length))
    others += ["/".join(place) for place in beside if side(place[-1], OTHER) not in _UNREAD]
    trainer = trainer_of([*aligned])
    notes = [f"beside its lists, not read: {shortened(others)}"] if others else []
    first_set = next((s for s, _ in called.values() if s in _FIRST_SETS), "")
    if first_set and len({s for s, _ in called.values()}) > 1:
        notes.append(f"if {first_set} is the training data, leave it out: --held-out {first_set}")

    def rows(wanted: Sequence[str]) -> Iterable[Sequence[Any]]:
        return zip(*(aligned[name] for name in wanted), strict=True) if wanted else ()

    log = log_of_rows(
        path, [*aligned], rows, request,
        trainer=TREES if library is not None else trainer if trainer == KERAS else HISTORY,
        called={n: (where, SAME.get(metric, metric)) for n, (where, metric) in called.items()},
        call="" if library is None else CALLS.get(library, CALLS_OF_ALL),
        notes=tuple(notes),
    )  # fmt: skip
    apart: dict[Path_, Any] = {(n,): columns[n] for n in others if n in columns}
    return replace(log, said=lambda: _said(log, {**beside, **apart}))


def _side(name: str, called: Mapping[str, tuple[str, str]]) -> Side:
    if name not in called:
        return side(name, OTHER)
    inside = called[name][0]
    if is_training_set(inside):
        return Side.TRAINING
    return Side.HELD_OUT if looks_held_out(inside) else Side.VALIDATION


def _length(columns: Mapping[str, Sequence[Any]], path: Path) -> int:
    """How many values most lists of validation have; 0 where there is none."""
    numeric = (values for values in columns.values() if any(map(_is_number, values)))
    lengths = Counter(map(len, numeric)).most_common()
    if len(lengths) > 1 and lengths[0][1] == lengths[1][1]:
        raise InputError(
            f"Expected validation lists of one length, but those in {path} have "
            f"{listed([str(n) for n, _ in lengths])} values: keep the epochs that have all.",
            code="differs",
        )
    return lengths[0][0] if lengths else 0


def _said(log: Log, beside: Mapping[Path_, Any]) -> Columns:
    """What the lists say, and what stands beside them: flags, and what is about no other set."""
    yield from log.said()
    for place, value in beside.items():
        name = "/".join(place)
        if isinstance(value, bool) or side(name, OTHER) not in _UNREAD:
            yield name, value if isinstance(value, list) else [value]


def _parted(document: Mapping[str, Any]) -> tuple[dict[Path_, list[Any]], dict[Path_, Any]]:
    """Lists that could be a column, and what stands beside them, by their names from outside in."""
    lists: dict[Path_, list[Any]] = {}
    beside: dict[Path_, Any] = {}
    waiting: list[tuple[Path_, Any]] = [((), document)]
    for place, value in waiting:  # grows while it is read: it may nest deeper than calls may
        if isinstance(value, Mapping) and (column := _numbered(value)) is not None:
            value = column
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            value = _of_records(value)
        if isinstance(value, Mapping):
            waiting += [((*place, str(name)), inner) for name, inner in value.items()]
        elif place and isinstance(value, list) and value:
            lists[place] = value
        elif place:
            beside[place] = value
    return lists, beside


def _numbered(value: Mapping[Any, Any]) -> list[Any] | None:
    """What lies under numbers: ``{"0": 0.5, "1": 0.6}`` of pandas, ``{"epoch_1": {…}, …}``."""
    keys = [str(key) for key in value]
    if keys and keys == [str(k) for k in range(len(keys))]:
        return list(value.values())
    numbers = [match[1] for key in keys if (match := _EPOCH.fullmatch(key))]
    if not numbers or len(numbers) < len(keys):
        return None
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        return None
    return [{"epoch": int(n), **one} for n, one in zip(numbers, value.values(), strict=True)]


def _of_records(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Records as columns."""
    rows = [flattened(record) for record in records]
    return {
        name: [row.get(name) for row in rows] for name in dict.fromkeys(n for r in rows for n in r)
    }


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _names(lists: Iterable[Path_]) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """What the lists are called; and where they lie in sets, the set and the metric of each."""
    places = list(lists)
    metrics = {place[-1] for place in places}
    outer = {place[0] for place in places}
    in_sets = (
        all(len(place) == 2 for place in places)
        and any(map(_is_set, outer))
        and not any(map(_is_set, metrics))
        and (_library(metrics) is not None or sum(not is_training_set(name) for name in outer) > 1)
    )
    if in_sets:
        return ["/".join(place) for place in places], {"/".join(p): (p[0], p[1]) for p in places}
    # A name that says test stays: no other says whose values they are.
    parents = {
        place[:-1]
        for place in places
        if side(place[-1], OTHER) is Side.VALIDATION and not any(map(looks_held_out, place[:-1]))
    }
    root = parents.pop() if len(parents) == 1 else _common(places)
    root = () if any(map(looks_held_out, root)) else root
    bare = [place[len(root) :] if place[: len(root)] == root else place for place in places]
    return ["/".join(place) for place in bare], {}


def _common(places: Sequence[Path_]) -> Path_:
    """The names around all lists alike."""
    depth = 0
    while len({place[: depth + 1] for place in places}) == 1 and len(places[0]) > depth + 1:
        depth += 1
    return places[0][:depth] if places else ()


def _is_set(name: str) -> bool:
    return bool(set(tokens(name)) & _SETS)


def _library(metrics: Iterable[str]) -> str | None:
    """Which library of boosted trees has such metrics; "" where several do, None where none."""
    bare = {re.split("[:@]", name)[0] for name in metrics}
    every = {name: set(known.split()) for name, known in _TREES.items()}
    if not bare or not bare <= set().union(*every.values()):
        return None
    return next((name for name in CALLS if bare & every[name]), "")
