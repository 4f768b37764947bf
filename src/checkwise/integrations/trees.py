"""How many trees of a boosted model to use, by validation data: every stage is a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from checkwise.calibrators import Fitted, fit
from checkwise.errors import InputError
from checkwise.metrics import two_columns
from checkwise.selection import LiveSelection, Selection
from checkwise.words import shown

Array = np.ndarray[Any, np.dtype[Any]]
STAGES: Final = 200  # at most so many stages are compared


@dataclass(frozen=True)
class Trees:
    """A boosted model cut to the chosen number of trees, with a calibrator.

    Attributes:
        model: as it was given.
        iteration: how many rounds of boosting to use.
        call: how to predict with so many in the model's own library.
        selection: why.
        calibrator: fitted to validation at that iteration.
    """

    model: Any
    iteration: int
    call: str
    selection: Selection
    calibrator: Fitted

    def predict_proba(self, x: Any) -> Array:
        """Calibrated probabilities [n, C] of the chosen number of trees."""
        return self.calibrator.probabilities(_staged(self.model).logits(x, self.iteration))


def choose(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    every: int | None = None,
    calibrator: str = "ts-soften",
    **settings: Any,
) -> Trees:
    """Choose the number of trees near the best accuracy with the most reliable probabilities.

    Args:
        model: a fitted classifier of XGBoost, LightGBM, CatBoost or scikit-learn.
        x, y: validation data; or ``x`` alone, as ``{"site a": (x, y), …}``.
        every: compare every so many trees; by default all, or about 200 of them.
        calibrator: what `checkwise.calibrators.fit` takes.
        settings: what `LiveSelector` takes, such as ``delta_pp`` or ``guard``.
    """
    staged = _staged(model)
    sets = x if isinstance(x, Mapping) else {"validation": (x, y)}
    labels = {name: _numbers(target, staged.classes) for name, (_, target) in sets.items()}
    step = every or -(-staged.total // STAGES)
    steps = [*range(step, staged.total, step), staged.total]
    stages = {name: staged.stages(data, steps) for name, (data, _) in sets.items()}
    live = LiveSelection(**settings)
    for k in steps:
        live.add(k, {name: (next(logits), labels[name]) for name, logits in stages.items()})
    selection, chosen = live.selection, live.choice
    if selection is None or chosen is None:
        raise InputError("Expected finite margins of some stage, but none is.", code="empty")
    outputs = {
        name: (staged.logits(data, chosen), labels[name]) for name, (data, _) in sets.items()
    }
    return Trees(model, chosen, staged.call(chosen), selection, fit(outputs, calibrator))


@dataclass(frozen=True)
class _Staged:
    """A model whose first ``k`` trees can be asked."""

    total: int
    margins: Callable[[Any, int], Any]
    call: Callable[[int], str]
    classes: Any = None
    walk: Callable[[Any], Iterable[Any]] | None = None  # the margins of every stage in turn

    def stages(self, x: Any, steps: Sequence[int]) -> Iterator[Array]:
        """The logits of some stages, in their order."""
        if self.walk is None:
            return (self.logits(x, k) for k in steps)
        wanted = set(steps)
        return (_two(m) for k, m in enumerate(self.walk(x), start=1) if k in wanted)

    def logits(self, x: Any, k: int) -> Array:
        """Those [n, C] of the first ``k`` trees."""
        return _two(self.margins(x, k))


def _two(margins: Any) -> Array:
    """Logits [n, C]; of one margin, those of the classes 0 and 1."""
    found: Array = two_columns(np.asarray(margins, dtype=np.float64), "logits")
    return found


def _staged(model: Any) -> _Staged:
    library = type(model).__module__.split(".")[0]
    if library in _LIBRARIES:
        return _LIBRARIES[library](model)
    if hasattr(model, "staged_predict_proba"):
        return _sklearn(model)
    raise InputError(
        "Expected a fitted classifier of XGBoost, LightGBM, CatBoost or scikit-learn with "
        f"staged_predict_proba, but got {type(model).__name__}.",
        code="unsupported",
    )


def _xgboost(model: Any) -> _Staged:
    import xgboost

    alone = isinstance(model, xgboost.Booster)
    booster = model if alone else model.get_booster()
    settings = json.loads(booster.save_config())["learner"]
    _check(settings["objective"]["name"], ("binary:logistic", "multi:softprob", "multi:softmax"))

    def margins(x: Any, k: int) -> Any:
        if not alone:
            return model.predict(x, output_margin=True, iteration_range=(0, k))
        data = x if isinstance(x, xgboost.DMatrix) else xgboost.DMatrix(x, enable_categorical=True)
        return booster.predict(data, output_margin=True, iteration_range=(0, k))

    return _Staged(
        booster.num_boosted_rounds(),
        margins,
        lambda k: f"predict(…, iteration_range=(0, {k}))",
        getattr(model, "classes_", None),
    )


def _lightgbm(model: Any) -> _Staged:
    booster = getattr(model, "booster_", model)
    objective, *details = str(booster.dump_model()["objective"]).split()
    _check(objective, ("binary", "multiclass"))
    slope = next((float(d.split(":")[1]) for d in details if d.startswith("sigmoid:")), 1.0)
    scale = slope if objective == "binary" else 1.0
    return _Staged(
        booster.current_iteration(),
        lambda x, k: scale * np.asarray(booster.predict(x, raw_score=True, num_iteration=k)),
        lambda k: f"predict(…, num_iteration={k})",
        getattr(model, "classes_", None),
    )


def _catboost(model: Any) -> _Staged:
    _check(str(model.get_all_params()["loss_function"]), ("Logloss", "CrossEntropy", "MultiClass"))
    return _Staged(
        model.tree_count_,
        lambda x, k: model.predict(x, prediction_type="RawFormulaVal", ntree_end=k),
        lambda k: f"predict(…, ntree_end={k})",
        model.classes_,
    )


def _sklearn(model: Any) -> _Staged:
    def walk(x: Any) -> Iterator[Array]:
        for probabilities in model.staged_predict_proba(x):
            yield np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))

    return _Staged(
        int(getattr(model, "n_iter_", 0) or len(model.estimators_)),
        lambda x, k: next(islice(walk(x), k - 1, None)),
        lambda k: f"next(itertools.islice(staged_predict_proba(…), {k - 1}, None))",
        model.classes_,
        walk,
    )


_LIBRARIES: Final = {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}


def _check(objective: str, known: tuple[str, ...]) -> None:
    if objective not in known:
        raise InputError(
            f"Expected a classifier with one of the losses {', '.join(known)}, but this model has "
            f"{shown(objective)}.",
            code="unsupported",
        )


def _numbers(labels: Any, classes: Any) -> Array:
    """Labels as the numbers of a model's classes."""
    found = np.asarray(labels)
    if classes is None:
        return found
    known = np.asarray(classes)
    places = np.searchsorted(known, found)
    wrong = known[np.minimum(places, len(known) - 1)] != found
    if wrong.any():
        raise InputError(
            f"Expected labels among the classes of the model, but got {shown(found[wrong][0])}.",
            code="unknown",
        )
    return places
